#pragma once

namespace isotope::base {

/// The value of a hexadecimal digit, either case, or -1 for any other character.
constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = char(c | 32);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

}  // namespace isotope::base
