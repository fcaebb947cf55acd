#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>

#include "base/hex_digit.h"
#include "text/jinja_number.h"
#include "text/jinja_unicode.h"

namespace isotope::text::jinja {
namespace {

struct Operator { std::string_view text; Tok type; };
constexpr Operator kOperators[] = {  // longest first
    {"//", Tok::floor_div}, {"**", Tok::pow},     {"==", Tok::eq},    {"!=", Tok::ne},    {">=", Tok::ge},    {"<=", Tok::le},
    {"+", Tok::add},        {"-", Tok::sub},      {"/", Tok::div},    {"*", Tok::mul},    {"%", Tok::mod},    {"~", Tok::tilde},
    {"[", Tok::lbracket},   {"]", Tok::rbracket}, {"(", Tok::lparen}, {")", Tok::rparen}, {"{", Tok::lbrace}, {"}", Tok::rbrace},
    {">", Tok::gt},         {"<", Tok::lt},       {"=", Tok::assign}, {".", Tok::dot},    {":", Tok::colon},  {"|", Tok::pipe},
    {",", Tok::comma},      {";", Tok::semicolon}};

struct TypeName { Tok type; const char* name; };
constexpr TypeName kTypeNames[] = {{Tok::data, "template data / text"},
                                   {Tok::block_begin, "begin of statement block"},
                                   {Tok::block_end, "end of statement block"},
                                   {Tok::variable_begin, "begin of print statement"},
                                   {Tok::variable_end, "end of print statement"},
                                   {Tok::name, "name"},
                                   {Tok::string, "string"},
                                   {Tok::integer, "integer"},
                                   {Tok::real, "float"},
                                   {Tok::eof, "end of template"}};

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(const std::string& source) : s_(source) {}

  std::vector<Token> run() {
    while (pos_ < s_.size()) text();
    out_.push_back({Tok::eof, static_cast<uint32_t>(s_.size()), {}});
    return std::move(out_);
  }

 private:
  bool at(std::string_view what, size_t pos) const { return s_.compare(pos, what.size(), what) == 0; }
  bool at(std::string_view what) const { return at(what, pos_); }
  [[noreturn]] void fail(std::string what, size_t pos) { raise(Fault::syntax, std::move(what), static_cast<uint32_t>(pos)); }

  size_t skip_space(size_t pos) const {
    while (pos < s_.size()) {
      size_t next = pos;
      if (!is_space(next_point(s_, next))) break;
      pos = next;
    }
    return pos;
  }

  void push(Tok type, size_t pos, std::string value = {}) {
    out_.push_back({type, static_cast<uint32_t>(pos), std::move(value)});
  }

  // Text before a tag: '-' strips all white space, no sign strips the indentation of a tag that stands first on its line.
  void data(size_t from, size_t to, char sign, bool variable) {
    std::string_view t(s_.data() + from, to - from);
    if (sign == '-') {
      while (!t.empty()) {
        size_t p = t.size();
        if (!is_space(prev_point(t, p))) break;
        t = t.substr(0, p);
      }
    } else if (sign != '+' && !variable) {
      const size_t line = t.rfind('\n') + 1;
      const bool all_space = line < t.size() && skip_space(from + line) >= to;
      if ((line > 0 || line_starting_) && all_space) t = t.substr(0, line);
    }
    if (!t.empty()) push(Tok::data, from, std::string(t));
  }

  char sign_at(size_t pos) const { return pos < s_.size() && (s_[pos] == '-' || s_[pos] == '+') ? s_[pos] : '\0'; }

  // Where a raw block opens at `pos`, behind its tag; npos otherwise.
  size_t raw_begin(size_t pos, char& sign) const {
    size_t p = pos + 2;
    sign = sign_at(p);
    if (sign) ++p;
    p = skip_space(p);
    if (!at("raw", p)) return std::string::npos;
    p = skip_space(p + 3);
    if (at("-%}", p)) return skip_space(p + 3);
    return at("%}", p) ? p + 2 : std::string::npos;
  }

  // Behind the end of a block or comment tag that starts at pos; npos otherwise.
  size_t tag_end(std::string_view end, size_t pos) const {
    if (at(end, pos)) return pos + 2 + (at("\n", pos + 2) ? 1 : 0);
    if (pos < s_.size() && s_[pos] == '+' && at(end, pos + 1)) return pos + 3;
    if (pos < s_.size() && s_[pos] == '-' && at(end, pos + 1)) return skip_space(pos + 3);
    return std::string::npos;
  }

  void moved(size_t to) {
    line_starting_ = to > 0 && s_[to - 1] == '\n';
    pos_ = to;
  }

