// GLM 4.5 to 4.7; line ends between the tags are optional:
//   <tool_call>get_weather
//   <arg_key>city</arg_key>
//   <arg_value>Paris</arg_value>
//   </tool_call>
#include "serve/tools/formats.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kOpen[] = {"<tool_call>"};
constexpr std::string_view kInside[] = {"<arg_key>", "</tool_call>"};
constexpr std::string_view kKeyEnd[] = {"</arg_key>"};
constexpr std::string_view kValue = "<arg_value>";
constexpr std::string_view kValueEnd[] = {"</arg_value>"};

}  // namespace

Script read_glm45(Reader& in, const Toolbox& tools) {
  while (co_await in.seek(kOpen) >= 0) {
    co_await in.spaces();
    ToolCall call;
    call.name = co_await in.name();
    if (call.name.empty()) continue;
    Arguments arguments;
    bool ended = false;
    for (;;) {
      co_await in.spaces();
      const int next = co_await in.one_of(kInside);
      ended = next == 1;
      if (next != 0) break;
      const auto key = co_await in.until(kKeyEnd);
      if (!key || key.text.empty()) break;
      co_await in.spaces();
      if (!co_await in.literal(kValue)) break;
      const auto value = co_await in.until(kValueEnd);
      if (!value) break;
      arguments.set(key.text, tools.typed(call.name, key.text, value.text));
    }
    if (!ended) continue;
    call.arguments = arguments.text();
    in.call(std::move(call));
  }
}

}  // namespace isotope::serve
