// Regular expressions of JSON strings.
#pragma once

#include <string>
#include <string_view>

#include "isotope/result.h"

namespace isotope::text {

/// The expression in ASCII, fit for the inside of a JSON string. The library writes what an expression matches as it is, without JSON's escapes, so
/// whatever asks for a quote, a backslash or a control character is refused; classes that also have other characters lose them. `at`: the field.
Result<std::string> json_pattern(std::string_view pattern, const std::string& at);

/// The expression with pairs of surrogates (\ud83d\ude00) as one character. Fails on half of a pair, which no text has.
Result<std::string> joined_surrogates(std::string_view pattern, const std::string& at);

}  // namespace isotope::text
