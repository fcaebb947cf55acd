// Text like "rate=20,burst=4" into numbers: what the simulator's options have in common.
#pragma once

#include <span>
#include <string_view>

#include "isotope/result.h"

namespace isotope::sched {

struct NamedNumber {
  std::string_view name;
  double* value;  ///< what is not named stays as it is
  double least = 0, most = 1;
};

/// NAME=NUMBER, separated by commas; of a name given twice the last one counts. Nothing may stand behind a number. Errors name the item, `source` and what may stand there.
Result<void> parse_numbers(std::string_view text, std::span<const NamedNumber>, std::string_view source);

}  // namespace isotope::sched
