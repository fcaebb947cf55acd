#include "serve/tools/markup.h"

#include <iterator>
#include <string_view>
#include <utility>

namespace isotope::serve {
namespace {

using Json = nlohmann::ordered_json;

/// How a family writes calls. "NAME" stands for the tool's name.
struct CallMarkup {
  std::string_view parser;
  std::string_view section, section_end;   ///< around all calls; may be empty
  std::string_view begin, end;             ///< around the arguments of one
  std::string_view separator;
  const char* style = "json";
  bool marked = true;                      ///< text may hold calls: the beginning cannot be mistaken for an answer
  std::string_view number = {};            ///< between `begin` and the arguments: the call's number, then this
};
constexpr CallMarkup kCalls[] = {
    {"hermes", "", "", "<tool_call>\n{\"name\": \"NAME\", \"arguments\": ", "}\n</tool_call>", "\n"},
    {"llama3_json", "", "", "{\"name\": \"NAME\", \"parameters\": ", "}", "; ", "json", false},
    {"llama4_json", "", "", "{\"name\": \"NAME\", \"parameters\": ", "}", "; ", "json", false},
    {"mistral", "[TOOL_CALLS][", "]", "{\"name\": \"NAME\", \"arguments\": ", "}", ", "},
    {"deepseek_v3", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n", "\n```<｜tool▁call▁end｜>", "\n"},
    {"deepseek_v31", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>", "<｜tool▁call▁end｜>", ""},
    {"kimi_k2", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>functions.NAME:", "<|tool_call_end|>", "", "json", true,
     "<|tool_call_argument_begin|>"},
    {"qwen3_coder", "", "", "<tool_call>\n<function=NAME>\n", "\n</function>\n</tool_call>", "\n", "qwen_xml"},
    {"qwen3_xml", "", "", "<tool_call>\n<function=NAME>\n", "\n</function>\n</tool_call>", "\n", "qwen_xml"},
    {"glm45", "", "", "<tool_call>NAME\n", "\n</tool_call>", "\n", "glm_xml"},
    {"glm47", "", "", "<tool_call>NAME\n", "\n</tool_call>", "\n", "glm_xml"},
    {"minimax_m2", "<minimax:tool_call>\n", "\n</minimax:tool_call>", "<invoke name=\"NAME\">\n", "\n</invoke>", "\n", "minimax_xml"},
    {"deepseek_v32", "<｜DSML｜function_calls>\n", "\n</｜DSML｜function_calls>", "<｜DSML｜invoke name=\"NAME\">\n", "\n</｜DSML｜invoke>", "\n", "deepseek_xml"},
};
constexpr std::string_view kHarmony = "<|start|><|end|><|message|><|channel|><|constrain|><|call|>";
constexpr std::string_view kFinal = "<|channel|>final<|message|>", kRecipient = "<|channel|>commentary to=functions.", kHarmonyArguments = " <|constrain|>json<|message|>";

// Line ends and spaces between the tags and what follows.
Json space() { return {{"type", "regex"}, {"pattern", "[ \\t\\r\\n]{0,16}"}}; }
Json any_text() { return {{"type", "any_text"}}; }
Json text(std::string_view value) { return {{"type", "const_string"}, {"value", value}}; }
Json tag(std::string_view begin, Json content, std::string_view end) {
  return {{"type", "tag"}, {"begin", begin}, {"content", std::move(content)}, {"end", end}};
}
Json sequence(std::vector<Json> parts) { return {{"type", "sequence"}, {"elements", std::move(parts)}}; }

Json either(Json a, Json b) { return {{"type", "or"}, {"elements", {std::move(a), std::move(b)}}}; }

bool has_channels(const ToolRow* tools, const ReasoningRow* reasoning) { return (tools != nullptr && tools->whole) || (reasoning != nullptr && reasoning->whole != nullptr); }

const CallMarkup* markup_for(const ToolRow& row) {
  for (const CallMarkup& m : kCalls) {
    if (m.parser == row.name) return &m;
  }
  return nullptr;
}

std::string named(std::string_view pattern, const std::string& name) {
  std::string out(pattern);
  if (const size_t at = out.find("NAME"); at != std::string::npos) out.replace(at, 4, name);
  return out;
}

Json arguments_of(const Json& function, const char* style) {
  Json schema = function.value("parameters", Json(nullptr));
  if (!schema.is_object() || schema.empty()) schema = {{"type", "object"}, {"properties", Json::object()}};
  Json out = {{"type", "json_schema"}, {"json_schema", std::move(schema)}, {"style", style}};
  // Around a bare value one character may stand, the line end that belongs to the markup.
  if (std::string_view(style) != "json") out["max_whitespace_cnt"] = 1;
  return out;
}

Json call_tag(const CallMarkup& m, const Json& function) {
  const std::string name = function.at("name").get<std::string>();
  Json arguments = arguments_of(function, m.style);
  if (!m.number.empty()) arguments = sequence({{{"type", "regex"}, {"pattern", "[0-9]{1,3}"}}, text(m.number), std::move(arguments)});
  return tag(named(m.begin, name), std::move(arguments), m.end);
}

// A call ends its message, so that there is one at most.
Json harmony_call(const Json& tools) {
  Json any = Json::array();
  for (const Json& tool : tools) {
    const Json& f = tool.at("function");
    any.push_back(tag(f.at("name").get<std::string>() + std::string(kHarmonyArguments), arguments_of(f, "json"), ""));
  }
  return sequence({tag("", any_text(), kRecipient), any.size() == 1 ? any[0] : Json{{"type", "or"}, {"elements", any}}});
}

}  // namespace

std::vector<std::string> markup_of(const ToolRow* tools, const ReasoningRow* reasoning) {
  std::vector<std::string> out;
  if (has_channels(tools, reasoning)) out.emplace_back(kHarmony);
  if (const CallMarkup* m = tools != nullptr ? markup_for(*tools) : nullptr; m != nullptr) {
    for (const std::string_view part : {m->section, m->section_end, m->begin, m->end, m->number}) out.emplace_back(part);
  }
  if (reasoning != nullptr && !reasoning->open.empty()) {
    out.emplace_back(reasoning->open);
    out.emplace_back(reasoning->close);
  }
  return out;
}

Json reasoning_prefix(const ReplyPlan& plan) {
  if (has_channels(plan.tools, plan.reasoning)) return tag("", any_text(), kFinal);
  if (plan.reasoning == nullptr || plan.start == ReplyPlan::Start::outside) return nullptr;
  if (plan.start == ReplyPlan::Start::inside) return sequence({tag("", any_text(), plan.reasoning->close), space()});
  return {{"type", "optional"}, {"content", sequence({tag(plan.reasoning->open, any_text(), plan.reasoning->close), space()})}};
}

Json call_format(const ToolRow& row, const CallChoice& choice) {
  if (row.whole && !choice.optional) return harmony_call(choice.tools);
  if (row.whole) return either(harmony_call(choice.tools), sequence({tag("", any_text(), kFinal), any_text()}));
  const CallMarkup* m = markup_for(row);
  if (m == nullptr) return nullptr;
  Json tags = Json::array();
  for (const Json& tool : choice.tools) tags.push_back(call_tag(*m, tool.at("function")));
  const bool sectioned = !m->section.empty();
  const bool alone = !choice.optional || sectioned;
  Json calls = {{"type", "tags_with_separator"}, {"tags", tags}, {"separator", m->separator}, {"at_least_one", true}, {"stop_after_first", !choice.parallel}};
  if (sectioned) calls = tag(m->section, std::move(calls), m->section_end);
  if (!choice.optional) return calls;
  if (!m->marked) return either(std::move(calls), {{"type", "regex"}, {"pattern", "[^\\s{][\\s\\S]*"}});
  const std::string_view whole = sectioned ? m->section : m->begin.substr(0, m->begin.find('>') + 1);
  return {{"type", "triggered_tags"}, {"triggers", Json::array({whole})}, {"tags", alone ? Json::array({calls}) : std::move(tags)}, {"at_least_one", false},
          {"stop_after_first", !choice.parallel}};
}

}  // namespace isotope::serve
