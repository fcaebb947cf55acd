// Mistral: a list of objects, or since the tokenizer's version 11 one marker for each call.
//   [TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "Ab3dE5gH9"}]
//   [TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]get_time[CALL_ID]Ab3dE5gH9[ARGS]{}
#include "serve/tools/formats.h"
#include "serve/tools/json_call.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kOpen[] = {"[TOOL_CALLS]"};
constexpr std::string_view kId = "[CALL_ID]", kArguments = "[ARGS]";

}  // namespace

Script read_mistral(Reader& in, const Toolbox&) {
  while (co_await in.seek(kOpen) >= 0) {
    co_await in.spaces();
    ToolCall call;
    call.name = co_await in.name();
    if (call.name.empty()) {
      const auto list = co_await in.json();
      if (!list) continue;
      for (ToolCall& c : json_calls(*list)) in.call(std::move(c));
      continue;
    }
    if (co_await in.literal(kId)) call.id = co_await in.name();
    co_await in.literal(kArguments);
    co_await in.spaces();
    const auto body = co_await in.json();
    if (!body || !is_json_object(*body)) continue;
    call.arguments = *body;
    in.call(std::move(call));
  }
}

}  // namespace isotope::serve
