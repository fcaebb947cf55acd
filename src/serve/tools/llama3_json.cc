// Llama 3.1 to 4: a reply that is nothing but calls, at times behind <|python_tag|>.
//   {"name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "get_time", "parameters": {}}
// Nothing marks such an object as a call but the name of a tool that the request has; without it the reply is a plain JSON answer.
#include <algorithm>

#include "serve/tools/formats.h"
#include "serve/tools/json_call.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kTag[] = {"<|python_tag|>"};

}  // namespace

Script read_llama3_json(Reader& in, const Toolbox& tools) {
  co_await in.spaces();
  co_await in.literal(kTag[0]);
  for (bool here = true; here;) {
    co_await in.spaces();
    const auto body = co_await in.json();
    auto calls = body ? json_calls(*body) : std::vector<ToolCall>();
    if (calls.empty() || !std::all_of(calls.begin(), calls.end(), [&](const ToolCall& c) { return tools.has(c.name); })) {
      const int tag = co_await in.seek(kTag);
      here = tag >= 0;
      continue;
    }
    for (ToolCall& call : calls) in.call(std::move(call));
    co_await in.spaces();
    co_await in.literal(";");
  }
}

}  // namespace isotope::serve
