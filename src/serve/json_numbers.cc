#include "serve/json_numbers.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

namespace isotope::serve {
namespace {

constexpr std::string_view kDigits = "0123456789";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t digits_from(std::string_view s, size_t at) {
  const size_t end = s.find_first_not_of(kDigits, at);
  return (end == std::string_view::npos ? s.size() : end) - at;
}

struct Token {
  size_t size = 0;        ///< 0: no JSON number
  bool integer = true;
};

// JSON's grammar: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
Token number_at(std::string_view s) {
  Token t;
  size_t at = s.starts_with('-') ? 1 : 0;
  const size_t whole = digits_from(s, at);
  if (whole == 0 || (s[at] == '0' && whole > 1)) return {};
  at += whole;
  if (at < s.size() && s[at] == '.') {
    const size_t n = digits_from(s, at + 1);
    if (n == 0) return {};
    at += 1 + n;
    t.integer = false;
  }
  if (at < s.size() && (s[at] == 'e' || s[at] == 'E')) {
    ++at;
    if (at < s.size() && (s[at] == '+' || s[at] == '-')) ++at;
    const size_t n = digits_from(s, at);
    if (n == 0) return {};
    at += n;
    t.integer = false;
  }
  t.size = at;
  return t;
}

template <class T>
bool fits(std::string_view number) {
  T value{};
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  return error == std::errc() && end == number.data() + number.size();
}

// from_chars reports a number too small for a double in the same way; that one is read as zero.
bool is_tiny(std::string_view number) {
  const size_t e = number.find_first_of("eE");
  if (e != std::string_view::npos) return number.substr(e + 1).starts_with('-');
  return number.find('.') != std::string_view::npos && number.substr(number[0] == '-' ? 1 : 0).starts_with('0');
}

std::string fitting(std::string_view number, bool integer) {
  if (integer && (fits<int64_t>(number) || fits<uint64_t>(number))) return std::string(number);
  if (fits<double>(number)) return std::string(number) + (integer ? ".0" : "");
  if (is_tiny(number)) return "0.0";
  return number[0] == '-' ? "-1.7976931348623157e308" : "1.7976931348623157e308";
}

size_t string_size(std::string_view s) {
  size_t at = 1;
  while (at < s.size() && s[at] != '"') at += s[at] == '\\' ? 2 : 1;
  return std::min(at + 1, s.size());
}

}  // namespace

std::optional<std::string> with_fitting_numbers(std::string_view json) {
  std::string out;
  bool changed = false;
  for (size_t at = 0; at < json.size();) {
    const char c = json[at];
    size_t n = 1;
    if (c == '"') {
      n = string_size(json.substr(at));
    } else if (c == '-' || is_digit(c)) {
      const Token t = number_at(json.substr(at));
      if (t.size == 0) return std::nullopt;
      const std::string_view number = json.substr(at, t.size);
      const std::string text = fitting(number, t.integer);
      changed = changed || text != number;
      out += text;
      at += t.size;
      continue;
    }
    out += json.substr(at, n);
    at += n;
  }
  return changed ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace isotope::serve
