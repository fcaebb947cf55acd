#include "text/grammar/spec_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hex_digit.h"
#include "text/grammar/pattern.h"

namespace isotope::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxRepeat = 4096;
constexpr double kMaxProduct = 1 << 16;
constexpr size_t kMaxNesting = 64;

bool digit(char c) { return c >= '0' && c <= '9'; }

/// The larger number of "{3}", "{2,}" or "{2,5}" that begins at `at`, or 0 where no repetition begins.
int64_t repeat_at(std::string_view text, size_t& at) {
  size_t i = at + 1;
  int64_t most = 0;
  bool any = false;
  for (int part = 0; part < 2; ++part) {
    int64_t n = 0;
    for (; i < text.size() && digit(text[i]); ++i, any = true) n = std::min<int64_t>(n * 10 + (text[i] - '0'), int64_t{1} << 40);
    most = std::max(most, n);
    while (i < text.size() && text[i] == ' ') ++i;
    if (part == 0 && i < text.size() && text[i] == ',') {
      for (++i; i < text.size() && text[i] == ' ';) ++i;
    } else {
      break;
    }
  }
  if (!any || i >= text.size() || text[i] != '}') return 0;
  at = i;
  return std::max<int64_t>(most, 1);
}

// Repetitions multiply when they are nested, and brackets recurse: both are bounded whatever the text means. `quotes`: strings of a grammar hold no operators.
Result<void> check_repeats(std::string_view text, const std::string& at, bool quotes) {
  std::vector<double> inner{1};   // by open bracket: the largest product below it
  double last = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
      if (text.substr(i).starts_with("u{")) i = std::min(text.find('}', i), text.size());  // a character by its number
      last = 1;
      continue;
    }
    if (quotes && c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i) i += text[i] == '\\' ? 1 : 0;
      last = 1;
      continue;
    }
    if (c == '[') {
      for (i += i + 1 < text.size() && text[i + 1] == ']' ? 2 : 1; i < text.size() && text[i] != ']'; ++i) i += text[i] == '\\' ? 1 : 0;
      last = 1;
      continue;
    }
    if (c == '(') {
      inner.push_back(1);
      if (inner.size() > kMaxNesting) return fail(Code::unsupported, fmt::format("brackets are nested more than {} deep", kMaxNesting), at, "flatten it");
    } else if (c == ')' && inner.size() > 1) {
      last = inner.back();
      inner.pop_back();
      inner.back() = std::max(inner.back(), last);
    } else if (c == '{') {
      const int64_t n = repeat_at(text, i);
      if (n > kMaxRepeat) return fail(Code::unsupported, fmt::format("a repetition of more than {} is not supported", kMaxRepeat), at, "lower it, or use * or +");
      if (n > 0) last *= double(n);
      if (last > kMaxProduct) return fail(Code::unsupported, fmt::format("repetitions inside each other allow more than {} parts", int64_t(kMaxProduct)), at, "lower them");
      inner.back() = std::max(inner.back(), last);
    } else if (c != '*' && c != '+' && c != '?' && c != ' ') {
      last = 1;
    }
  }
  return {};
}

/// "\\x41" with any number of digits and "\\U00000041", as grammars write characters: their numbers end at 10FFFF.
Result<void> check_escapes(std::string_view text, const std::string& at) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') continue;
    const char kind = text[++i];
    if (kind != 'x' && kind != 'U') continue;
    uint64_t number = 0;
    size_t end = i + 1;
    for (; end < text.size() && base::hex_digit(text[end]) >= 0 && (kind == 'x' || end <= i + 8); ++end)
      number = std::min<uint64_t>(number * 16 + uint64_t(base::hex_digit(text[end])), uint64_t{1} << 32);
    if (number > 0x10FFFF)
      return fail(Code::invalid_argument, fmt::format("\\{} is beyond the last character, 10FFFF", text.substr(i, std::min<size_t>(end - i, 20))), at, "use a smaller number");
  }
  return {};
}

Result<void> check_text(const GrammarSpec& s, size_t most, bool quotes) {
  const auto& text = s.value.get_ref<const std::string&>();
  if (text.empty()) return fail(Code::invalid_argument, "the text is empty", s.at, "write what the answer must be");
  if (text.size() > most) return fail(Code::unsupported, fmt::format("{} bytes, at most {} are allowed", text.size(), most), s.at, "make it smaller");
  if (text.find('\0') != std::string::npos) return fail(Code::invalid_argument, "the text holds a zero byte", s.at, "leave it out");
  if (quotes) ISO_CHECK_OK(check_escapes(text, s.at));
  return check_repeats(text, s.at, quotes);
}

