// Tool calls and reasoning over HTTP: what clients of the OpenAI API read, streamed and whole.
#include <gtest/gtest.h>

#include "case_file.h"
#include "test_server.h"

namespace isotope::test {
namespace {

using serve::Json;

constexpr const char* kTemplate =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ '[' + m.role + ']' + m.content }}"
    "{% for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.arguments.city + '</tool_call>' }}{% endfor %}"
    "{% if m.reasoning_content %}{{ '</think>' + m.reasoning_content }}{% endif %}{% endfor %}";

TestServerOptions options(const std::string& tools = "", const std::string& reasoning = "") {
  return {.engine = {.context = 4096}, .front = {.chat_template = kTemplate, .tool_parser = tools, .reasoning_parser = reasoning}};
}

Json request(const std::string& reply, bool tools = true) {
  Json r = {{"messages", Json::array({{{"role", "user"}, {"content", "«say:" + reply + "»"}}})}};
  if (tools) r["tools"] = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])");
  return r;
}

Json post(const TestServer& s, const Json& body, int status = 200, const char* path = "/v1/chat/completions") {
  const HttpReply reply = HttpClient::fetch(s.port(), "POST", path, serve::dump(body));
  EXPECT_EQ(reply.status, status) << reply.body;
  return answer_json(reply);
}

struct Streamed {
  std::string content, reasoning, finish;
  Json calls = Json::array();
  int names = 0, finishes = 0;
};

Streamed streamed(const TestServer& s, Json body) {
  body["stream"] = true;
  Streamed out;
  const Json answer = post(s, body);
  for (const Json& e : answer["events"]) {
    const Json& choice = e["choices"][0];
    const Json& delta = choice["delta"];
    if (delta.contains("content")) out.content += delta["content"].get<std::string>();
    if (delta.contains("reasoning")) {
      EXPECT_EQ(delta["reasoning"], delta["reasoning_content"]);
      out.reasoning += delta["reasoning"].get<std::string>();
    }
    if (delta.contains("tool_calls")) {
      EXPECT_EQ(delta["tool_calls"].size(), 1u);
      const Json& part = delta["tool_calls"][0];
      const size_t index = part["index"].get<size_t>();
      if (part.contains("id")) {
        EXPECT_EQ(index, out.calls.size()) << "identifier and name come once, before the arguments";
        out.calls.push_back(part);
        ++out.names;
      } else {
        auto& arguments = out.calls[index]["function"]["arguments"];
        arguments = arguments.get<std::string>() + part["function"]["arguments"].get<std::string>();
      }
    }
    if (!choice["finish_reason"].is_null()) out.finish = choice["finish_reason"], ++out.finishes;
  }
  EXPECT_EQ(out.finishes, 1);
  return out;
}

void expect_same(const TestServer& s, const Json& body) {
  const Json whole = post(s, body)["choices"][0];
  const Streamed stream = streamed(s, body);
  const Json& message = whole["message"];
  EXPECT_EQ(stream.content, message["content"].is_null() ? "" : message["content"].get<std::string>());
  EXPECT_EQ(stream.reasoning, message.value("reasoning", ""));
  EXPECT_EQ(stream.finish, whole["finish_reason"]);
  ASSERT_EQ(stream.calls.size(), message["tool_calls"].size());
  for (size_t i = 0; i < stream.calls.size(); ++i) EXPECT_EQ(stream.calls[i]["function"], message["tool_calls"][i]["function"]);
}

