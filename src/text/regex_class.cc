#include "text/regex_class.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/hex_digit.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

constexpr int kMaxDepth = 20;

/// A set of characters: flat members that one PCRE2 class can hold, and parts that need an expression of their own.
struct Set {
  std::string flat;                  ///< inside of [...]
  std::vector<std::string> complex;  ///< expressions that match one character

  void merge(const Set& o) {
    flat += o.flat;
    complex.insert(complex.end(), o.complex.begin(), o.complex.end());
  }
  std::string text(bool negated = false) const {
    if (complex.empty()) {
      if (flat.empty()) return negated ? "(?s:.)" : "(?!)";
      return (negated ? "[^" : "[") + flat + "]";
    }
    std::string out = "(?:";
    if (!flat.empty()) out += "[" + flat + "]|";
    for (size_t i = 0; i < complex.size(); i++) out += (i ? "|" : "") + complex[i];
    out += ")";
    return negated ? "(?:(?!" + out + ")(?s:.))" : out;
  }
  Set negated() const { return {"", {text(true)}}; }
};

tl::unexpected<Error> error(std::string what) { return fail(Code::unsupported, std::move(what)); }

std::string hex_char(char32_t c) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "\\x{%X}", unsigned(c));
  return buffer;
}

void add_newer(std::string& flat, std::string_view property) {
  for (const CharRange& r : newer_members(property)) flat += r.first == r.last ? hex_char(r.first) : hex_char(r.first) + "-" + hex_char(r.last);
}

Set property_set(std::string_view pcre, std::string_view newer) {
  Set s{"\\p{" + std::string(pcre) + "}", {}};
  add_newer(s.flat, newer);
  return s;
}
Set categories(std::initializer_list<std::string_view> names) {
  Set s;
  for (const std::string_view n : names) s.merge(property_set(n, n));
  return s;
}
Set assigned(bool controls) {
  Set s = categories({"L", "M", "N", "P", "S", "Z"});
  if (controls) s.merge(categories({"Cc", "Cf", "Co", "Cs"}));
  return s;
}
Set white() { return {"\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}", {}}; }
Set word(bool in_class = true) {
  Set s = property_set("Alphabetic", "Alphabetic");
  s.merge(categories({"M", "Nd", "Pc"}));
  if (!in_class) s.flat += "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";  // Oniguruma's table for single Latin-1 characters differs
  return s;
}
Set hex() { return {"0-9A-Fa-f", {}}; }
Set merged(Set a, const Set& b) { return a.merge(b), a; }

/// Name without case, spaces, '_' and '-', as Oniguruma compares.
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != ' ' && c != '_' && c != '-') out += c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  return out;
}

struct CategoryRow { std::string_view name, alias; };
constexpr CategoryRow kCategories[] = {
    {"L", "letter"}, {"Lu", "uppercaseletter"}, {"Ll", "lowercaseletter"}, {"Lt", "titlecaseletter"}, {"Lm", "modifierletter"}, {"Lo", "otherletter"},
    {"M", "mark"}, {"Mn", "nonspacingmark"}, {"Mc", "spacingmark"}, {"Me", "enclosingmark"}, {"N", "number"}, {"Nd", "decimalnumber"}, {"Nl", "letternumber"},
    {"No", "othernumber"}, {"P", "punctuation"}, {"Pc", "connectorpunctuation"}, {"Pd", "dashpunctuation"}, {"Ps", "openpunctuation"},
    {"Pe", "closepunctuation"}, {"Pi", "initialpunctuation"}, {"Pf", "finalpunctuation"}, {"Po", "otherpunctuation"}, {"S", "symbol"}, {"Sm", "mathsymbol"},
    {"Sc", "currencysymbol"}, {"Sk", "modifiersymbol"}, {"So", "othersymbol"}, {"Z", "separator"}, {"Zs", "spaceseparator"}, {"Zl", "lineseparator"},
    {"Zp", "paragraphseparator"}, {"Cc", "control"}, {"Cf", "format"}, {"Co", "privateuse"},
};
struct ScriptAlias { std::string_view alias, name; };
constexpr ScriptAlias kScriptAliases[] = {{"hani", "Han"}, {"hira", "Hiragana"}, {"kana", "Katakana"}, {"hang", "Hangul"}, {"latn", "Latin"}, {"cyrl", "Cyrillic"},
                                          {"grek", "Greek"}, {"arab", "Arabic"}, {"hebr", "Hebrew"}, {"deva", "Devanagari"}, {"bopo", "Bopomofo"}, {"zyyy", "Common"}};

