// Llama 3.2, Llama 4, ToolACE: a reply that is nothing but a Python list of calls, at times between <|python_start|> and <|python_end|>.
//   [get_weather(city="Paris", days=3), get_time()]
// All names must be tools that the request has; a reply that merely begins with a bracket is content.
#include <algorithm>

#include "serve/tools/formats.h"
#include "serve/tools/python_literal.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kStart = "<|python_start|>", kEnd = "<|python_end|>";

}  // namespace

Script read_pythonic(Reader& in, const Toolbox& tools) {
  co_await in.spaces();
  co_await in.literal(kStart);
  co_await in.spaces();
  const auto list = co_await in.brackets();
  if (list) {
    auto calls = python_calls(*list);
    co_await in.spaces();
    co_await in.literal(kEnd);
    const bool known = !calls.empty() && std::all_of(calls.begin(), calls.end(), [&](const ToolCall& c) { return tools.has(c.name); });
    for (size_t i = 0; known && i < calls.size(); ++i) in.call(std::move(calls[i]));
  }
  while (co_await in.seek({}) >= 0) {}
}

}  // namespace isotope::serve
