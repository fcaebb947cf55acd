// Replies as models write them, whole and broken. However a reply is cut, the joined result is the same.
#include "serve/tools/reply_parser.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace isotope::serve {
namespace {

using Json = nlohmann::ordered_json;

struct Reply {
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  bool operator==(const Reply&) const = default;
};

void PrintTo(const Reply& r, std::ostream* os) {
  *os << "content «" << r.content << "» reasoning «" << r.reasoning << "»";
  for (const ToolCall& c : r.calls) *os << " call " << c.name << "(" << c.arguments << ") id «" << c.id << "»";
}

struct Case {
  const char* parser;      ///< tools; "-": none
  const char* reasoning;   ///< "-": none
  std::string text;
  Reply expected;
  const char* prompt = "";
};

const Json kToolList = Json::parse(R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"}, "scale": {"type": ["number", "null"]},
    "tags": {"type": "array"}, "where": {"anyOf": [{"type": "object"}, {"type": "string"}]}}}}},
  {"type": "function", "function": {"name": "get_time"}}])");

ReplyPlan plan_of(const Case& c) {
  ReplyPlan plan{.toolbox = std::make_shared<const Toolbox>(kToolList)};
  plan.tools = *find_tool_parser(*c.parser == '-' ? "none" : c.parser, "");
  plan.reasoning = *find_reasoning_parser(*c.reasoning == '-' ? "none" : c.reasoning, "");
  if (plan.reasoning != nullptr) plan.start = reply_start(*plan.reasoning, c.prompt);
  return plan;
}

void join(Reply& r, std::vector<Piece> pieces) {
  for (Piece& p : pieces) {
    if (p.kind == Piece::Kind::call) {
      r.calls.push_back(std::move(p.call));
    } else {
      (p.kind == Piece::Kind::content ? r.content : r.reasoning) += p.text;
    }
  }
}

Reply read(const ReplyPlan& plan, std::initializer_list<std::string_view> pieces) {
  ReplyParser parser(plan);
  Reply r;
  for (const auto p : pieces) join(r, parser.feed(p));
  join(r, parser.finish());
  return r;
}

