#include "text/jinja_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/jinja_unicode.h"

namespace isotope::text::jinja {
namespace {

std::string_view strip(std::string_view s) {
  while (!s.empty()) {
    size_t p = 0;
    if (!is_space(next_point(s, p))) break;
    s.remove_prefix(p);
  }
  while (!s.empty()) {
    size_t p = s.size();
    if (!is_space(prev_point(s, p))) break;
    s = s.substr(0, p);
  }
  return s;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// An underscore must stand between two digits.
bool drop_underscores(std::string_view s, std::string& out) {
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '_') {
      out += s[i];
      continue;
    }
    if (i == 0 || i + 1 == s.size() || digit_of(s[i - 1]) > 35 || digit_of(s[i + 1]) > 35) return false;
  }
  return true;
}

std::string lower_ascii(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return out;
}

// %#g: the digits %g would drop stay.
std::string alternate_general(double d, int precision) {
  char buf[1500];
  const auto s = std::to_chars(buf, buf + sizeof buf, d, std::chars_format::scientific, precision - 1);
  const std::string_view text(buf, static_cast<size_t>(s.ptr - buf));
  const size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= precision) return std::string(text);
  const auto f = std::to_chars(buf, buf + sizeof buf, d, std::chars_format::fixed, precision - 1 - exponent);
  return std::string(buf, f.ptr);
}

}  // namespace

std::string repr_real(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buf[64];
  const auto r = std::to_chars(buf, buf + sizeof buf, d, std::chars_format::scientific);
  const std::string_view s(buf, static_cast<size_t>(r.ptr - buf));
  const size_t e = s.find('e');
  std::string out = s[0] == '-' ? "-" : "";
  std::string digits;
  for (char c : s.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  int exponent = 0;
  const std::string_view tail = s.substr(e + (s[e + 1] == '+' ? 2 : 1));
  std::from_chars(tail.data(), tail.data() + tail.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += '.' + digits.substr(1);
    const int a = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (a < 10 ? "0" : "") + std::to_string(a);
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + '.' + digits.substr(whole);
}

std::string format_real(double d, char type, int precision, bool alternate) {
  const bool upper = type >= 'A' && type <= 'Z';
  const char kind = upper ? static_cast<char>(type + 32) : type;
  std::string out;
  if (!std::isfinite(d)) {
    out = std::isnan(d) ? "nan" : d < 0 ? "-inf" : "inf";
  } else {
    precision = std::clamp(precision, 0, 1000);
    std::string buf(static_cast<size_t>(precision) + 400, '\0');
    const auto format = kind == 'e'   ? std::chars_format::scientific
                        : kind == 'f' ? std::chars_format::fixed
                                      : std::chars_format::general;
    const auto r = std::to_chars(buf.data(), buf.data() + buf.size(), d, format, kind == 'g' && precision == 0 ? 1 : precision);
    out.assign(buf.data(), r.ptr);
    if (alternate && kind == 'g') out = alternate_general(d, std::max(precision, 1));
    if (alternate && out.find('.') == std::string::npos) out.insert(std::min(out.find('e'), out.size()), ".");
  }
  if (upper)
    for (char& c : out) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return out;
}

double round_real(double d, int64_t digits) {
  if (!std::isfinite(d) || digits > 322) return d;
  if (digits < -308) return std::copysign(0.0, d);
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(d / unit) * unit;
  }
  const std::string s = format_real(d, 'f', static_cast<int>(digits));
  double out = d;
  std::from_chars(s.data(), s.data() + s.size(), out);
  return out;
}

std::string int_digits(uint64_t m, unsigned base, bool upper) {
  std::string s;
  do s += (upper ? "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ" : "0123456789abcdefghijklmnopqrstuvwxyz")[m % base];
  while (m /= base);
  std::reverse(s.begin(), s.end());
  return s;
}

bool parse_int(std::string_view s, int64_t base, Value& out) {
  if (base != 0 && (base < 2 || base > 36)) raise(Fault::value, "int() base must be >= 2 and <= 36, or 0");
  s = strip(s);
  const bool negative = !s.empty() && s[0] == '-';
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
  if (s.size() > 1 && s[0] == '0') {
    const char p = static_cast<char>(s[1] | 32);
    const int prefixed = p == 'x' ? 16 : p == 'o' ? 8 : p == 'b' ? 2 : 0;
    if (prefixed && (base == 0 || base == prefixed)) {
      base = prefixed, s.remove_prefix(2);
      if (!s.empty() && s[0] == '_') s.remove_prefix(1);
    } else if (base == 0 && s.find_first_not_of("0_") != std::string_view::npos) {
      return false;  // 010 is no number
    }
  }
  if (base == 0) base = 10;
  std::string digits;
  if (s.empty() || !drop_underscores(s, digits)) return false;
  for (char c : digits)
    if (digit_of(c) >= base) return false;
  uint64_t m = 0;
  const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), m, static_cast<int>(base));
  const uint64_t limit = negative ? uint64_t{1} << 63 : (uint64_t{1} << 63) - 1;
  if (r.ec == std::errc() && m <= limit) {
    out = Value::integer(static_cast<int64_t>(negative ? ~m + 1 : m));
    return true;
  }
  if (base != 10) raise(Fault::overflow, "an integer of base " + std::to_string(base) + " does not fit into 64 bits");
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (digits.size() > 4300)
    raise(Fault::value, "Exceeds the limit (4300 digits) for integer string conversion: value has " +
                            std::to_string(digits.size()) + " digits; use sys.set_int_max_str_digits() to increase the limit");
  out = make_big((negative ? "-" : "") + digits);
  return true;
}

bool parse_real(std::string_view s, double& out) {
  std::string t;
  if (!drop_underscores(strip(s), t) || t.empty()) return false;
  std::string_view v = t;
  const bool negative = v[0] == '-';
  if (v[0] == '-' || v[0] == '+') v.remove_prefix(1);
  const std::string word = lower_ascii(v);
  if (word == "inf" || word == "infinity") out = std::numeric_limits<double>::infinity();
  else if (word == "nan") out = std::numeric_limits<double>::quiet_NaN();
  else {
    if (v.empty() || (v[0] != '.' && digit_of(v[0]) > 9)) return false;
    const auto r = std::from_chars(v.data(), v.data() + v.size(), out);
    if (r.ptr != v.data() + v.size() || r.ec == std::errc::invalid_argument) return false;
    if (r.ec == std::errc::result_out_of_range) {  // from_chars leaves the value alone
      const size_t e = word.find('e');
      const bool tiny = e != std::string::npos ? word.find("e-") != std::string::npos : word[0] == '0' || word[0] == '.';
      out = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    }
  }
  if (negative) out = -out;
  return true;
}

}  // namespace isotope::text::jinja
