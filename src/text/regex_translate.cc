// Oniguruma (Ruby syntax) -> PCRE2. The differences that matter: character classes with set operations, properties (Unicode 16 against PCRE2's tables,
// scripts without extensions), \s \w \h \d, the meaning of ^ $ (?m), quantifiers behind intervals, options that reach over alternatives.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <utf8proc.h>

#include "text/regex.h"
#include "text/regex_class.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

constexpr int kMaxDepth = 60;

struct Flags {
  bool ignore_case = false, dot_all = false, extended = false;
};

/// A piece of output, and whether a quantifier may follow it as it stands.
struct Atom {
  std::string text;
  bool quantifiable = true;
};

class Translator {
 public:
  explicit Translator(std::string_view in) : in_(in) {}

  Result<std::string> run() {
    ISO_TRY(std::string out, alternatives({}, 0));
    if (at_ < in_.size()) return error("unmatched close parenthesis");
    return out;
  }

 private:
  tl::unexpected<Error> error(std::string what) const { return fail(Code::unsupported, std::move(what) + " at byte " + std::to_string(at_)); }
  bool done() const { return at_ >= in_.size(); }
  bool next_is(std::string_view s) const { return in_.substr(std::min(at_, in_.size())).starts_with(s); }
  bool take(std::string_view s) { return next_is(s) ? at_ += s.size(), true : false; }

  Result<std::string> alternatives(Flags flags, int depth) {
    if (depth > kMaxDepth) return error("groups are nested too deep");
    std::string out;
    for (;;) {
      ISO_TRY(std::string s, sequence(flags, depth));
      out += s;
      if (!take("|")) return out;
      out += '|';
    }
  }

  Result<std::string> sequence(Flags flags, int depth) {
    std::string out;
    while (!done() && !next_is("|") && !next_is(")")) {
      if (flags.extended && skip_blank()) continue;
      if (next_is("(?") && is_open_option()) {  // (?i) reaches to the end of the group, over alternatives too
        ISO_TRY(std::string rest, open_option(flags, depth));
        return out + rest;
      }
      ISO_TRY(Atom atom, one(flags, depth));
      ISO_TRY(std::string quantified, quantifiers(std::move(atom)));
      out += quantified;
    }
    return out;
  }

  bool skip_blank() {
    if (next_is("#")) {
      while (!done() && in_[at_] != '\n') at_++;
      return true;
    }
    if (std::string_view(" \t\n\r\f\v").find(in_[at_]) == std::string_view::npos) return false;
    at_++;
    return true;
  }

  bool is_open_option() const {
    size_t i = at_ + 2;
    while (i < in_.size() && std::string_view("imx-").find(in_[i]) != std::string_view::npos) i++;
    return i > at_ + 2 && i < in_.size() && in_[i] == ')';
  }

  Result<std::string> open_option(Flags flags, int depth) {
    at_ += 2;
    ISO_TRY(const Flags inner, option_letters(flags));
    at_++;  // ')'
    ISO_TRY(std::string body, alternatives(inner, depth + 1));
    return group("(?", inner, body);
  }

  static std::string group(std::string, Flags flags, const std::string& body) { return (flags.ignore_case ? "(?i:" : "(?-i:") + body + ")"; }

  Result<Flags> option_letters(Flags flags) {
    bool on = true;
    for (; !done() && in_[at_] != ':' && in_[at_] != ')'; at_++) {
      switch (in_[at_]) {
        case '-': on = false; break;
        case 'i': flags.ignore_case = on; break;
        case 'm': flags.dot_all = on; break;
        case 'x': flags.extended = on; break;
        default: return error("group option '" + std::string(1, in_[at_]) + "' is not supported");
      }
    }
    if (done()) return error("end of pattern in a group");
    return flags;
  }