TEST(Tools, CallsComeApartFromContent) {
  const TestServer s(options("hermes"));
  const Json choice = post(s, request("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"city\": \"Zürich \\\"x\\\" 😀\", \"o\": {}}}\n</tool_call>"))["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  const Json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("call_"));
  EXPECT_EQ(call["function"]["name"], "f");
  EXPECT_EQ(Json::parse(call["function"]["arguments"].get<std::string>())["city"], "Zürich \"x\" 😀");
}

TEST(Tools, StreamedEqualsWhole) {
  const TestServer s(options("hermes", "qwen3"));
  for (const char* reply : {"plain text", "Look.\n<tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>{\"name\":\"f\",\"arguments\":{\"city\":\"é\"}}</tool_call>",
                            "<think>\nhm\n</think>\n\nAnswer.", "<think>hm</think><tool_call>{\"name\":\"f\"}</tool_call>", "<tool_call>{\"name\": broken}</tool_call>",
                            "<tool_call>{\"name\":\"f\",\"arguments\":{", "<think>never closed", ""}) {
    expect_same(s, request(reply));
    Json cut = request(reply);
    cut["max_tokens"] = 17;
    cut["logprobs"] = true;
    expect_same(s, cut);
  }
}

TEST(Tools, EachCallIsNamedOnce) {
  const TestServer s(options("hermes"));
  const Streamed r = streamed(s, request("<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call>"));
  EXPECT_EQ(r.names, 2);
  EXPECT_EQ(r.calls[1]["function"]["arguments"], "{}");
  EXPECT_NE(r.calls[0]["id"], r.calls[1]["id"]);
  EXPECT_EQ(r.finish, "tool_calls");
}

TEST(Tools, BrokenCallsAreContent) {
  const TestServer s(options("hermes"));
  const Json choice = post(s, request("<tool_call>{\"name\": \"f\", \"arguments\": {\"city\": }}</tool_call>"))["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "<tool_call>{\"name\": \"f\", \"arguments\": {\"city\": }}</tool_call>");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["message"]["tool_calls"].empty());
}

TEST(Tools, ACallCutOffByTheLimitIsContent) {
  const TestServer s(options("hermes"));
  Json r = request("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
  r["max_tokens"] = 20;
  const Json choice = post(s, r)["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "<tool_call>{\"name\": ");
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST(Tools, WithoutToolsCallsStayText) {
  const TestServer s(options("hermes"));
  EXPECT_EQ(post(s, request("<tool_call>{\"name\":\"f\"}</tool_call>", false))["choices"][0]["message"]["content"], "<tool_call>{\"name\":\"f\"}</tool_call>");
  Json none = request("<tool_call>{\"name\":\"f\"}</tool_call>");
  none["tool_choice"] = "none";
  EXPECT_EQ(post(s, none)["choices"][0]["message"]["content"], "<tool_call>{\"name\":\"f\"}</tool_call>");
}

TEST(Tools, ReasoningHasBothNames) {
  const TestServer s(options("none"));   // the template shows </think>
  const Json message = post(s, request("<think>hm</think>\nyes", false))["choices"][0]["message"];
  EXPECT_EQ(message["content"], "yes");
  EXPECT_EQ(message["reasoning"], "hm");
  EXPECT_EQ(message["reasoning_content"], "hm");
  Json without = request("<think>hm</think>\nyes", false);
  without["include_reasoning"] = false;
  EXPECT_FALSE(post(s, without)["choices"][0]["message"].contains("reasoning"));
}

TEST(Tools, TheTemplateSeesToolsCallsResultsAndReasoning) {
  const TestServer s(options("hermes"));
  Json r = {{"tools", request("x")["tools"]}};
  r["messages"] = Json::parse(R"([{"role": "user", "content": "q"},
    {"role": "assistant", "content": null, "reasoning": "why", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"city\": \"Rome\"}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "18"}])");
  const std::string prompt = post(s, r, 200, "/apply-template")["prompt"];
  EXPECT_TRUE(prompt.starts_with(R"([{"type": "function", "function": {"name": "f")")) << prompt;
  EXPECT_TRUE(prompt.ends_with("[user]q[assistant]<tool_call>Rome</tool_call></think>why[tool]18")) << prompt;
  r["tool_choice"] = "none";
  EXPECT_TRUE(post(s, r, 200, "/apply-template")["prompt"].get<std::string>().starts_with("[user]"));
}

TEST(Tools, BadToolsAreRefusedByName) {
  const TestServer s(options("hermes"));
  const std::pair<const char*, const char*> rows[] = {
      {R"({"tools": {}})", "tools"},
      {R"({"tools": [3]})", "tools[0]"},
      {R"({"tools": [{"type": "web_search"}]})", "tools[0].type"},
      {R"({"tools": [{"type": "function"}]})", "tools[0].function"},
      {R"({"tools": [{"type": "function", "function": {}}]})", "tools[0].function.name"},
      {R"({"tools": [{"type": "function", "function": {"name": ""}}]})", "tools[0].function.name"},
      {R"({"tools": [{"type": "function", "function": {"name": "a b"}}]})", "tools[0].function.name"},
      {R"({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]})", "tools[0].function.parameters"},
      {R"({"tool_choice": "required", "response_format": {"type": "json_object"}})", "tool_choice"},
      {R"({"tool_choice": {"type": "function"}})", "tool_choice.name"},
      {R"({"tool_choice": "sometimes"})", "tool_choice"},
      {R"({"tool_choice": 3})", "tool_choice"},
      {R"({"tool_choice": {"type": "function", "function": {"name": "other"}}})", "tool_choice"},
      {R"({"tool_choice": {"type": "widget"}})", "tool_choice.type"},
      {R"({"parallel_tool_calls": "no"})", "parallel_tool_calls"},
  };
  for (const auto& [fields, param] : rows) {
    Json r = request("x");
    r.update(Json::parse(fields));
    EXPECT_EQ(post(s, r, 400)["error"]["param"], param) << fields;
  }
}

TEST(Tools, AnUnknownParserIsRefusedWithTheList) {
  FakeEngine engine;
  const auto front = serve::Frontend::create(engine, std::make_unique<ByteTokenizer>(true), {.tool_parser = "xlam"});
  ASSERT_FALSE(front.has_value());
  EXPECT_NE(front.error().message().find("hermes"), std::string::npos);
}

Json two_tools() {
  return Json::parse(R"([
    {"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "object", "required": ["city", "days"], "additionalProperties": false,
      "properties": {"city": {"type": "string", "enum": ["Paris"]}, "days": {"type": "integer", "enum": [3]}}}}},
    {"type": "function", "function": {"name": "g"}}])");
}

// Arguments without the space that a format without quotes may have around a value.
Json arguments_of(const Json& function) {
  Json out = Json::parse(function["arguments"].get<std::string>());
  if (!out.contains("city")) return out;
  std::string city = out["city"];
  std::erase_if(city, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
  out["city"] = city;
  return out;
}

// The engine draws anything that the grammar allows: what comes back is a call that the parser reads, or the grammar does not fit the parser.
TEST(Tools, AForcedCallIsWrittenAsTheParserReadsIt) {
  for (const char* parser : {"hermes", "llama3_json", "llama4_json", "mistral", "deepseek_v3", "deepseek_v31", "deepseek_v32", "kimi_k2", "qwen3_coder", "qwen3_xml", "glm45", "glm47", "minimax_m2"}) {
    const TestServer s(options(parser, "none"));
    for (int seed = 0; seed < 3; ++seed) {
      Json r = {{"messages", Json::array({{{"role", "user"}, {"content", "x"}}})}, {"tools", two_tools()}, {"seed", seed}, {"max_tokens", 800}};
      r["tool_choice"] = {{"type", "function"}, {"function", {{"name", "f"}}}};
      r["parallel_tool_calls"] = false;
      const Json choice = post(s, r)["choices"][0];
      ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u) << parser << choice;
      const Json& f = choice["message"]["tool_calls"][0]["function"];
      EXPECT_EQ(f["name"], "f") << parser;
      EXPECT_EQ(arguments_of(f), Json::parse(R"({"city": "Paris", "days": 3})")) << parser << f;
      EXPECT_EQ(choice["finish_reason"], "tool_calls") << parser;
      r["tool_choice"] = "required";
      const Json any = post(s, r)["choices"][0]["message"];
      EXPECT_EQ(any["tool_calls"].size(), 1u) << parser << any;
      r["tool_choice"] = Json::parse(R"({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}})");
      EXPECT_EQ(post(s, r)["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "g") << parser;
    }
  }
}

TEST(Tools, StrictArgumentsAreHeldWithinText) {
  for (const char* parser : {"hermes", "mistral", "qwen3_coder"}) {
    const TestServer s(options(parser, "none"));
    const std::string open = parser == std::string("mistral") ? "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": " : parser == std::string("hermes") ? "<tool_call>\n{\"name\": \"f\", " : "<tool_call>\n<function=f>";
    Json r = {{"messages", Json::array({{{"role", "user"}, {"content", "«say:Well, " + open + "»"}}})}, {"tools", two_tools()}, {"max_tokens", 800}, {"parallel_tool_calls", false}};
    const Json message = post(s, r)["choices"][0]["message"];
    ASSERT_EQ(message["tool_calls"].size(), 1u) << message;
    EXPECT_EQ(arguments_of(message["tool_calls"][0]["function"]), Json::parse(R"({"city": "Paris", "days": 3})"));
    r["messages"][0]["content"] = "«say:Just text.»";
    EXPECT_EQ(post(s, r)["choices"][0]["message"]["content"], "Just text.");
  }
}

TEST(Tools, AFormBeginsAfterTheReasoning) {
  const TestServer s(options("", "deepseek_r1"));
  Json r = request("I think {1}.</think>\n\n[4]", false);
  r["response_format"] = Json::parse(R"({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array", "items": {"type": "integer"}}}})");
  const Json message = post(s, r)["choices"][0]["message"];
  EXPECT_EQ(message["reasoning"], "I think {1}.");
  EXPECT_EQ(message["content"], "[4]");
  const TestServer maybe(options("", "qwen3"));
  for (const char* reply : {"<think>Well.</think>\n[4]", "[4]"}) {
    Json q = request(reply, false);
    q["response_format"] = r["response_format"];
    EXPECT_EQ(post(maybe, q)["choices"][0]["message"]["content"], "[4]") << reply;
  }
}

TEST(Tools, AnAnswerCutBehindACallIsCut) {
  const TestServer s(options("hermes"));
  Json chat = request("<tool_call>{\"name\":\"f\",\"arguments\":{\"city\":\"x\"}}</tool_call> and more of it", true);
  chat["max_tokens"] = 70;
  EXPECT_EQ(post(s, chat)["choices"][0]["finish_reason"], "length");
  for (const bool stream : {false, true}) {
    Json messages = {{"messages", chat["messages"]}, {"max_tokens", 70}, {"stream", stream}};
    messages["tools"] = Json::parse(R"([{"name": "f", "input_schema": {"type": "object"}}])");
    const Json answer = post(s, messages, 200, "/v1/messages");
    const Json& last = stream ? answer["events"][answer["events"].size() - 2]["delta"] : answer;
    EXPECT_EQ(last["stop_reason"], "max_tokens") << answer;
    Json input = {{"input", chat["messages"]}, {"max_output_tokens", 70}, {"stream", stream}};
    input["tools"] = Json::parse(R"([{"type": "function", "name": "f", "parameters": {"type": "object"}}])");
    const Json said = post(s, input, 200, "/v1/responses");
    const Json& response = stream ? said["events"].back()["response"] : said;
    EXPECT_EQ(response["status"], "incomplete");
    for (const Json& item : response["output"]) EXPECT_EQ(item["status"] == "incomplete", item["type"] == "message" && stream) << item;
  }
}

TEST(Tools, AllowedToolsHaveTwoModes) {
  const TestServer s(options("hermes"));
  Json r = request("x");
  r["tool_choice"] = Json::parse(R"({"type": "allowed_tools", "allowed_tools": {"mode": "any", "tools": [{"type": "function", "function": {"name": "f"}}]}})");
  EXPECT_EQ(post(s, r, 400)["error"]["param"], "tool_choice.allowed_tools.mode");
}

// A budget of tokens (here bytes) after which the reasoning is closed. The engine says at place n what stands at place n of the text that it was given,
// so that what was left out behind the budget is missing.
TEST(ThinkingBudget, ClosesTheReasoning) {
  const TestServer s(options("", "qwen3"));
  Json r = request("<think>aaaaabbbbbbbbbcc</think>Answer.", false);
  for (const bool stream : {false, true}) {
    r["thinking_token_budget"] = 5;
    const Json whole = post(s, r)["choices"][0]["message"];
    EXPECT_EQ(whole["reasoning"], "aaaaa");
    EXPECT_EQ(whole["content"], "cc</think>Answer.") << "nine bytes went into the line end and the tag";
    if (stream) expect_same(s, r);
  }
  r["thinking_token_budget"] = 24;   // the tag, too, is text until it is complete
  EXPECT_EQ(post(s, r)["choices"][0]["message"]["content"], "Answer.") << "enough";
  r["thinking_token_budget"] = -1;
  EXPECT_EQ(post(s, r)["choices"][0]["message"]["reasoning"], "aaaaabbbbbbbbbcc");
  r["n"] = 3;
  r["thinking_token_budget"] = 2;
  for (const Json& choice : post(s, r)["choices"]) EXPECT_EQ(choice["message"]["reasoning"], "aa");
}

TEST(ThinkingBudget, NoneAtAll) {
  const TestServer s(options("", "qwen3"));
  Json r = request("<think>12345678Answer.", false);
  r["thinking_token_budget"] = 0;
  const Json message = post(s, r)["choices"][0]["message"];
  EXPECT_EQ(message["content"], "Answer.");
  EXPECT_EQ(message.value("reasoning", ""), "");
  Json plain = request("No thoughts.", false);
  plain["thinking_token_budget"] = 0;
  EXPECT_EQ(post(s, plain)["choices"][0]["message"]["content"], "No thoughts.");
}

TEST(ThinkingBudget, BeginsWhereThePromptOpensTheTag) {
  TestServerOptions o = options("", "deepseek_r1");
  o.front.chat_template += "<think>\n";
  const TestServer s(o);
  Json r = request("abc\n12345678 Answer.", false);
  r["thinking_token_budget"] = 4;
  const Json message = post(s, r)["choices"][0]["message"];
  EXPECT_EQ(message["reasoning"], "abc");
  EXPECT_EQ(message["content"], "Answer.") << "behind a line end the tag alone";
}

TEST(ThinkingBudget, IsTheServersWhereTheRequestNamesNone) {
  TestServerOptions o = options("", "qwen3");
  o.front.thinking_budget = 3;
  const TestServer s(o);
  Json r = request("<think>aaaabbbbbbbbbcc</think>Answer.", false);
  EXPECT_EQ(post(s, r)["choices"][0]["message"]["reasoning"], "aaa");
  r["thinking_token_budget"] = -1;
  EXPECT_EQ(post(s, r)["choices"][0]["message"]["reasoning"], "aaaabbbbbbbbbcc");
  const Json messages = {{"messages", r["messages"]}, {"max_tokens", 60}, {"thinking", {{"type", "enabled"}, {"budget_tokens", 2}}}};
  const Json answer = post(s, messages, 200, "/v1/messages");
  EXPECT_EQ(answer["content"][0]["type"], "thinking");
  EXPECT_EQ(answer["content"][0]["thinking"], "aa");
}

TEST(ThinkingBudget, LeavesTheFormToTheAnswer) {
  const TestServer s(options("", "qwen3"));
  Json r = request("<think>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false);
  r["thinking_token_budget"] = 6;
  r["max_tokens"] = 60;
  r["response_format"] = Json::parse(R"({"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": 7}}})");
  const Json choice = post(s, r)["choices"][0];
  EXPECT_EQ(choice["message"]["reasoning"], "aaaaaa");
  EXPECT_EQ(choice["message"]["content"], "7");
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST(ThinkingBudget, OfHarmonyEndsTheAnalysis) {
  const TestServer s(options("openai", "openai_gptoss"));
  Json r = request("<|channel|>analysis<|message|>aaaaaaaaaa" + std::string(52, 'b') + "Answer.", false);
  r["thinking_token_budget"] = 10;
  const Json message = post(s, r)["choices"][0]["message"];
  EXPECT_EQ(message["reasoning"], "aaaaaaaaaa");
  EXPECT_EQ(message["content"], "Answer.");
}

}  // namespace
}  // namespace isotope::test
