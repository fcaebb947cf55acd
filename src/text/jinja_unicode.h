// Code points as Python's str sees them: classes, white space, full case mappings. Input is always valid UTF-8 (see sanitize).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace isotope::text::jinja {

/// Replaces every maximal invalid part by U+FFFD. Everything that enters the engine passes here, so the rest may trust its input.
std::string sanitize(std::string_view bytes);

/// The code point at s[pos]; pos moves behind it. REQUIRES: s is valid UTF-8 and pos < s.size() stands on a lead byte.
char32_t next_point(std::string_view s, size_t& pos);
/// The code point that ends before pos; pos moves onto its lead byte. REQUIRES: pos > 0.
char32_t prev_point(std::string_view s, size_t& pos);
void append_point(std::string& out, char32_t c);
size_t count_points(std::string_view s);

bool is_space(char32_t c);        ///< str.isspace, and \s of Python's regular expressions
bool is_line_break(char32_t c);   ///< where str.splitlines cuts
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_cased(char32_t c);
bool is_printable(char32_t c);    ///< false where repr() writes an escape
bool is_word(char32_t c);         ///< \w of Python's regular expressions
bool is_identifier(std::string_view s);

/// Full mappings (one code point may become up to three). lower needs its surroundings because of the final sigma.
void append_upper(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);
void append_fold(std::string& out, char32_t c);
void append_lower(std::string& out, std::string_view whole, size_t pos, char32_t c);

}  // namespace isotope::text::jinja