  void text() {
    const size_t from = pos_;
    size_t open = from;
    while ((open = s_.find('{', open)) != std::string::npos && !at("{%", open) && !at("{{", open) && !at("{#", open)) ++open;
    if (open == std::string::npos) {
      push(Tok::data, from, s_.substr(from));
      pos_ = s_.size();
      return;
    }
    char sign = 0;
    if (at("{%", open)) {
      if (const size_t body = raw_begin(open, sign); body != std::string::npos) {
        data(from, open, sign, false);
        moved(body);
        return raw();
      }
    }
    sign = sign_at(open + 2);
    const bool variable = at("{{", open), comment = at("{#", open);
    data(from, open, sign, variable);
    moved(open + 2 + (sign ? 1 : 0));
    if (comment) return skip_comment(open);
    push(variable ? Tok::variable_begin : Tok::block_begin, open);
    code(variable);
  }

  void skip_comment(size_t open) {
    for (size_t p = pos_; (p = s_.find("#}", p)) != std::string::npos; ++p) {
      const size_t start = p > pos_ && (s_[p - 1] == '-' || s_[p - 1] == '+') ? p - 1 : p;
      return moved(tag_end("#}", start));
    }
    fail("Missing end of comment tag", open);
  }

  void raw() {
    const size_t from = pos_;
    for (size_t open = from; (open = s_.find("{%", open)) != std::string::npos; open += 2) {
      const char sign = sign_at(open + 2);
      size_t p = skip_space(open + 2 + (sign ? 1 : 0));
      if (!at("endraw", p)) continue;
      const size_t end = tag_end("%}", skip_space(p + 6));
      if (end == std::string::npos) continue;
      data(from, open, sign, false);
      return moved(end);
    }
    fail("Missing end of raw directive", from);
  }

  void code(bool variable) {
    std::string brackets;  // the closers we wait for; while there are any, }} and %} are operators
    while (true) {
      if (brackets.empty() && close(variable)) return;
      if (pos_ >= s_.size()) return;
      size_t next = pos_;
      const char32_t c = next_point(s_, next);
      if (is_space(c)) moved(next);
      else if (c < 0x80 && is_digit_char(static_cast<char>(c))) number();
      else if (is_word(c)) name();
      else if (c == '\'' || c == '"') string(static_cast<char>(c));
      else op(brackets, next);
    }
  }

  bool close(bool variable) {
    size_t end = std::string::npos;
    if (!variable) end = tag_end("%}", pos_);
    else if (at("}}")) end = pos_ + 2;
    else if (at("-}}")) end = skip_space(pos_ + 3);
    if (end == std::string::npos) return false;
    push(variable ? Tok::variable_end : Tok::block_end, pos_);
    moved(end);
    return true;
  }

  // digits with single underscores between them; the end, or `pos` itself if there are none.
  size_t digits(size_t pos, const char* set) const {
    const std::string_view allowed(set);
    const auto ok = [&](size_t p) { return p < s_.size() && allowed.find(s_[p]) != std::string_view::npos; };
    while (ok(pos) || (pos < s_.size() && s_[pos] == '_' && ok(pos + 1))) ++pos;
    return pos;
  }

  void number() {
    constexpr const char* kDecimal = "0123456789";
    const size_t from = pos_;
    const bool after_dot = from > 0 && s_[from - 1] == '.';
    size_t p = digits(from, kDecimal);
    bool real = false;
    if (!after_dot) {
      size_t q = p;
      if (q + 1 < s_.size() && s_[q] == '.' && is_digit_char(s_[q + 1])) q = digits(q + 1, kDecimal), real = true;
      if (q < s_.size() && (s_[q] | 32) == 'e') {
        size_t e = q + 1;
        if (e < s_.size() && (s_[e] == '+' || s_[e] == '-')) ++e;
        if (e < s_.size() && is_digit_char(s_[e])) q = digits(e, kDecimal), real = true;
      }
      if (real) p = q;
    }
    if (!real && s_[from] == '0') {
      const char kind = static_cast<char>(from + 1 < s_.size() ? s_[from + 1] | 32 : 0);
      const char* set = kind == 'x' ? "0123456789abcdefABCDEF" : kind == 'o' ? "01234567" : kind == 'b' ? "01" : nullptr;
      const size_t end = set ? digits(from + 2, set) : from + 2;
      p = end > from + 2 ? end : digits(from, "0");
    }
    push(real ? Tok::real : Tok::integer, from, s_.substr(from, p - from));
    moved(p);
  }

  void name() {
    const size_t from = pos_;
    size_t p = from;
    while (p < s_.size()) {
      size_t next = p;
      const char32_t c = next_point(s_, next);
      if (!is_word(c) && !(c >= 0x80 && is_identifier("a" + s_.substr(p, next - p)))) break;
      p = next;
    }
    std::string value = s_.substr(from, p - from);
    if (!is_identifier(value)) fail("Invalid character in identifier", from);
    push(Tok::name, from, std::move(value));
    moved(p);
  }

