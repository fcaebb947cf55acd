// gpt-oss: each message has a channel; "analysis" is reasoning, a recipient makes a call, the rest is content.
//   <|channel|>analysis<|message|>They want weather.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>
//   <|channel|>final<|message|>It rains.<|return|>
#include "serve/tools/formats.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kHeader[] = {"<|message|>"};
constexpr std::string_view kMarks[] = {"<|channel|>", "<|start|>"};
constexpr std::string_view kEnds[] = {"<|end|>", "<|return|>", "<|call|>", "<|start|>", "<|channel|>"};
constexpr std::string_view kFunctions = "to=functions.";

// assistant<|channel|>commentary to=functions.get_weather <|constrain|>json
std::string recipient(std::string_view header) {
  const size_t at = header.find(kFunctions);
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + kFunctions.size());
  return std::string(header.substr(0, header.find_first_of(" <\n")));
}

}  // namespace

Script read_harmony(Reader& in, const Toolbox& tools) {
  int mark = co_await in.seek(kMarks);
  while (mark >= 0) {
    const auto header = co_await in.until(kHeader);
    if (!header) break;
    const std::string name = recipient(header.text);
    if (!name.empty() && !tools.empty()) {
      co_await in.spaces();
      const auto body = co_await in.json();
      if (body && is_json_object(*body)) in.call({.name = name, .arguments = *body});
    } else {
      in.become(header.text.find("analysis") != std::string::npos ? Piece::Kind::reasoning : Piece::Kind::content);
    }
    const int end = co_await in.seek(kEnds);
    if (end < 0) break;
    in.become(Piece::Kind::content);
    mark = end >= 3 ? 0 : co_await in.seek(kMarks);
  }
}

}  // namespace isotope::serve
