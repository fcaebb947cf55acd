// Kimi K2: the identifier holds the name and the number of the call.
//   <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>
#include "serve/tools/formats.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kOpen[] = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_calls_section_end|>"};
constexpr std::string_view kArguments = "<|tool_call_argument_begin|>", kCallEnd = "<|tool_call_end|>";
constexpr int kCall = 1;

// functions.get_weather:0 → get_weather
std::string name_of(std::string_view id) {
  if (id.starts_with("functions.")) id.remove_prefix(10);
  return std::string(id.substr(0, id.rfind(':')));
}

}  // namespace

Script read_kimi_k2(Reader& in, const Toolbox&) {
  for (bool called = false;;) {
    const int opened = co_await in.seek(kOpen);
    if (opened < 0) break;
    if (opened == 0) {
      co_await in.spaces();
      if (!co_await in.literal(kOpen[kCall])) continue;
    } else if (opened != kCall) {
      if (called) in.drop();
      continue;
    }
    co_await in.spaces();
    ToolCall call;
    call.id = co_await in.name();
    call.name = name_of(call.id);
    co_await in.spaces();
    if (call.name.empty() || !co_await in.literal(kArguments)) continue;
    co_await in.spaces();
    const auto body = co_await in.json();
    if (!body || !is_json_object(*body)) continue;
    co_await in.spaces();
    const bool closed = co_await in.literal(kCallEnd);
    if (!closed && !in.at_end()) continue;
    call.arguments = *body;
    in.call(std::move(call));
    called = true;
  }
}

}  // namespace isotope::serve
