// Hermes, Qwen2.5, Qwen3:
//   <tool_call>
//   {"name": "get_weather", "arguments": {"city": "Paris"}}
//   </tool_call>
// Some checkpoints leave the closing tag out before the end of the reply.
#include "serve/tools/formats.h"
#include "serve/tools/json_call.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kOpen[] = {"<tool_call>"};
constexpr std::string_view kClose = "</tool_call>";

}  // namespace

Script read_hermes(Reader& in, const Toolbox&) {
  while (co_await in.seek(kOpen) >= 0) {
    co_await in.spaces();
    const auto body = co_await in.json();
    if (!body) continue;
    co_await in.spaces();
    const bool closed = co_await in.literal(kClose);
    auto call = json_call(*body);
    if (call && (closed || in.at_end())) in.call(*std::move(call));
  }
}

}  // namespace isotope::serve