  Result<Atom> one(Flags flags, int depth) {
    const char c = in_[at_];
    if (c == '(') return parenthesis(flags, depth);
    if (c == '[') return char_class();
    if (c == '\\') return escape(flags);
    if (c == '*' || c == '+' || c == '?') return error("a quantifier has nothing to repeat");
    if (c == '{' && interval_at(at_)) return error("a quantifier has nothing to repeat");
    if (c == '.') return at_++, Atom{flags.dot_all ? "(?s:.)" : "[^\\n]"};
    if (c == '^') return at_++, Atom{"(?m:^)", false};
    if (c == '$') return at_++, Atom{"(?m:$)", false};
    const size_t n = std::min(char_length(c), in_.size() - at_);
    const char* p = in_.data() + at_;
    const char32_t code = next_char(p);
    at_ += n;
    ISO_CHECK_OK(literal_fits(code, flags));
    return Atom{regex_literal(code)};
  }

  /// Oniguruma folds "ss" and the like to one character and back; PCRE2 does not.
  Result<void> literal_fits(char32_t c, Flags flags) {
    if (!flags.ignore_case) return previous_ = 0, Result<void>{};
    constexpr std::string_view kPairs[] = {"ss", "ff", "fi", "fl", "st"};
    const char lower = c < 128 ? char(c >= 'A' && c <= 'Z' ? c + 32 : c) : '\0';
    const char pair[] = {previous_, lower};
    previous_ = lower;
    if (std::find(std::begin(kPairs), std::end(kPairs), std::string_view(pair, 2)) != std::end(kPairs) || folds_to_several(c))
      return error("case-insensitive '" + std::string(pair, 2) + "' can match a single character");
    return {};
  }

  static bool folds_to_several(char32_t c) {
    if (c < 128) return false;
    utf8proc_int32_t buffer[8];
    int boundary = 0;
    return utf8proc_decompose_char(utf8proc_int32_t(c), buffer, 8, UTF8PROC_CASEFOLD, &boundary) > 1;
  }

  Result<Atom> parenthesis(Flags flags, int depth) {
    previous_ = 0;
    if (take("(?#")) {
      const size_t close = in_.find(')', at_);
      if (close == std::string_view::npos) return error("end of pattern in a comment");
      at_ = close + 1;
      return Atom{"", false};
    }
    Flags inner = flags;
    std::string open, close = ")";
    bool quantifiable = true;
    if (!next_is("(?")) {
      at_++;
      open = "(";
    } else if (const std::string_view plain = plain_group(); !plain.empty()) {
      at_ += plain.size();
      open = plain;
      quantifiable = plain == "(?:" || plain == "(?>";
    } else if (next_is("(?<") || next_is("(?'")) {
      return error("named groups are not supported");
    } else {
      at_ += 2;
      ISO_TRY(inner, option_letters(flags));
      if (in_[at_] != ':') return error("this kind of group is not supported");
      at_++;
      open = inner.ignore_case ? "(?i:" : "(?-i:";
    }
    ISO_TRY(std::string body, alternatives(inner, depth + 1));
    if (!take(")")) return error("end of pattern with unmatched parenthesis");
    previous_ = 0;
    return Atom{open + body + close, quantifiable};
  }