  void string(char quote) {
    size_t p = pos_ + 1;
    while (p < s_.size() && s_[p] != quote) p += s_[p] == '\\' ? 2 : 1;
    if (p >= s_.size())
      fail(std::string("unexpected char ") + (quote == '"' ? "'\"'" : "\"'\"") + " at " +
               std::to_string(count_points(std::string_view(s_).substr(0, pos_))),
           pos_);
    push(Tok::string, pos_, unescape(pos_ + 1, p));
    moved(p + 1);
  }

  char32_t hex(size_t& p, size_t end, int width, const char* form) {
    const size_t start = p - 2;
    char32_t c = 0;
    for (int i = 0; i < width; ++i, ++p) {
      const int d = p < end ? base::hex_digit(s_[p]) : -1;
      if (d < 0) fail(std::string("truncated ") + form + " escape", start);
      c = c * 16 + static_cast<char32_t>(d);
    }
    if (c > 0x10ffff) fail("illegal Unicode character", start);
    return c;
  }

  // Python's unicode-escape. A pair of surrogates becomes its character, a lone one U+FFFD: neither can leave as UTF-8 otherwise.
  std::string unescape(size_t p, size_t end) {
    std::string out;
    char32_t high = 0;
    const auto flush = [&] { if (high) append_point(out, 0xfffd), high = 0; };
    const auto put = [&](char32_t c) {
      if (c >= 0xdc00 && c < 0xe000 && high) {
        append_point(out, 0x10000 + ((high - 0xd800) << 10) + (c - 0xdc00)), high = 0;
        return;
      }
      flush();
      if (c >= 0xd800 && c < 0xdc00)
        high = c;
      else
        append_point(out, c >= 0xdc00 && c < 0xe000 ? 0xfffd : c);
    };
    constexpr std::string_view kFrom = "abfnrtv\\'\"", kTo = "\a\b\f\n\r\t\v\\'\"";
    while (p < end) {
      if (s_[p] != '\\' || p + 1 >= end) { flush(), out += s_[p++]; continue; }
      const char e = s_[p + 1];
      p += 2;
      if (e == '\n') continue;
      if (const size_t k = kFrom.find(e); k != std::string_view::npos) put(static_cast<unsigned char>(kTo[k]));
      else if (e == 'x') put(hex(p, end, 2, "\\xXX"));
      else if (e == 'u') put(hex(p, end, 4, "\\uXXXX"));
      else if (e == 'U') put(hex(p, end, 8, "\\UXXXXXXXX"));
      else if (e == 'N') fail("character names (\\N{...}) are not supported; write the character itself", p - 2);
      else if (e >= '0' && e <= '7') {
        char32_t c = static_cast<char32_t>(e - '0');
        for (int i = 0; i < 2 && p < end && s_[p] >= '0' && s_[p] <= '7'; ++i, ++p)
          c = c * 8 + static_cast<char32_t>(s_[p] - '0');
        put(c);
      } else if (static_cast<unsigned char>(e) >=
                 0x80) {  // Python escapes it before it unescapes: what is left is the spelled escape
        flush(), --p;
        const char32_t c = next_point(s_, p);
        const std::string digits = int_digits(c, 16, false);
        const size_t width = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
        out += width == 2 ? "\\x" : width == 4 ? "\\u" : "\\U";
        out += std::string(width - digits.size(), '0') + digits;
      } else
        flush(), out += '\\', out += e;
    }
    flush();
    return out;
  }

  void op(std::string& brackets, size_t next) {
    for (const Operator& o : kOperators) {
      if (!at(o.text)) continue;
      const char c = o.text[0];
      if (o.text.size() == 1) {
        if (c == '{') brackets += '}';
        if (c == '(') brackets += ')';
        if (c == '[') brackets += ']';
        if (c == '}' || c == ')' || c == ']') {
          if (brackets.empty()) fail(std::string("unexpected '") + c + "'", pos_);
          if (brackets.back() != c) fail(std::string("unexpected '") + c + "', expected '" + brackets.back() + "'", pos_);
          brackets.pop_back();
        }
      }
      push(o.type, pos_);
      return moved(pos_ + o.text.size());
    }
    fail("unexpected char '" + s_.substr(pos_, next - pos_) + "' at " +
             std::to_string(count_points(std::string_view(s_).substr(0, pos_))),
         pos_);
  }

  const std::string& s_;
  size_t pos_ = 0;
  bool line_starting_ = true;
  std::vector<Token> out_;
};

}  // namespace

const char* describe(Tok t) {
  for (const TypeName& n : kTypeNames)
    if (n.type == t) return n.name;
  for (const Operator& o : kOperators)
    if (o.type == t) return o.text.data();
  return "token";
}

std::string describe(const Token& t) { return t.type == Tok::name ? t.value : describe(t.type); }

std::vector<Token> tokenize(const std::string& source) { return Lexer(source).run(); }

std::string normalize_newlines(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\r') out += s[i];
    else if (out += '\n'; i + 1 < s.size() && s[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

}  // namespace isotope::text::jinja
