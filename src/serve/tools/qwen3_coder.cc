// Qwen3-Coder:
//   <tool_call>
//   <function=get_weather>
//   <parameter=city>
//   Paris
//   </parameter>
//   </function>
//   </tool_call>
// The model at times leaves <tool_call> out. One line end on each side of a value belongs to the markup.
#include "serve/tools/formats.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kOpen[] = {"<tool_call>", "<function="};
constexpr std::string_view kAngle[] = {">"};
constexpr std::string_view kInside[] = {"<parameter=", "</function>"};
constexpr std::string_view kValueEnd[] = {"</parameter>"};
constexpr std::string_view kFunction = "<function=", kClose = "</tool_call>";

std::string_view without_line_ends(std::string_view s) {
  if (s.starts_with('\n')) s.remove_prefix(1);
  if (s.ends_with('\n')) s.remove_suffix(1);
  return s;
}

bool is_tag_name(const std::string& s) { return !s.empty() && s.find_first_of("<\n") == std::string::npos; }

}  // namespace

Script read_qwen3_coder(Reader& in, const Toolbox& tools) {
  for (;;) {
    const int opened = co_await in.seek(kOpen);
    if (opened < 0) break;
    if (opened == 0) {
      co_await in.spaces();
      if (!co_await in.literal(kFunction)) continue;
    }
    ToolCall call;
    call.name = co_await in.name();
    if (call.name.empty() || !co_await in.literal(kAngle[0])) continue;
    Arguments arguments;
    bool ended = false;
    for (;;) {
      co_await in.spaces();
      const int next = co_await in.one_of(kInside);
      ended = next == 1;
      if (next != 0) break;
      const auto key = co_await in.until(kAngle);
      if (!key || !is_tag_name(key.text)) break;
      const auto value = co_await in.until(kValueEnd);
      if (!value) break;
      arguments.set(key.text, tools.typed(call.name, key.text, without_line_ends(value.text)));
    }
    if (!ended || (opened == 1 && !tools.has(call.name))) continue;
    if (opened == 0) {
      co_await in.spaces();
      const bool closed = co_await in.literal(kClose);
      if (!closed && !in.at_end()) continue;
    }
    call.arguments = arguments.text();
    in.call(std::move(call));
    if (opened == 0) continue;
    co_await in.spaces();
    if (co_await in.literal(kClose)) in.drop();
  }
}

}  // namespace isotope::serve
