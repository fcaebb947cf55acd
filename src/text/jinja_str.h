// String operations that methods and filters share. All keep track of which bytes are content, and of Markup.
#pragma once

#include "text/jinja_value.h"

namespace isotope::text::jinja {

inline constexpr size_t kNone = std::string_view::npos;

enum class Casing : uint8_t { lower, upper, title, capitalize, swap, fold };
Value change_case(Budget& b, const Str& s, Casing how);
std::string lower_text(const Str& s);                                              ///< for keys: ignore_case
/// chars: a str, or missing / None for white space.
Value strip(Budget& b, const Str& s, const Value& chars, bool left, bool right);
Value replace(Budget& b, const Str& s, const Str& from, const Str& to, int64_t count);
Value pad(Budget& b, const Str& s, int64_t left, int64_t right, const Str* fill = nullptr);
Value center(Budget& b, const Str& s, int64_t width, const Str* fill = nullptr);
Value join(Budget& b, const Str& separator, const std::vector<Value>& items);      ///< items must be strings
std::vector<Value> split_lines(Budget& b, const Str& s, bool keep_ends);
std::vector<Value> split(Budget& b, const Str& s, const Value& separator, int64_t max);
std::vector<Value> rsplit(Budget& b, const Str& s, const Value& separator, int64_t max);

size_t find_bytes(Budget& b, std::string_view hay, std::string_view needle, size_t from = 0);   ///< linear time
size_t rfind_bytes(Budget& b, std::string_view hay, std::string_view needle);

}  // namespace isotope::text::jinja
