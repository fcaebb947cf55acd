// DeepSeek V3 and R1 write the word "function", a separator, the name and a fenced object; V3.1 writes the name, a separator and the object:
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
//   ```json
//   {"city": "Paris"}
//   ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
#include "serve/tools/formats.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kOpen[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁calls▁end｜>"};
constexpr std::string_view kSeparator = "<｜tool▁sep｜>", kFence = "```json", kFenceEnd = "```", kCallEnd = "<｜tool▁call▁end｜>";
constexpr int kCall = 1;

}  // namespace

Script read_deepseek_v3(Reader& in, const Toolbox&) {
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
    call.name = co_await in.name();
    co_await in.spaces();
    if (call.name.empty() || !co_await in.literal(kSeparator)) continue;
    if (call.name == "function") {
      co_await in.spaces();
      std::string name = co_await in.name();
      if (!name.empty()) call.name = std::move(name);
      co_await in.spaces();
      co_await in.literal(kFence);
    }
    co_await in.spaces();
    const auto body = co_await in.json();
    if (!body || !is_json_object(*body)) continue;
    co_await in.spaces();
    co_await in.literal(kFenceEnd);
    co_await in.spaces();
    const bool closed = co_await in.literal(kCallEnd);
    if (!closed && !in.at_end()) continue;
    call.arguments = *body;
    in.call(std::move(call));
    called = true;
  }
}

}  // namespace isotope::serve
