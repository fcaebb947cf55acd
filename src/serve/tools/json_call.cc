#include "serve/tools/json_call.h"

#include "serve/tools/json_scan.h"

namespace isotope::serve {

std::optional<std::string> arguments_text(std::string_view value) {
  if (value == "null") return "{}";
  if (is_json_object(value)) return std::string(value);
  auto text = json_string(value);
  if (text && is_json_object(*text)) return text;
  return std::nullopt;
}

std::optional<ToolCall> json_call(std::string_view object) {
  if (!is_json_object(object)) return std::nullopt;
  ToolCall call{.arguments = "{}"};
  for (const auto& [key, value] : object_members(object)) {
    if (key == "name") {
      call.name = json_string(value).value_or("");
    } else if (key == "arguments" || key == "parameters") {
      auto arguments = arguments_text(value);
      if (!arguments) return std::nullopt;
      call.arguments = *std::move(arguments);
    } else if (key == "id") {
      call.id = json_string(value).value_or("");
    }
  }
  if (call.name.empty()) return std::nullopt;
  return call;
}

std::vector<ToolCall> json_calls(std::string_view value) {
  std::vector<ToolCall> out;
  if (!is_json(value)) return out;
  const auto items = value.starts_with('[') ? array_items(value) : std::vector<std::string_view>{value};
  for (const std::string_view item : items) {
    auto call = json_call(item);
    if (!call) return {};
    out.push_back(*std::move(call));
  }
  return out;
}

}  // namespace isotope::serve
