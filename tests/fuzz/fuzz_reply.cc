// Any reply, any parser: cut or whole, the result is the same, and arguments are JSON objects.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "serve/tools/reply_parser.h"

using namespace isotope::serve;

namespace {

template <class Row>
std::vector<const Row*> rows(const std::string& names, isotope::Result<const Row*> (*find)(const std::string&, std::string_view)) {
  std::vector<const Row*> out{nullptr};
  std::istringstream in(names);
  for (std::string name; std::getline(in >> std::ws, name, ',');) out.push_back(*find(name, ""));
  return out;
}

std::string read(const ReplyPlan& plan, std::string_view text, size_t step) {
  ReplyParser parser(plan);
  std::string joined[2], calls;
  const auto take = [&](std::vector<Piece> pieces) {
    for (const Piece& p : pieces) {
      if (p.kind != Piece::Kind::call) {
        joined[p.kind == Piece::Kind::content] += p.text;
        continue;
      }
      if (!nlohmann::json::parse(p.call.arguments, nullptr, false).is_object()) std::abort();
      calls += p.call.name + '\0' + p.call.id + '\0' + p.call.arguments + '\0';
    }
  };
  for (size_t at = 0; at < text.size(); at += step) take(parser.feed(text.substr(at, step)));
  take(parser.finish());
  return joined[0] + '\0' + joined[1] + '\0' + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tools = rows(tool_parser_names(), find_tool_parser);
  static const auto reasoning = rows(reasoning_parser_names(), find_reasoning_parser);
  static const auto toolbox = std::make_shared<const Toolbox>(nlohmann::ordered_json::parse(
      R"([{"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"integer"},"b":{"type":["object","null"]}}}}}])"));
  if (size < 3) return 0;
  ReplyPlan plan{.reasoning = reasoning[data[0] % reasoning.size()], .tools = tools[data[1] % tools.size()], .toolbox = toolbox};
  if (plan.reasoning != nullptr) plan.start = reply_start(*plan.reasoning, "");
  const std::string_view text(reinterpret_cast<const char*>(data) + 3, size - 3);
  if (read(plan, text, text.size() + 1) != read(plan, text, 1 + data[2] % 8)) std::abort();
  return 0;
}