  std::string_view plain_group() const {
    for (const std::string_view s : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"})
      if (next_is(s)) return s;
    return {};
  }

  Result<Atom> char_class() {
    previous_ = 0;
    ISO_TRY(std::string text, translate_class(in_, at_));
    return Atom{std::move(text)};
  }

  Result<Atom> escape(Flags flags) {
    if (at_ + 1 >= in_.size()) return error("end of pattern at escape");
    const char c = in_[at_ + 1];
    if (c >= '1' && c <= '9' && (at_ + 2 >= in_.size() || in_[at_ + 2] < '0' || in_[at_ + 2] > '9')) return at_ += 2, Atom{std::string("\\") + c};
    switch (c) {
      case 'b': return at_ += 2, Atom{word_border(true), false};
      case 'B': return at_ += 2, Atom{word_border(false), false};
      case 'A': return at_ += 2, Atom{"\\A", false};
      case 'Z': return at_ += 2, Atom{"\\Z", false};
      case 'z': return at_ += 2, Atom{"\\z", false};
      case 'R': return at_ += 2, Atom{"(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])"};
      case 'G': case 'K': case 'X': case 'y': case 'Y': case 'k': case 'g': case 'N': case 'O': return error(std::string("\\") + c + " is not supported");
      default: break;
    }
    size_t at = at_;
    ISO_TRY(std::optional<char32_t> literal, escaped_char(in_, at));
    if (!literal) return char_class_escape();
    at_ = at;
    ISO_CHECK_OK(literal_fits(*literal, flags));
    return Atom{regex_literal(*literal)};
  }

  Result<Atom> char_class_escape() {
    previous_ = 0;
    ISO_TRY(std::string text, translate_class_escape(in_, at_));
    return Atom{std::move(text)};
  }

  static std::string word_border(bool at_border) {
    const std::string w = class_of_word();
    return at_border ? "(?:(?<=" + w + ")(?!" + w + ")|(?<!" + w + ")(?=" + w + "))" : "(?:(?<=" + w + ")(?=" + w + ")|(?<!" + w + ")(?!" + w + "))";
  }

  struct Interval { long low = 0, high = 0; bool fixed = false; size_t end = 0; };
  /// {n} {n,} {n,m} {,m} at position `at`.
  std::optional<Interval> interval_at(size_t at) const {
    Interval v;
    size_t i = at + 1;
    const auto number = [&](long& out) {
      const size_t first = i;
      for (out = 0; i < in_.size() && in_[i] >= '0' && in_[i] <= '9' && i - first < 6; i++) out = out * 10 + (in_[i] - '0');
      return i > first;
    };
    const bool has_low = number(v.low);
    if (i < in_.size() && in_[i] == '}') return has_low ? (v.high = v.low, v.fixed = true, v.end = i + 1, std::optional(v)) : std::nullopt;
    if (i >= in_.size() || in_[i++] != ',') return std::nullopt;
    const bool has_high = number(v.high);
    if (!has_high) v.high = -1;
    if (i >= in_.size() || in_[i] != '}' || (!has_low && !has_high)) return std::nullopt;
    v.end = i + 1;
    return v;
  }

  Result<std::string> quantifiers(Atom atom) {
    std::string out = std::move(atom.text);
    for (bool first = true;; first = false) {
      if (done()) return out;
      const char c = in_[at_];
      std::string q;
      if (c == '*' || c == '+' || c == '?') {
        q = c;
        at_++;
        if (!done() && (in_[at_] == '?' || in_[at_] == '+')) q += in_[at_++];
      } else if (const auto v = c == '{' ? interval_at(at_) : std::nullopt) {
        if (v->high >= 0 && v->low > v->high) return error("an interval with its limits swapped is not supported");
        q = "{" + std::to_string(v->low) + (v->fixed ? "" : "," + (v->high >= 0 ? std::to_string(v->high) : "")) + "}";
        at_ = v->end;
        // Behind an interval '+' repeats again, and behind a fixed one '?' does.
        if (!v->fixed && !done() && in_[at_] == '?') q += in_[at_++];
      } else {
        return out;
      }
      if (!first || !atom.quantifiable) out = "(?:" + out + ")";
      out += q;
      previous_ = 0;
      if (out.size() > (size_t{1} << 20)) return error("the translated pattern is too long");
    }
  }

  std::string_view in_;
  size_t at_ = 0;
  char previous_ = 0;
};

}  // namespace

Result<std::string> translate_regex(std::string_view oniguruma) {
  if (!valid_utf8(oniguruma)) return fail(Code::unsupported, "it is not valid UTF-8");
  return Translator(oniguruma).run();
}

}  // namespace isotope::text
