#include "serve/tools/python_literal.h"

#include <optional>

#include "serve/tools/json_scan.h"
#include "serve/tools/toolbox.h"

namespace isotope::serve {
namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

void append_utf8(std::string& out, unsigned cp) {
  if (cp < 0x80) {
    out += char(cp);
  } else if (cp < 0x800) {
    out += char(0xC0 | cp >> 6);
    out += char(0x80 | (cp & 63));
  } else if (cp < 0x10000) {
    out += char(0xE0 | cp >> 12);
    out += char(0x80 | (cp >> 6 & 63));
    out += char(0x80 | (cp & 63));
  } else {
    out += char(0xF0 | cp >> 18);
    out += char(0x80 | (cp >> 12 & 63));
    out += char(0x80 | (cp >> 6 & 63));
    out += char(0x80 | (cp & 63));
  }
}

struct Escape {
  char letter, value;
};
constexpr Escape kEscapes[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'b', '\b'}, {'f', '\f'}, {'a', '\a'}, {'v', '\v'}, {'0', '\0'}, {'\\', '\\'}, {'\'', '\''}, {'"', '"'}};

// Reads literals and writes them as JSON. nullopt: not a literal.
class Literals {
 public:
  explicit Literals(std::string_view s) : rest_(s) {}

  bool eat(char c) {
    spaces();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool empty() {
    spaces();
    return rest_.empty();
  }
  // Words joined by dots: names of tools may have some.
  std::string name() {
    spaces();
    size_t n = 0;
    while (n < rest_.size() && (is_word(rest_[n]) || (n > 0 && (rest_[n] == '.' || rest_[n] == '-')))) ++n;
    std::string out(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return out;
  }
  std::optional<std::string> value(size_t depth) {
    spaces();
    if (rest_.empty() || depth > kMaxCallDepth) return std::nullopt;
    const char c = rest_[0];
    if (c == '"' || c == '\'') {
      const auto text = string();
      return text ? std::optional(json_quote(*text)) : std::nullopt;
    }
    if (c == '[' || c == '(') return list(c == '[' ? ']' : ')', depth);
    if (c == '{') return dict(depth);
    return atom();
  }

 private:
  void spaces() {
    const size_t n = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(n == std::string_view::npos ? rest_.size() : n);
  }
  std::optional<std::string> string();
  bool escape(std::string& out);
  std::optional<std::string> list(char close, size_t depth);
  std::optional<std::string> dict(size_t depth);
  std::optional<std::string> atom();

  std::string_view rest_;
};

std::optional<std::string> Literals::string() {
  const char quote = rest_[0];
  rest_.remove_prefix(1);
  std::string out;
  while (!rest_.empty() && rest_[0] != quote) {
    const char c = rest_[0];
    rest_.remove_prefix(1);
    if (c != '\\') {
      out += c;
    } else if (!escape(out)) {
      return std::nullopt;
    }
  }
  return eat(quote) ? std::optional(std::move(out)) : std::nullopt;
}

// Behind a backslash. An unknown escape stays as it is, as in Python.
bool Literals::escape(std::string& out) {
  if (rest_.empty()) return false;
  const char c = rest_[0];
  rest_.remove_prefix(1);
  const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits > 0) {
    unsigned cp = 0;
    for (size_t i = 0; i < digits; ++i) {
      const size_t value = rest_.empty() ? std::string_view::npos : std::string_view("0123456789abcdefABCDEF").find(rest_[0]);
      if (value == std::string_view::npos) return false;
      cp = cp << 4 | unsigned(value < 16 ? value : value - 6);
      rest_.remove_prefix(1);
    }
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000)) return false;
    append_utf8(out, cp);
    return true;
  }
  for (const Escape& e : kEscapes) {
    if (e.letter != c) continue;
    out += e.value;
    return true;
  }
  if (c != '\n') (out += '\\') += c;
  return true;
}

std::optional<std::string> Literals::list(char close, size_t depth) {
  rest_.remove_prefix(1);
  std::string out = "[";
  while (!eat(close)) {
    if (out.size() > 1 && !eat(',')) return std::nullopt;
    if (out.size() > 1 && eat(close)) break;
    const auto v = value(depth + 1);
    if (!v) return std::nullopt;
    out += (out.size() > 1 ? ", " : "") + *v;
  }
  return out + "]";
}

std::optional<std::string> Literals::dict(size_t depth) {
  rest_.remove_prefix(1);
  Arguments out;
  for (bool first = true; !eat('}'); first = false) {
    if (!first && !eat(',')) return std::nullopt;
    if (!first && eat('}')) break;
    spaces();
    if (rest_.empty() || (rest_[0] != '"' && rest_[0] != '\'')) return std::nullopt;
    auto key = string();
    if (!key || !eat(':')) return std::nullopt;
    auto v = value(depth + 1);
    if (!v) return std::nullopt;
    out.set(*std::move(key), *std::move(v));
  }
  return out.text();
}

std::optional<std::string> Literals::atom() {
  size_t n = 0;
  while (n < rest_.size() && (is_word(rest_[n]) || rest_[n] == '.' || rest_[n] == '-' || rest_[n] == '+')) ++n;
  const std::string word(rest_.substr(0, n));
  rest_.remove_prefix(n);
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  return is_json(word) ? std::optional(word) : std::nullopt;
}

}  // namespace

std::vector<ToolCall> python_calls(std::string_view text) {
  std::vector<ToolCall> out;
  Literals in(text);
  if (!in.eat('[')) return out;
  while (!in.eat(']')) {
    if (!out.empty() && !in.eat(',')) return {};
    if (!out.empty() && in.eat(']')) break;
    ToolCall call{.name = in.name()};
    if (call.name.empty() || !in.eat('(')) return {};
    Arguments arguments;
    for (bool first = true; !in.eat(')'); first = false) {
      if (!first && !in.eat(',')) return {};
      if (!first && in.eat(')')) break;
      std::string key = in.name();
      if (key.empty() || !in.eat('=')) return {};
      auto value = in.value(1);
      if (!value) return {};
      arguments.set(std::move(key), *std::move(value));
    }
    call.arguments = arguments.text();
    out.push_back(std::move(call));
  }
  if (!in.empty()) return {};
  return out;
}

}  // namespace isotope::serve
