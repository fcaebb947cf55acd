// MiniMax M2, and DeepSeek V3.2 with ｜DSML｜ in each tag and a mark that says whether a value is text:
//   <minimax:tool_call>
//   <invoke name="get_weather">
//   <parameter name="city">Paris</parameter>
//   </invoke>
//   </minimax:tool_call>
//   <｜DSML｜function_calls>
//   <｜DSML｜invoke name="get_weather">
//   <｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>
//   </｜DSML｜invoke>
//   </｜DSML｜function_calls>
#include <algorithm>

#include "serve/tools/formats.h"

namespace isotope::serve {
namespace {

struct Tags {
  std::string_view open[1];
  std::string_view in_list[2];     ///< invoke, end of the list
  std::string_view in_call[2];     ///< parameter, end of the call
  std::string_view value_end[1];
};
constexpr Tags kMinimax = {{"<minimax:tool_call>"}, {"<invoke name=", "</minimax:tool_call>"}, {"<parameter name=", "</invoke>"}, {"</parameter>"}};
constexpr Tags kDsml = {{"<｜DSML｜function_calls>"},
                        {"<｜DSML｜invoke name=", "</｜DSML｜function_calls>"},
                        {"<｜DSML｜parameter name=", "</｜DSML｜invoke>"},
                        {"</｜DSML｜parameter>"}};
constexpr std::string_view kAngle[] = {">"};

// "city", city, "city" string="true": the name, and what string= says.
struct Head {
  std::string name;
  bool ok = false, is_text = false, is_json = false;
};

Head read_head(std::string_view s) {
  Head head;
  const size_t end = s.starts_with('"') ? s.find('"', 1) : s.find_first_of(" \t\r\n");
  if (s.starts_with('"') && end == std::string_view::npos) return head;
  head.name = s.starts_with('"') ? s.substr(1, end - 1) : s.substr(0, end);
  head.is_text = s.find("string=\"true\"", std::min(end, s.size())) != std::string_view::npos;
  head.is_json = s.find("string=\"false\"", std::min(end, s.size())) != std::string_view::npos;
  head.ok = !head.name.empty() && head.name.find_first_of("<>\n") == std::string::npos;
  return head;
}

std::string value_of(const Head& head, const ToolCall& call, const Toolbox& tools, const std::string& text) {
  if (head.is_text) return json_quote(text);
  if (head.is_json && is_json(text)) return text;
  return tools.typed(call.name, head.name, text);
}

Script read_invokes(Reader& in, const Toolbox& tools, const Tags& tags) {
  while (co_await in.seek(tags.open) >= 0) {
    for (;;) {
      co_await in.spaces();
      const int next = co_await in.one_of(tags.in_list);
      if (next == 1) in.drop();
      if (next != 0) break;
      const auto name = co_await in.until(kAngle);
      const Head call_head = read_head(name.text);
      if (!name || !call_head.ok) break;
      ToolCall call{.name = call_head.name};
      Arguments arguments;
      bool ended = false;
      for (;;) {
        co_await in.spaces();
        const int inside = co_await in.one_of(tags.in_call);
        ended = inside == 1;
        if (inside != 0) break;
        const auto key = co_await in.until(kAngle);
        const Head head = read_head(key.text);
        if (!key || !head.ok) break;
        const auto value = co_await in.until(tags.value_end);
        if (!value) break;
        arguments.set(head.name, value_of(head, call, tools, value.text));
      }
      if (!ended) break;
      call.arguments = arguments.text();
      in.call(std::move(call));
    }
  }
}

}  // namespace

Script read_minimax_m2(Reader& in, const Toolbox& tools) { return read_invokes(in, tools, kMinimax); }
Script read_deepseek_v32(Reader& in, const Toolbox& tools) { return read_invokes(in, tools, kDsml); }

}  // namespace isotope::serve
