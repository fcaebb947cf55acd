// Numbers to text and back, digit for digit as Python writes and reads them.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja_value.h"

namespace isotope::text::jinja {

std::string repr_real(double d);                                ///< repr(float): shortest digits that read back, 1e+16, inf, nan
/// printf's e, f, g (and their capitals) in the C locale; '#' keeps the point. Precision is capped at 1000.
std::string format_real(double d, char type, int precision, bool alternate = false);
double round_real(double d, int64_t digits);                    ///< round(float, digits): half to even on the exact binary value
bool parse_int(std::string_view s, int64_t base, Value& out);   ///< int(str, base): white space, sign, 0x prefixes, underscores
bool parse_real(std::string_view s, double& out);               ///< float(str)
std::string int_digits(uint64_t magnitude, unsigned base, bool upper);

}  // namespace isotope::text::jinja
