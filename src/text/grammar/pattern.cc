#include "text/grammar/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/hex_digit.h"

namespace isotope::text {
namespace {

constexpr bool high(uint32_t c) { return c >= 0xD800 && c < 0xDC00; }
constexpr bool low(uint32_t c) { return c >= 0xDC00 && c < 0xE000; }
/// What JSON writes with an escape.
constexpr bool escaped_in_json(uint32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

/// What classes lose: a quote, a backslash, control characters.
constexpr std::string_view kUnwritable = R"(\x22\x5c\x00-\x1f)";

constexpr uint32_t kLastCharacter = 0x10FFFF;

/// Escapes that stand for several characters, as the members of a class that JSON writes as they are.
struct Several {
  char name;
  std::string_view members;
};
constexpr Several kSeveral[] = {
    {'s', R"(\x20\u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff})"},
    {'S', R"(!#-\x5b\x5d-\u{9f}\u{a1}-\u{167f}\u{1681}-\u{1fff}\u{200b}-\u{2027}\u{202a}-\u{202e}\u{2030}-\u{205e}\u{2060}-\u{2fff}\u{3001}-\u{fefe}\u{ff00}-\u{10ffff})"},
    {'D', R"(\x20!#-\x2f\x3a-\x5b\x5d-\u{10ffff})"},
    {'W', R"(\x20!#-\x2f\x3a-\x40\x5b\x5d\x5e\x60\x7b-\u{10ffff})"},
};

std::string_view several(std::string_view escape) {
  for (const Several& s : kSeveral) {
    if (escape.size() == 2 && escape[0] == '\\' && escape[1] == s.name) return s.members;
  }
  return {};
}

std::optional<uint32_t> hex(std::string_view digits) {
  uint32_t out = 0;
  if (digits.empty() || digits.size() > 6) return std::nullopt;
  for (const char c : digits) {
    const int digit = base::hex_digit(c);
    if (digit < 0) return std::nullopt;
    out = out * 16 + uint32_t(digit);
  }
  return out;
}

/// One item of an expression: a character, or text whose meaning is somebody else's (operators, \d, what is malformed).
struct Item {
  std::string_view text;
  std::optional<uint32_t> character;
};

uint32_t lead(unsigned char c) { return c < 0xE0 ? c & 0x1Fu : c < 0xF0 ? c & 0x0Fu : c & 0x07u; }

Item raw_item(std::string_view s) {
  const auto c = static_cast<unsigned char>(s[0]);
  const size_t n = c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
  if (c < 0x80 || n == 1 || n > s.size()) return {s.substr(0, 1), c};
  uint32_t value = lead(c);
  for (size_t i = 1; i < n; ++i) value = value << 6 | (static_cast<unsigned char>(s[i]) & 0x3Fu);
  return {s.substr(0, n), value};
}

/// `s` begins with a backslash.
Item escape_item(std::string_view s, bool in_class) {
  constexpr std::pair<char, uint32_t> kControls[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'f', '\f'}, {'v', '\v'}, {'a', 7}, {'e', 27}, {'0', 0}};
  if (s.size() < 2) return {s, std::nullopt};
  const char c = s[1];
  for (const auto& [name, value] : kControls) {
    if (c == name) return {s.substr(0, 2), value};
  }
  if (c == 'b' && in_class) return {s.substr(0, 2), 8};
  if (c == 'c' && s.size() > 2) return {s.substr(0, 3), uint32_t(s[2]) & 31};
  size_t from = 2, n = c == 'x' ? 2 : c == 'u' ? 4 : 0, end = 2 + n;
  if (c == 'u' && s.size() > 2 && s[2] == '{') {
    end = s.find('}');
    if (end == std::string_view::npos) return {s.substr(0, 2), std::nullopt};
    from = 3, n = end - 3, ++end;
  }
  if (n > 0 || from == 3) {
    const auto value = hex(s.substr(from, n));
    if (!value || end > s.size()) return {s.substr(0, 2), std::nullopt};
    return {s.substr(0, end), value};
  }
  const bool letter = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  if (letter) return {s.substr(0, 2), std::nullopt};
  Item quoted = raw_item(s.substr(1));
  return {s.substr(0, 1 + quoted.text.size()), quoted.character};
}

/// The next item; a pair of surrogates is one character.
Item item_at(std::string_view s, bool in_class) {
  if (s[0] != '\\') return raw_item(s);
  Item first = escape_item(s, in_class);
  if (!first.character || !high(*first.character) || s.size() == first.text.size() || s[first.text.size()] != '\\') return first;
  const Item second = escape_item(s.substr(first.text.size()), in_class);
  if (!second.character || !low(*second.character)) return first;
  return {s.substr(0, first.text.size() + second.text.size()), 0x10000 + ((*first.character - 0xD800) << 10) + (*second.character - 0xDC00)};
}

class Rewriter {
 public:
  Rewriter(std::string_view pattern, std::string at, bool json) : rest_(pattern), at_(std::move(at)), json_(json) {}

