// JSON from files: bounded in depth, never throwing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "isotope/result.h"

namespace isotope::weights {

constexpr int kMaxJsonDepth = 128;

/// Parses a JSON text of at most kMaxJsonDepth levels. Accepts what Python's json module writes beyond the standard: Infinity
/// (read as the largest double) and NaN (read as null). Errors name `source` and the offset.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& source);

/// A name from a file made fit for a message: quoted, control characters and invalid UTF-8 escaped, cut after 80 bytes.
std::string quote_name(std::string_view name);
/// True for text that may name a tensor or key: not empty, at most `limit` bytes of valid UTF-8 without NUL.
bool valid_name(std::string_view name, size_t limit);

/// "a, b, c" of at most 20 names, quoted, then "and N more".
template <class Range>
std::string listed(const Range& names) {
  std::string s;
  size_t n = 0;
  for (const auto& name : names)
    if (++n <= 20) s.append(n > 1 ? ", " : "").append(quote_name(name));
  return n > 20 ? s + " and " + std::to_string(n - 20) + " more" : s;
}

}  // namespace isotope::weights