/// Names that mean the same in \p{} and in [: :].
std::optional<Set> named_class(std::string_view n) {
  if (n == "alnum") return merged(property_set("Alphabetic", "Alphabetic"), categories({"Nd"}));
  if (n == "alpha" || n == "alphabetic") return property_set("Alphabetic", "Alphabetic");
  if (n == "blank") return Set{"\\x{9}\\p{Zs}", {}};
  if (n == "cntrl") return categories({"Cc"});
  if (n == "digit") return categories({"Nd"});
  if (n == "lower" || n == "lowercase") return property_set("Lowercase", "Lowercase");
  if (n == "upper" || n == "uppercase") return property_set("Uppercase", "Uppercase");
  if (n == "space" || n == "whitespace") return white();
  if (n == "xdigit") return hex();
  if (n == "word") return word();
  if (n == "ascii") return Set{"\\x{0}-\\x{7F}", {}};
  return std::nullopt;
}

Result<Set> property(std::string_view name) {
  const std::string n = plain(name);
  if (auto s = named_class(n)) return *s;
  if (n == "punct") return categories({"P"});
  if (n == "any") return Set{"\\x{0}-\\x{10FFFF}", {}};
  if (n == "c" || n == "other") return assigned(false).negated();
  if (n == "cn" || n == "unassigned") return assigned(true).negated();
  if (n == "assigned") return assigned(true);
  for (const CategoryRow& row : kCategories)
    if (n == plain(row.name) || n == row.alias) return property_set(row.name, row.name);
  for (const ScriptAlias& a : kScriptAliases)
    if (n == a.alias) return property_set("sc:" + std::string(a.name), a.name);
  for (const std::string_view script : script_names())
    if (n == plain(script)) return property_set("sc:" + std::string(script), script);
  for (const std::string_view binary : binary_property_names())
    if (n == plain(binary)) return property_set(binary, binary);
  return error("the property '" + std::string(name.substr(0, 40)) + "' is not supported");
}

Result<Set> property_escape(std::string_view in, size_t& at) {
  const bool outer = in[at + 1] == 'P';
  const size_t open = at + 2, close = in.find('}', at);
  if (open >= in.size() || in[open] != '{' || close == std::string_view::npos) return error("invalid character property name");
  std::string_view name = in.substr(open + 1, close - open - 1);
  const bool inner = name.starts_with('^');
  if (inner) name.remove_prefix(1);
  ISO_TRY(Set s, property(name));
  at = close + 1;
  return outer != inner ? s.negated() : s;
}

Result<Set> escape_set(std::string_view in, size_t& at, bool in_class) {
  const char c = in[at + 1];
  if (c == 'p' || c == 'P') return property_escape(in, at);
  std::optional<Set> s;
  switch (c | 32) {
    case 'd': s = categories({"Nd"}); break;
    case 'w': s = word(in_class); break;
    case 's': s = white(); break;
    case 'h': s = hex(); break;
    default: return error(std::string("the escape \\") + c + " is not supported");
  }
  at += 2;
  return c & 32 ? *s : s->negated();
}

class ClassParser {
 public:
  ClassParser(std::string_view in, size_t at) : in_(in), at_(at) {}
  size_t end() const { return at_; }

  Result<std::string> parse() {
    ISO_TRY(const Parsed p, bracket(0));
    return p.set.text(p.negated);
  }

 private:
  struct Parsed { Set set; bool negated = false; };
  bool next_is(std::string_view s) const { return in_.substr(std::min(at_, in_.size())).starts_with(s); }

  Result<Parsed> bracket(int depth) {
    if (depth > kMaxDepth) return error("character classes are nested too deep");
    at_++;  // '['
    Parsed out;
    if (next_is("^")) out.negated = true, at_++;
    Set current;
    std::optional<Set> left;  // of &&
    for (bool first = true;; first = false) {
      if (at_ >= in_.size()) return error("premature end of character class");
      if (next_is("]") && !first) break;
      if (next_is("&&")) {
        at_ += 2;
        left = intersect(std::move(left), std::move(current));
        current = {};
        continue;
      }
      ISO_CHECK_OK(member(current, depth));
    }
    at_++;
    out.set = left ? intersect(std::move(left), std::move(current)) : std::move(current);
    return out;
  }

  static Set intersect(std::optional<Set> left, Set right) {
    if (!left) return right;
    return {"", {"(?:(?=" + left->text() + ")" + right.text() + ")"}};
  }