  Result<std::string> run() {
    while (!rest_.empty()) ISO_CHECK_OK(rest_[0] == '[' ? take_class() : take_item());
    return std::move(out_);
  }

 private:
  Result<void> surrogate() const {
    return fail(Code::invalid_argument, "the expression asks for half of a surrogate pair, which no text has", at_,
                "write the whole character, for example \\u{1F600}");
  }
  Result<void> beyond(const Item& item) const {
    return fail(Code::invalid_argument, fmt::format("{} is beyond the last character, 10FFFF", item.text), at_, "use a smaller number");
  }
  Result<void> unwritable(std::string_view text) const {
    constexpr const char* kWhat = "the pattern asks for {}: quotes, backslashes and control characters, which JSON escapes, are not supported in patterns";
    return fail(Code::unsupported, fmt::format(kWhat, text), at_, "leave it out of the pattern, or use minLength and maxLength");
  }
  void put(const Item& item) {
    const bool ascii = item.character && *item.character < 0x80;
    const bool digits = item.text.starts_with("\\x") || (json_ && item.text.starts_with("\\c"));  // the library would take all digits behind \x
    if (item.character && (digits || (!ascii && (json_ || item.text.size() > 8)))) {
      out_ += fmt::format("\\u{{{:x}}}", *item.character);
    } else if (json_ && item.text == "]") {
      out_ += "\\]";   // outside of a class a character like others
    } else {
      out_ += item.text;
    }
    rest_.remove_prefix(item.text.size());
  }

  Result<void> take_item() {
    const Item item = item_at(rest_, false);
    if (item.character && (high(*item.character) || low(*item.character))) return surrogate();
    if (item.character && *item.character > kLastCharacter) return beyond(item);
    if (json_ && item.character && escaped_in_json(*item.character)) return unwritable(shown(*item.character));
    const std::string_view members = item.text == "." ? std::string_view() : several(item.text);
    if (!json_ || (members.empty() && item.text != ".")) {
      put(item);
      return {};
    }
    out_ += members.empty() ? fmt::format("[^{}]", kUnwritable) : fmt::format("[{}]", members);
    rest_.remove_prefix(item.text.size());
    return {};
  }

  // The members from `from` to `to` that JSON writes as they are.
  void put_range(uint32_t from, uint32_t to) {
    from = std::max<uint32_t>(from, 0x20);
    for (const uint32_t gap : {uint32_t('"'), uint32_t('\\')}) {
      if (from > gap || gap > to) continue;
      if (from < gap) out_ += fmt::format("\\u{{{:x}}}-\\u{{{:x}}}", from, gap - 1);
      from = gap + 1;
    }
    if (from <= to) out_ += fmt::format("\\u{{{:x}}}-\\u{{{:x}}}", from, to);
  }

  Result<void> take_class() {
    out_ += '[';
    rest_.remove_prefix(1);
    const bool negated = rest_.starts_with('^');
    if (negated) {
      out_ += '^';
      rest_.remove_prefix(1);
    }
    if (json_ && rest_.starts_with(']')) {
      return fail(Code::unsupported, "an empty character class is not supported", at_, "name its characters, or write a dot for any");
    }
    const bool filtered = json_ && !negated;
    const size_t begin = out_.size();
    while (!rest_.empty() && rest_[0] != ']') {
      const Item item = item_at(rest_, true);
      if (item.character && (high(*item.character) || low(*item.character))) return surrogate();
      if (item.character && *item.character > kLastCharacter) return beyond(item);
      const std::string_view behind = rest_.substr(item.text.size());
      const Item to = item.character && behind.size() > 1 && behind[0] == '-' && behind[1] != ']' ? item_at(behind.substr(1), true) : Item{};
      if (to.character && (high(*to.character) || low(*to.character))) return surrogate();
      if (filtered && to.character && *to.character >= *item.character) {
        put_range(*item.character, *to.character);
        rest_.remove_prefix(item.text.size() + 1 + to.text.size());
      } else if (filtered && item.character && escaped_in_json(*item.character)) {
        rest_.remove_prefix(item.text.size());
      } else if (const std::string_view members = several(item.text); filtered && !members.empty()) {
        out_ += members;
        rest_.remove_prefix(item.text.size());
      } else {
        put(item);
      }
    }
    if (rest_.empty()) return {};   // the library tells
    if (filtered && out_.size() == begin) return unwritable("one of some characters");
    if (json_ && negated) out_ += kUnwritable;
    out_ += ']';
    rest_.remove_prefix(1);
    return {};
  }

  static std::string shown(uint32_t c) { return c == '"' ? "a quote" : c == '\\' ? "a backslash" : fmt::format("the control character U+{:04X}", c); }

  std::string_view rest_;
  std::string at_, out_;
  bool json_;
};

}  // namespace

Result<std::string> json_pattern(std::string_view pattern, const std::string& at) { return Rewriter(pattern, at, true).run(); }

Result<std::string> joined_surrogates(std::string_view pattern, const std::string& at) { return Rewriter(pattern, at, false).run(); }

}  // namespace isotope::text
