#include "text/jinja_unicode.h"

#include <algorithm>
#include <iterator>
#include <utf8proc.h>

namespace isotope::text::jinja {
namespace {

struct Range { char32_t first, last; };
struct Special { char32_t from; char32_t to[3]; };
#include "text/jinja_unicode_tables.inl"

template <size_t N>
bool contains(const Range (&table)[N], char32_t c) {
  const Range* r =
      std::upper_bound(std::begin(table), std::end(table), c, [](char32_t v, const Range& x) { return v < x.first; });
  return r != std::begin(table) && c <= std::prev(r)->last;
}

template <size_t N>
bool append_special(std::string& out, const Special (&table)[N], char32_t c) {
  const Special* s =
      std::lower_bound(std::begin(table), std::end(table), c, [](const Special& x, char32_t v) { return x.from < v; });
  if (s == std::end(table) || s->from != c) return false;
  for (char32_t t : s->to)
    if (t) append_point(out, t);
  return true;
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// Skipped when Python looks around a capital sigma (Case_Ignorable, by category and the punctuation the property adds).
bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::u32string_view(U"'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a")
                 .find(c) != std::u32string_view::npos;
  }
}

bool is_final_sigma(std::string_view s, size_t pos) {
  size_t p = pos;
  char32_t c = 0;
  do {
    if (p == 0) return false;
    c = prev_point(s, p);
  } while (is_case_ignorable(c));
  if (!is_cased(c)) return false;
  p = pos;
  next_point(s, p);
  while (p < s.size()) {
    c = next_point(s, p);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

constexpr char32_t kSigma = 0x3a3, kFinalSigma = 0x3c2, kCapitalIDot = 0x130;

}  // namespace

std::string sanitize(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size();) {
    const auto b = static_cast<unsigned char>(s[i]);
    const size_t len = b < 0x80 ? 1 : b >= 0xc2 && b < 0xe0 ? 2 : b >= 0xe0 && b < 0xf0 ? 3 : b >= 0xf0 && b < 0xf5 ? 4 : 0;
    size_t good = len ? 1 : 0;
    while (good && good < len && i + good < s.size()) {
      const auto t = static_cast<unsigned char>(s[i + good]);
      const unsigned lo = good > 1 ? 0x80 : b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80;
      const unsigned hi = good > 1 ? 0xbf : b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
      if (t < lo || t > hi) break;
      ++good;
    }
    if (len && good == len) out.append(s, i, len);
    else out += "\xef\xbf\xbd";
    i += std::max<size_t>(good, 1);
  }
  return out;
}

char32_t next_point(std::string_view s, size_t& pos) {
  const auto byte = [&](size_t i) -> char32_t { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0x80; };
  const char32_t b = byte(pos);
  if (b < 0x80) return ++pos, b;
  char32_t c;
  if (b < 0xe0) c = (b & 0x1f) << 6 | (byte(pos + 1) & 0x3f), pos += 2;
  else if (b < 0xf0) c = (b & 0x0f) << 12 | (byte(pos + 1) & 0x3f) << 6 | (byte(pos + 2) & 0x3f), pos += 3;
  else c = (b & 0x07) << 18 | (byte(pos + 1) & 0x3f) << 12 | (byte(pos + 2) & 0x3f) << 6 | (byte(pos + 3) & 0x3f), pos += 4;
  return c;
}

char32_t prev_point(std::string_view s, size_t& pos) {
  do --pos;
  while (pos > 0 && (static_cast<unsigned char>(s[pos]) & 0xc0) == 0x80);
  size_t p = pos;
  return next_point(s, p);
}

void append_point(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

size_t count_points(std::string_view s) {
  size_t n = 0;
  for (char c : s) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return n;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) { return is_decimal(c) || contains(kDigitNotDecimal, c); }
bool is_numeric(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO || contains(kNumericIdeograph, c);
}
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || contains(kOtherLower, c); }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU || contains(kOtherUpper, c); }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }
bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS: case UTF8PROC_CATEGORY_ZL: case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
  }
}
bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

bool is_identifier(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const bool first = i == 0;
    const char32_t c = next_point(s, i);
    const auto k = category(c);
    const bool start = c == '_' || (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) || k == UTF8PROC_CATEGORY_NL;
    const bool inner =
        k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_PC;
    if (!start && (first || !inner)) return false;
  }
  return !s.empty();
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80) out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  else if (!append_special(out, kSpecialUpper, c))
    append_point(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_title(std::string& out, char32_t c) {
  if (c < 0x80) append_upper(out, c);
  else if (!append_special(out, kSpecialTitle, c))
    append_point(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

void append_fold(std::string& out, char32_t c) {
  if (!append_special(out, kSpecialFold, c)) append_lower(out, {}, 0, c);
}

void append_lower(std::string& out, std::string_view whole, size_t pos, char32_t c) {
  if (c < 0x80) out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  else if (c == kCapitalIDot) out += "i\xcc\x87";
  else if (c == kSigma && !whole.empty() && is_final_sigma(whole, pos)) append_point(out, kFinalSigma);
  else append_point(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace isotope::text::jinja
