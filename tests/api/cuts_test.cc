// One reply, every way to cut it: text with characters of several bytes, stop strings, reasoning tags and tool calls, from tokens through the detokenizer, the
// stop matcher and the reply reader, as a stream takes it. The joined result must not depend on how many tokens came at a time.
#include <gtest/gtest.h>

#include "isotope/engine.h"
#include "serve/reply_reader.h"
#include "serve/tools/registry.h"
#include "support/byte_tokenizer.h"
#include "text/unicode.h"

namespace isotope::test {
namespace {

using serve::Json;

struct Case {
  const char* name;
  const char* reply;
  std::vector<std::string> stop;
  const char* reasoning;
  const char* content;
  const char* arguments;   ///< of the calls, one after another
  bool include_stop = false;
};

const Case kCases[] = {
    {"Everything", "<think>\nhm é€</think>\nText 👍 a<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"<é\\\"}\"}}\n</tool_call>ENDrest", {"END"}, "hm é€", "Text 👍 a", "{\"a\": \"<é\\\"}\"}"},
    {"TwoCalls", "<think>a</think><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"f\",\"arguments\":{\"b\":[1,{}]}}</tool_call>", {}, "a", "", "{}{\"b\":[1,{}]}"},
    {"NearlyStops", "<think>x</think>ab abc abd ab\xF0\x9F", {"abcd", "abx"}, "x", "ab abc abd ab\uFFFD", ""},
    {"StopAcrossACharacter", "<think>x</think>one €two€ three", {"€ t"}, "x", "one €two", ""},
    {"StopThatStays", "<think>x</think>one two", {"tw"}, "x", "one tw", "", true},
    {"StopInTheReasoning", "<think>one STOP two</think>three", {"STOP"}, "one ", "", ""},
    {"NearlyTags", "<think>a</thin </think >b</think>c</think>d <tool_cal <tool_call", {}, "a</thin </think >b", "c</think>d <tool_cal <tool_call", ""},
    {"BrokenCall", "<think>a</think><tool_call>{\"name\": \"f\", \"arguments\": {</tool_call>", {}, "a", "<tool_call>{\"name\": \"f\", \"arguments\": {</tool_call>", ""},
    {"LoneBytes", "<think>\x80\xE4</think>\xE4\xBD x\xC3", {}, "\uFFFD\uFFFD", "\uFFFD x\uFFFD", ""},
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

struct Joined {
  std::string reasoning, content, arguments, names;
  bool operator==(const Joined&) const = default;
};

void PrintTo(const Joined& j, std::ostream* out) { *out << "«" << j.reasoning << "» «" << j.content << "» " << j.names << " «" << j.arguments << "»"; }

class Cuts : public testing::TestWithParam<Case> {
 protected:
  Cuts() {
    plan_.reasoning = *serve::find_reasoning_parser("qwen3", "");
    plan_.tools = *serve::find_tool_parser("hermes", "");
    plan_.toolbox = std::make_shared<const serve::Toolbox>(Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])"));
    options_ = {.stop = GetParam().stop, .include_stop = GetParam().include_stop, .skip_special = false, .chat = true};
    for (const char* p = GetParam().reply; *p; ++p) ids_.push_back(static_cast<unsigned char>(*p));
  }

  /// The stream's parts, joined, when the tokens come in groups that end at `ends`.
  Joined streamed(std::initializer_list<size_t> ends) const {
    const serve::Prompt prompt;
    serve::Choice choice(tok_, options_, prompt);
    serve::ReplyReader reader(plan_);
    Joined out;
    size_t at = 0;
    for (const size_t end : ends) {
      const bool last = end == ids_.size();
      choice.take({.tokens = {ids_.begin() + ptrdiff_t(at), ids_.begin() + ptrdiff_t(end)}, .finish = last ? FinishReason::length : FinishReason::none});
      at = end;
      serve::Delta delta{.text = choice.take_text(), .finished = choice.finished() ? &choice : nullptr};
      for (serve::Delta& part : reader.stream(std::move(delta))) add(part, out);
      if (choice.finished()) break;
    }
    return out;
  }
  static void add(const serve::Delta& part, Joined& out) {
    EXPECT_TRUE(text::valid_utf8(part.text) && text::valid_utf8(part.reasoning));
    out.reasoning += part.reasoning;
    out.content += part.text;
    for (const Json& call : part.tool_calls) {
      const Json& function = call["function"];
      if (function.contains("name") && function["name"].is_string()) out.names += function["name"].get<std::string>() + ";";
      if (function.contains("arguments")) out.arguments += function["arguments"].get<std::string>();
    }
  }

  ByteTokenizer tok_;
  serve::ReplyPlan plan_;
  serve::OutputOptions options_;
  std::vector<int32_t> ids_;
};

TEST_P(Cuts, AnyOneToThreeGroupsOfTokensGiveTheSame) {
  const size_t n = ids_.size();
  const Joined whole = streamed({n});
  EXPECT_EQ(whole.content, GetParam().content);
  EXPECT_EQ(whole.reasoning, GetParam().reasoning);
  EXPECT_EQ(whole.arguments, GetParam().arguments);
  for (size_t i = 1; i < n; i++) {
    ASSERT_EQ(streamed({i, n}), whole) << "cut at " << i;
    for (size_t j = i + 1; j < n; j++) ASSERT_EQ(streamed({i, j, n}), whole) << "cuts at " << i << " and " << j;
  }
}

TEST_P(Cuts, TokenByTokenGivesTheSame) {
  const serve::Prompt prompt;
  serve::Choice choice(tok_, options_, prompt);
  serve::ReplyReader reader(plan_);
  Joined out;
  for (size_t i = 0; i < ids_.size() && !choice.finished(); i++) {
    choice.take({.tokens = {ids_[i]}, .finish = i + 1 == ids_.size() ? FinishReason::length : FinishReason::none});
    serve::Delta delta{.text = choice.take_text(), .finished = choice.finished() ? &choice : nullptr};
    for (serve::Delta& part : reader.stream(std::move(delta))) add(part, out);
  }
  EXPECT_EQ(out, streamed({ids_.size()}));
}

INSTANTIATE_TEST_SUITE_P(All, Cuts, testing::ValuesIn(kCases), [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace isotope::test
