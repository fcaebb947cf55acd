#include "weights/json.h"

#include <simdjson.h>

namespace isotope::weights {

namespace {

using nlohmann::json;

// Length of the Python-only literal at text[i], and what stands for it in JSON.
std::pair<size_t, std::string_view> python_literal(std::string_view rest) {
  if (rest.starts_with("Infinity")) return {8, "1.7976931348623157e308"};
  if (rest.starts_with("NaN")) return {3, "null"};
  return {0, {}};
}

// Checks the depth, which the parser itself does not bound, and replaces Python's literals outside strings.
Result<std::string> screened(std::string_view text, const std::string& source) {
  std::string out;
  size_t copied = 0;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
      continue;
    }
    if (c == '"')
      in_string = true;
    else if (c == ']' || c == '}')
      --depth;
    else if ((c == '[' || c == '{') && ++depth > kMaxJsonDepth)
      return fail(Code::data_loss,
                  "JSON is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels at offset " + std::to_string(i),
                  source, "use the file that was published with the model");
    else if (const auto [n, replacement] = python_literal(text.substr(i)); n) {
      out.append(text, copied, i - copied).append(replacement);
      copied = i + n;
      i += n - 1;
    }
  }
  return out.append(text, copied);
}

}  // namespace

Result<json> parse_json(std::string_view text, const std::string& source) {
  ISO_TRY(const std::string clean, screened(text, source));
  try {
    return json::parse(clean);
  } catch (const json::exception& e) {
    const auto* at = dynamic_cast<const json::parse_error*>(&e);
    return fail(Code::data_loss, "the file is not valid JSON" + (at ? " at offset " + std::to_string(at->byte) : std::string()), source,
                "download the file again; it may be cut off");
  }
}

bool valid_name(std::string_view name, size_t limit) {
  return !name.empty() && name.size() <= limit && name.find('\0') == name.npos &&
         simdjson::validate_utf8(name.data(), name.size());
}

std::string quote_name(std::string_view name) {
  constexpr size_t kShown = 80;
  std::string_view shown = name.substr(0, kShown);
  if (shown.size() < name.size())  // do not cut a character in two
    while (!shown.empty() && (static_cast<unsigned char>(name[shown.size()]) & 0xc0) == 0x80) shown.remove_suffix(1);
  const bool utf8 = simdjson::validate_utf8(shown.data(), shown.size());
  std::string s = "'";
  for (const char c : shown) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 32 && u != 127 && (u < 128 || utf8)) {
      s += c;
    } else {
      constexpr char kHex[] = "0123456789abcdef";
      s += {'\\', 'x', kHex[u >> 4], kHex[u & 15]};
    }
  }
  return s + (shown.size() < name.size() ? "…' (" + std::to_string(name.size()) + " bytes)" : "'");
}

}  // namespace isotope::weights
