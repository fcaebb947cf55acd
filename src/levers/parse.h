// Text to canonical value by a row's rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "isotope/result.h"
#include "levers/catalogue.h"

namespace isotope::levers {

struct Parsed {
  std::string value;                   ///< canonical text; empty = unset
  std::optional<std::string> warning;
};

/// "1 true yes on" / "0 false no off" in any case, blanks around ignored.
std::optional<bool> parse_boolean(std::string_view);
/// `where` names the source for messages: "environment", "--set", "config.toml". `inverted`: the alias used has the opposite polarity.
Result<Parsed> parse_value(const Row&, std::string_view text, std::string_view where, bool inverted = false);

}  // namespace isotope::levers