Result<void> check_choices(const GrammarSpec& s, const GrammarLimits& limits) {
  if (s.value.empty()) return fail(Code::invalid_argument, "the list of choices is empty", s.at, "give at least one");
  if (s.value.size() > limits.schema.max_choices) return fail(Code::unsupported, fmt::format("{} choices, at most {} are allowed", s.value.size(), limits.schema.max_choices), s.at);
  size_t bytes = 0;
  for (const Json& text : s.value) {
    bytes += text.get_ref<const std::string&>().size();
    if (text == "") return fail(Code::invalid_argument, "a choice is empty", s.at, "leave it out");
  }
  if (bytes > limits.max_text) return fail(Code::unsupported, fmt::format("the choices have {} bytes, at most {} are allowed", bytes, limits.max_text), s.at, "shorten them");
  return {};
}

constexpr const char* kListKeys[] = {"elements", "tags", "structures"};
constexpr const char* kFormatKeys[] = {"format", "content"};

// Schemas, patterns and grammars inside a structural tag keep the same rules as those that stand alone.
Result<Json> check_tag(const Json& tag, const std::string& at, const GrammarLimits& limits, size_t depth = 0) {
  if (!tag.is_object()) return fail(Code::invalid_argument, "a part of a structural tag must be an object", at);
  if (depth > limits.schema.max_depth) return fail(Code::unsupported, "the structural tag is nested too deep", at, "flatten it");
  Json out = tag;
  for (auto& [key, value] : out.items()) {
    const std::string path = at + "." + key.substr(0, 60);
    if ((key == "json_schema" || key == "schema") && (value.is_object() || value.is_boolean())) {
      ISO_TRY(value, checked_schema(value, path, false, limits.schema));
    } else if ((key == "pattern" || key == "grammar") && value.is_string()) {
      ISO_CHECK_OK(check_text({.value = value, .at = path}, limits.max_text, key == "grammar"));
      if (key == "pattern") {
        ISO_TRY(value, joined_surrogates(value.get_ref<const std::string&>(), path));
      }
    } else if ((key == "min" || key == "max" || key == "max_tokens" || key == "max_chars") && value.is_number() && value.get<double>() > double(kMaxRepeat)) {
      return fail(Code::unsupported, fmt::format("{} must be at most {}", key, kMaxRepeat), path, "lower it");
    } else if (std::find(std::begin(kFormatKeys), std::end(kFormatKeys), key) != std::end(kFormatKeys) && value.is_object()) {
      ISO_TRY(value, check_tag(value, path, limits, depth + 1));
    } else if (std::find(std::begin(kListKeys), std::end(kListKeys), key) != std::end(kListKeys) && value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) {
        if (!value[i].is_object()) continue;
        ISO_TRY(value[i], check_tag(value[i], fmt::format("{}[{}]", path, i), limits, depth + 1));
      }
    }
  }
  if (out.contains("json_schema") && out.value("type", Json()) == "json_schema" && !out.contains("max_whitespace_cnt")) out["max_whitespace_cnt"] = kMostSpaces;
  return out;
}

}  // namespace

Result<GrammarSpec> check_spec(const GrammarSpec& asked, const GrammarLimits& limits) {
  GrammarSpec s = asked;
  switch (s.kind) {
    case GrammarSpec::Kind::json: break;
    case GrammarSpec::Kind::json_schema: {
      ISO_TRY(s.value, checked_schema(s.value, s.at, s.closed, limits.schema));
      break;
    }
    case GrammarSpec::Kind::regex: {
      ISO_CHECK_OK(check_text(s, std::min<size_t>(limits.max_text, 8192), false));
      ISO_TRY(s.value, joined_surrogates(s.value.get_ref<const std::string&>(), s.at));
      break;
    }
    case GrammarSpec::Kind::ebnf: ISO_CHECK_OK(check_text(s, limits.max_text, true)); break;
    case GrammarSpec::Kind::choice: ISO_CHECK_OK(check_choices(s, limits)); break;
    case GrammarSpec::Kind::structural_tag: {
      ISO_TRY(s.value, check_tag(s.value, s.at, limits));
      const size_t bytes = s.value.dump(-1, ' ', false, Json::error_handler_t::replace).size();
      if (bytes > limits.schema.max_bytes) return fail(Code::unsupported, fmt::format("the structural tag has {} bytes, at most {} are allowed", bytes, limits.schema.max_bytes), s.at, "make it smaller");
      break;
    }
  }
  return s;
}

}  // namespace isotope::text
