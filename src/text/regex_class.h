// Character classes and properties of Oniguruma as PCRE2 text; used by the pattern translator only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "isotope/result.h"

namespace isotope::text {

/// A code point as PCRE2 reads it literally, inside and outside of classes.
std::string regex_literal(char32_t c);
/// \w of Oniguruma as one class.
std::string class_of_word();
/// The literal that the escape at `at` (a backslash) names, with `at` moved behind it; nothing if the escape is a class or a property.
Result<std::optional<char32_t>> escaped_char(std::string_view in, size_t& at);
/// \d \w \s \h \p{…} and their negations.
Result<std::string> translate_class_escape(std::string_view in, size_t& at);
/// A bracket expression that starts at `at`, with nested classes, && and POSIX brackets.
Result<std::string> translate_class(std::string_view in, size_t& at);

}  // namespace isotope::text