ToolCall weather(std::string arguments = R"({"city": "Paris"})", std::string id = "") { return {"get_weather", std::move(arguments), std::move(id)}; }
ToolCall time_call(std::string arguments = "{}", std::string id = "") { return {"get_time", std::move(arguments), std::move(id)}; }

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      // hermes
      {"hermes", "-", "Just text, 1 < 2 and <tool.", {"Just text, 1 < 2 and <tool."}},
      {"hermes", "-", " \n kept \n ", {" \n kept \n "}},
      {"hermes", "-", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>", {"", "", {weather()}}},
      {"hermes", "-", "Let me look.\n\n<tool_call>\n{\"arguments\": {\"city\": \"Paris\"}, \"name\": \"get_weather\"}\n</tool_call>\n<tool_call>{\"name\":\"get_time\"}</tool_call>\nDone.",
       {"Let me look.Done.", "", {weather(), time_call()}}},
      {"hermes", "-", R"(<tool_call>{"name": "get_weather", "arguments": {"city": "a \"b\" </tool_call> {\\ é 😀 \u00e9"}}</tool_call>)",
       {"", "", {weather(R"({"city": "a \"b\" </tool_call> {\\ é 😀 \u00e9"})")}}},
      {"hermes", "-", R"(<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}</tool_call>)", {"", "", {weather()}}},
      {"hermes", "-", R"(<tool_call>{"name": "get_time", "arguments": {"n": 12345678901234567890123, "x": 1.50, "e": []}}</tool_call>)",
       {"", "", {time_call(R"({"n": 12345678901234567890123, "x": 1.50, "e": []})")}}},
      {"hermes", "-", R"(<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>)", {"", "", {{"no_such_tool", "{}"}}}},
      {"hermes", "-", "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}", {"", "", {time_call()}}},
      {"hermes", "-", "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par", {"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par"}},
      {"hermes", "-", "<tool_call>{\"name\": get_time}</tool_call>", {"<tool_call>{\"name\": get_time}</tool_call>"}},
      {"hermes", "-", "<tool_call>{\"arguments\": {}}</tool_call> x", {"<tool_call>{\"arguments\": {}}</tool_call> x"}},
      {"hermes", "-", "<tool_call>{\"name\": \"get_time\", \"arguments\": [1]}</tool_call>", {"<tool_call>{\"name\": \"get_time\", \"arguments\": [1]}</tool_call>"}},
      {"hermes", "-", "<tool_call>{\"name\": \"get_time\", \"arguments\": {\"s\": \"\\ud83d\"}}</tool_call>", {"<tool_call>{\"name\": \"get_time\", \"arguments\": {\"s\": \"\\ud83d\"}}</tool_call>"}},
      {"hermes", "-", "<tool_call>no <tool_call>{\"name\":\"get_time\"}</tool_call>", {"<tool_call>no", "", {time_call()}}},
      {"hermes", "-", "<tool_call><tool_call>{\"name\":\"get_time\"}</tool_call></tool_call>", {"<tool_call></tool_call>", "", {time_call()}}},
      {"hermes", "-", "<tool_call>{\"name\":\"get_time\",\"arguments\":{\"a\":1e999}}</tool_call>", {"<tool_call>{\"name\":\"get_time\",\"arguments\":{\"a\":1e999}}</tool_call>"}},
      {"hermes", "-", "", {}},
      // llama3_json
      {"llama3_json", "-", R"({"name": "get_weather", "parameters": {"city": "Paris"}})", {"", "", {weather()}}},
      {"llama3_json", "-", R"(<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "get_time", "parameters": {}})",
       {"", "", {weather(), time_call()}}},
      {"llama3_json", "-", R"({"name": "Ann", "parameters": {"age": 3}})", {R"({"name": "Ann", "parameters": {"age": 3}})"}},
      {"llama3_json", "-", R"( {"answer": [1, 2]} indeed)", {R"( {"answer": [1, 2]} indeed)"}},
      {"llama3_json", "-", R"(I think {"name": "get_time", "parameters": {}})", {R"(I think {"name": "get_time", "parameters": {}})"}},
      {"llama3_json", "-", R"({"name": "get_time", "parameters": {)", {R"({"name": "get_time", "parameters": {)"}},
      {"llama3_json", "-", "Calling <|python_tag|>{\"name\": \"get_time\", \"parameters\": {}}", {"Calling", "", {time_call()}}},
      {"llama3_json", "-", "<|python_tag|>print(1)", {"<|python_tag|>print(1)"}},
      // pythonic
      {"pythonic", "-", "[get_weather(city=\"Paris\"), get_time()]", {"", "", {weather(), time_call()}}},
      {"pythonic", "-", "[get_weather(city='O\\'Hare ] \\u00e9', days=-3, exact=True, scale=None, tags=[1, 'a', (2.5,)], where={'x': {'y': False}})]",
       {"", "", {weather(R"({"city": "O'Hare ] é", "days": -3, "exact": true, "scale": null, "tags": [1, "a", [2.5]], "where": {"x": {"y": false}}})")}}},
      {"pythonic", "-", "[1] Smith says it's so.", {"[1] Smith says it's so."}},
      {"pythonic", "-", "[unknown(a=1)]", {"[unknown(a=1)]"}},
      {"pythonic", "-", "[get_weather(city=x)]", {"[get_weather(city=x)]"}},
      {"pythonic", "-", "[get_weather(city=\"Par", {"[get_weather(city=\"Par"}},
      {"pythonic", "-", "[get_weather(\"Paris\")]", {"[get_weather(\"Paris\")]"}},
      {"llama4_pythonic", "-", "<|python_start|>[get_weather(city=\"Paris\")]<|python_end|>", {"", "", {weather()}}},
      // mistral
      {"mistral", "-", R"([TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_time", "arguments": {}, "id": "Ab3dE5gH9"}])",
       {"", "", {weather(), time_call("{}", "Ab3dE5gH9")}}},
      {"mistral", "-", R"(Sure.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]get_time[CALL_ID]Ab3dE5gH9[ARGS]{})",
       {"Sure.", "", {weather(), time_call("{}", "Ab3dE5gH9")}}},
      {"mistral", "-", R"([TOOL_CALLS]get_weather{"city": "Paris"})", {"", "", {weather()}}},
      {"mistral", "-", R"([TOOL_CALLS][{"name": "get_weather", "arg)", {R"([TOOL_CALLS][{"name": "get_weather", "arg)"}},
      {"mistral", "-", R"([TOOL_CALLS][{"name": "get_time", "arguments": {}}, 3])", {R"([TOOL_CALLS][{"name": "get_time", "arguments": {}}, 3])"}},
      {"mistral", "mistral", "[THINK]Hm.[/THINK][TOOL_CALLS]get_time[ARGS]{}", {"", "Hm.", {time_call()}}},
      // qwen3_coder
      {"qwen3_coder", "-",
       "I will.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n</function>\n</tool_call>",
       {"I will.", "", {weather(R"({"city": "Paris", "days": 3, "exact": true})")}}},
      {"qwen3_coder", "-", "<function=get_weather>\n<parameter=city>\n\"7\"\n\n</parameter>\n</function>\n</tool_call>", {"", "", {weather(R"({"city": "\"7\"\n"})")}}},
      {"qwen3_coder", "-", "<tool_call><function=get_weather><parameter=days>three</parameter><parameter=where>{\"x\": 1}</parameter><parameter=tags>[1, {}]</parameter></function></tool_call>",
       {"", "", {weather(R"({"days": "three", "where": {"x": 1}, "tags": [1, {}]})")}}},
      {"qwen3_coder", "-", "<tool_call>\n<function=get_time>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time></function>\n</tool_call>", {"", "", {time_call(), time_call()}}},
      {"qwen3_coder", "-", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis", {"<tool_call>\n<function=get_weather>\n<parameter=city>\nParis"}},
      {"qwen3_coder", "-", "<tool_call>\n<function=get_weather>\nParis</function>", {"<tool_call>\n<function=get_weather>\nParis</function>"}},
      {"qwen3_coder", "-", "Write <function=foo></function>.", {"Write <function=foo></function>."}},
      // deepseek
      {"deepseek_v3", "-", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"", "", {weather(), time_call()}}},
      {"deepseek_v31", "-", "Ok <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Paris\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", {"Ok", "", {weather()}}},
      {"deepseek_v31", "-", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\"<｜tool▁call▁end｜>", {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\"<｜tool▁call▁end｜>"}},
      {"deepseek_v32", "-", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">3</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       {"", "", {weather(R"({"city": "3", "days": 3})")}}},
      // kimi_k2
      {"kimi_k2", "-", "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|><|tool_call_begin|>functions.get_time:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
       {"", "", {weather(R"({"city": "Paris"})", "functions.get_weather:0"), time_call("{}", "functions.get_time:1")}}},
      {"kimi_k2", "-", "<|tool_call_begin|>functions.get_time:0<|tool_call_argument_begin|>nothing<|tool_call_end|>", {"<|tool_call_begin|>functions.get_time:0<|tool_call_argument_begin|>nothing<|tool_call_end|>"}},
      // glm45
      {"glm45", "-", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
       {"", "", {weather(R"({"city": "Paris", "days": 3})")}}},
      {"glm47", "glm45", "<think>Hm</think><tool_call>get_time</tool_call>", {"", "Hm", {time_call()}}},
      {"glm45", "-", "<tool_call>get_weather\n<arg_key>city</arg_key>\nParis</tool_call>", {"<tool_call>get_weather\n<arg_key>city</arg_key>\nParis</tool_call>"}},
      // minimax_m2
      {"minimax_m2", "minimax_m2", "Plan.\n</think>\n\nOk.\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Paris</parameter>\n</invoke>\n<invoke name=\"get_time\">\n</invoke>\n</minimax:tool_call>",
       {"Ok.", "Plan.", {weather(), time_call()}}},
      {"minimax_m2", "-", "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Par", {"<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Par"}},
      // openai
      {"openai", "openai_gptoss", "<|channel|>analysis<|message|>They want weather.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Paris\"}",
       {"", "They want weather.", {weather()}}},
      {"-", "openai_gptoss", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>It rains.", {"It rains.", "Hm."}},
      {"openai", "-", "<|channel|>commentary to=functions.get_time<|message|>{oops", {"<|channel|>commentary to=functions.get_time<|message|>{oops"}},
      // functiongemma
      {"functiongemma", "-", "<start_function_call>call:get_weather{city:<escape>Paris, {x}<escape>,days:3,tags:[<escape>a<escape>,1],where:{x:true}}<end_function_call>",
       {"", "", {weather(R"({"city": "Paris, {x}", "days": 3, "tags": ["a", 1], "where": {"x": true}})")}}},
      {"functiongemma", "-", "<start_function_call>call:get_weather{city:Paris}<end_function_call>!", {"<start_function_call>call:get_weather{city:Paris}<end_function_call>!"}},
      // reasoning
      {"-", "qwen3", "<think>\nTwo and two.\n</think>\n\nFour.", {"Four.", "Two and two."}},
      {"-", "qwen3", "Two and two.\n</think>\n\nFour.", {"Four.", "Two and two."}, "<|im_start|>assistant\n<think>\n"},
      {"-", "qwen3", "The tag <think> opens.</think>", {"The tag <think> opens.</think>"}, "<think>\n\n</think>\n\n"},
      {"-", "qwen3", "No tags but <think> here.", {"No tags but <think> here."}},
      {"-", "qwen3", "<think>never </thin closed", {"", "never </thin closed"}},
      {"-", "deepseek_r1", "Hm.</think>Yes </think>", {"Yes </think>", "Hm."}},
      {"-", "deepseek_r1", "<think>Hm.</think>", {"", "Hm."}},
      {"hermes", "qwen3", "<think>call <tool_call>{}</tool_call>?</think>\n<tool_call>{\"name\":\"get_time\"}</tool_call>", {"", "call <tool_call>{}</tool_call>?", {time_call()}}},
  };
  return kCases;
}

TEST(ReplyParser, WholeReplies) {
  for (const Case& c : cases()) EXPECT_EQ(read(plan_of(c), {c.text}), c.expected) << c.parser << ": " << c.text;
}

TEST(ReplyParser, ArgumentsAreAlwaysValidObjects) {
  for (const Case& c : cases()) {
    for (const ToolCall& call : read(plan_of(c), {c.text}).calls) EXPECT_TRUE(Json::parse(call.arguments, nullptr, false).is_object()) << call.arguments;
  }
}

TEST(ReplyParser, AnyOneToThreePiecesGiveTheSame) {
  for (const Case& c : cases()) {
    const ReplyPlan plan = plan_of(c);
    const std::string_view t = c.text;
    for (size_t i = 0; i <= t.size(); ++i) {
      for (size_t j = i; j <= t.size(); ++j) {
        ASSERT_EQ(read(plan, {t.substr(0, i), t.substr(i, j - i), t.substr(j)}), c.expected) << c.parser << " cut at " << i << " and " << j << ": " << c.text;
      }
    }
  }
}

TEST(ReplyParser, ByteByByteGivesTheSame) {
  for (const Case& c : cases()) {
    ReplyParser parser(plan_of(c));
    Reply r;
    for (const char& b : c.text) join(r, parser.feed(std::string_view(&b, 1)));
    join(r, parser.finish());
    EXPECT_EQ(r, c.expected) << c.parser << ": " << c.text;
  }
}

// Whatever a reply holds, cut off anywhere or with a byte changed, each parser agrees with itself, and arguments stay valid.
TEST(ReplyParser, DamagedRepliesStayConsistent) {
  static constexpr std::string_view kOdd = "<>{}[]\"\\,:|/ \n\x01x";
  for (const Case& c : cases()) {
    const ReplyPlan plan = plan_of(c);
    for (size_t i = 0; i < c.text.size(); ++i) {
      std::string changed = c.text;
      changed[i] = kOdd[i % kOdd.size()];
      for (const std::string& text : {c.text.substr(0, i), changed, changed.substr(i / 2)}) {
        const Reply whole = read(plan, {text});
        const std::string_view t = text;
        ASSERT_EQ(read(plan, {t.substr(0, i / 2), t.substr(std::min(t.size(), i / 2))}), whole) << c.parser << ": " << text;
        for (const ToolCall& call : whole.calls) ASSERT_TRUE(Json::parse(call.arguments, nullptr, false).is_object()) << text;
      }
    }
  }
}

TEST(ReplyParser, TextIsNotHeldLongerThanNeeded) {
  ReplyParser parser(plan_of({"hermes", "qwen3", ""}));
  Reply r;
  join(r, parser.feed("<think>a"));
  EXPECT_EQ(r.reasoning, "a");
  join(r, parser.feed("b</thi"));
  EXPECT_EQ(r.reasoning, "ab");
  join(r, parser.feed("nk>yes <to"));
  EXPECT_EQ(r.content, "yes");
  join(r, parser.feed("y"));
  EXPECT_EQ(r.content, "yes <toy");
}

TEST(ReplyParser, OnlyTheFirstCallWithoutParallelCalls) {
  ReplyPlan plan = plan_of({"pythonic", "-", ""});
  plan.parallel = false;
  EXPECT_EQ(read(plan, {"[get_time(), get_weather()]"}), (Reply{"", "", {time_call()}}));
}

TEST(ReplyParser, ReasoningCanBeLeftOut) {
  ReplyPlan plan = plan_of({"-", "qwen3", ""});
  plan.show_reasoning = false;
  EXPECT_EQ(read(plan, {"<think>a</think>b"}), (Reply{"b"}));
}

TEST(ReplyParser, DeepNestingIsContent) {
  std::string deep = "{\"name\": \"get_time\", \"arguments\": {\"a\": ";
  for (int i = 0; i < 100000; ++i) deep += '[';
  const std::string text = "<tool_call>" + deep;
  EXPECT_EQ(read(plan_of({"hermes", "-", ""}), {text}), Reply{text});
  std::string python = "[get_time(a=" + std::string(100000, '[');
  EXPECT_EQ(read(plan_of({"pythonic", "-", ""}), {python}), Reply{python});
}

TEST(Registry, NamesTheParsersThatAreThere) {
  const auto missing = find_tool_parser("xlam", "");
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message().find("hermes"), std::string::npos);
  EXPECT_NE(missing.error().message().find("xlam"), std::string::npos);
  const auto reasoning = find_reasoning_parser("granite", "");
  ASSERT_FALSE(reasoning.has_value());
  EXPECT_NE(reasoning.error().message().find("deepseek_r1"), std::string::npos);
}

TEST(Registry, TemplatesShowTheirParser) {
  const std::tuple<const char*, const char*, const char*> rows[] = {
      {"{{- '<tool_call>\\n' }} reasoning.split('</think>')", "hermes", "qwen3"},
      {"<tool_call>\n<function=example>", "qwen3_coder", nullptr},
      {"{{ '[TOOL_CALLS]' }}", "mistral", nullptr},
      {"<｜Assistant｜> </think> <｜tool▁sep｜>", "deepseek_v3", "deepseek_r1"},
      {"<tool_call>{name}<arg_key></arg_key> <think></think>", "glm45", "qwen3"},
      {"<minimax:tool_call> </think>", "minimax_m2", "minimax_m2"},
      {"<|channel|>analysis<|message|>", "openai", "openai_gptoss"},
      {"{{ message.content }}", nullptr, nullptr},
      {"", nullptr, nullptr},
  };
  for (const auto& [source, tools, reasoning] : rows) {
    const auto* t = *find_tool_parser("", source);
    const auto* r = *find_reasoning_parser("auto", source);
    EXPECT_EQ(std::string(t == nullptr ? "" : t->name), tools == nullptr ? "" : tools) << source;
    EXPECT_EQ(std::string(r == nullptr ? "" : r->name), reasoning == nullptr ? "" : reasoning) << source;
    EXPECT_EQ(*find_tool_parser("none", source), nullptr);
  }
}

}  // namespace
}  // namespace isotope::serve