  Result<void> member(Set& into, int depth) {
    if (next_is("[:")) {
      ISO_TRY(const bool posix, posix_bracket(into));
      if (posix) return {};
    }
    if (next_is("[")) {
      ISO_TRY(const Parsed p, bracket(depth + 1));
      into.merge(p.negated ? p.set.negated() : p.set);
      return {};
    }
    ISO_TRY(const std::optional<char32_t> low, single());
    if (!low) {
      ISO_TRY(const Set s, escape_set(in_, at_, true));
      into.merge(s);
      if (next_is("-") && !next_is("-]")) return error("a range may not start with a class");
      return {};
    }
    if (!next_is("-") || next_is("-]") || next_is("-[") || next_is("-&&")) return into.flat += regex_literal(*low), Result<void>{};
    at_++;
    ISO_TRY(const std::optional<char32_t> high, single());
    if (!high) return error("character class at the end of a range");
    if (*high < *low) return error("empty range in character class");
    into.flat += regex_literal(*low) + "-" + regex_literal(*high);
    return {};
  }

  Result<bool> posix_bracket(Set& into) {
    const size_t close = in_.find(":]", at_ + 2);
    if (close == std::string_view::npos || close - at_ > 20) return false;
    std::string_view name = in_.substr(at_ + 2, close - at_ - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    std::optional<Set> s = named_class(name);
    if (name == "punct") s = categories({"P", "S"});
    if (name == "graph") s = merged(white(), categories({"Cc"})), s->merge(assigned(true).negated()), s = s->negated();
    if (!s) return error("the POSIX bracket [:" + std::string(name) + ":] is not supported");
    into.merge(negated ? s->negated() : *s);
    at_ = close + 2;
    return true;
  }

  /// A literal member; nothing before an escape that names a class.
  Result<std::optional<char32_t>> single() {
    if (at_ >= in_.size()) return error("premature end of character class");
    if (in_[at_] == '\\') {
      if (at_ + 1 < in_.size() && in_[at_ + 1] == 'b') return at_ += 2, std::optional<char32_t>(8);
      return escaped_char(in_, at_);
    }
    const char* p = in_.data() + at_;
    const char32_t c = next_char(p);
    at_ = size_t(p - in_.data());
    return std::optional(c);
  }

  std::string_view in_;
  size_t at_;
};

std::optional<uint32_t> digits(std::string_view in, size_t& at, size_t most, unsigned radix) {
  uint32_t value = 0;
  size_t n = 0;
  for (; n < most && at < in.size(); n++, at++) {
    const int d = base::hex_digit(in[at]);
    if (d < 0 || unsigned(d) >= radix) break;
    value = value * radix + unsigned(d);
  }
  return n ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string regex_literal(char32_t c) {
  if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')) return std::string(1, char(c));
  return hex_char(c);
}

std::string class_of_word() { return word(false).text(); }

Result<std::optional<char32_t>> escaped_char(std::string_view in, size_t& at) {
  if (at + 1 >= in.size()) return error("end of pattern at escape");
  const char c = in[at + 1];
  constexpr std::string_view kNames = "tnrfvae", kValues = "\t\n\r\f\v\a\x1B";
  if (const size_t i = kNames.find(c); i != std::string_view::npos) return at += 2, std::optional(char32_t(kValues[i]));
  if (std::string_view("pPdDwWsShH").find(c) != std::string_view::npos) return std::optional<char32_t>{};
  size_t p = at + 2;
  std::optional<uint32_t> value;
  if (c == 'x' && p < in.size() && in[p] == '{') {
    value = digits(in, ++p, 8, 16);
    if (p >= in.size() || in[p++] != '}') value.reset();
  } else if (c == 'x') {
    value = digits(in, p, 2, 16);
  } else if (c == 'u') {
    value = digits(in, p, 4, 16);
    if (p != at + 6) value.reset();
  } else if (c >= '0' && c <= '7') {
    value = digits(in, --p, 3, 8);
  } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '8' && c <= '9')) {
    return error(std::string("the escape \\") + c + " is not supported");
  } else {
    const char* q = in.data() + at + 1;
    const char32_t literal = next_char(q);
    at = size_t(q - in.data());
    return std::optional(literal);
  }
  if (!value || *value > 0x10FFFF || (*value >= 0xD800 && *value < 0xE000)) return error("invalid code point value");
  at = p;
  return std::optional(char32_t(*value));
}

Result<std::string> translate_class_escape(std::string_view in, size_t& at) {
  ISO_TRY(const Set s, escape_set(in, at, false));
  return s.text();
}

Result<std::string> translate_class(std::string_view in, size_t& at) {
  ClassParser parser(in, at);
  ISO_TRY(std::string out, parser.parse());
  at = parser.end();
  return out;
}

}  // namespace isotope::text
