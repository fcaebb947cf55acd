// Salts that begin at a message, and marks that keep a prefix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/cache_fields.h"
#include "serve/frontend.h"
#include "support/byte_tokenizer.h"
#include "support/fake_engine.h"

namespace isotope::test {
namespace {

using serve::Json;

struct Chat {
  Chat() {
    engine.vocab().chat_template =
        "{% if messages[0].role == 'assistant' %}{{ raise_exception('no') }}{% endif %}"
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
    front = *serve::Frontend::create(engine, std::make_unique<ByteTokenizer>(), {});
  }
  serve::Api<serve::Call> parse(const std::string& body) { return serve::parse_chat(*serve::parse_json(body), *front); }

  FakeEngine engine;
  std::unique_ptr<serve::Frontend> front;
};

constexpr const char* kMessages =
    R"("messages": [{"role": "system", "content": "be"}, {"role": "user", "content": "hi there"}, {"role": "user", "content": "x"}])";
// "[system]be" has 10 bytes, "[user]hi there" 14, "[user]x" 7, "[assistant]" 11.

TEST(CacheFields, SaltBeginsWhereItsMessageBegins) {
  Chat chat;
  const struct {
    int from;
    int64_t token;
  } cases[] = {{0, 0}, {1, 10}, {2, 24}, {3, 42}, {99, 42}};
  for (const auto& c : cases) {
    const auto call = chat.parse(std::string("{") + kMessages + R"(, "cache_salt": "s", "cache_salt_from_message": )" + std::to_string(c.from) + "}");
    ASSERT_TRUE(call) << call.error().error.message();
    EXPECT_EQ(call->spec.prompts[0].ids.size(), 42u);
    EXPECT_EQ(call->spec.prompts[0].salt_from, c.token) << c.from;
  }
}

TEST(CacheFields, MarksKeepUpToTheEndOfTheirMessage) {
  Chat chat;
  const struct {
    const char* body;
    int64_t tokens;
    double seconds;
  } cases[] = {
      {R"({"messages": [{"role": "user", "content": "ab", "cache_control": {"type": "ephemeral"}}, {"role": "user", "content": "c"}]})", 8, 300},
      {R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "ab", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
                        {"role": "user", "content": "c"}]})", 8, 3600},
      {R"({"messages": [{"role": "user", "content": "ab"}, {"role": "user", "content": "c", "cache_control": {"ttl": "30s"}}]})", 26, 30},
      {R"({"messages": [{"role": "user", "content": "ab"}], "cache_control": {"type": "ephemeral"}})", 19, 300},
      {R"({"messages": [{"role": "user", "content": "ab", "cache_control": null}]})", 0, 0},
  };
  for (const auto& c : cases) {
    const auto call = chat.parse(c.body);
    ASSERT_TRUE(call) << call.error().error.message();
    EXPECT_EQ(call->spec.prompts[0].pin_tokens, c.tokens) << c.body;
    EXPECT_EQ(call->spec.pin_s, c.seconds) << c.body;
  }
  const auto completion = serve::parse_completion(*serve::parse_json(R"({"prompt": ["abc", "de"], "cache_control": {"ttl": "2m"}})"), *chat.front);
  ASSERT_TRUE(completion);
  for (const serve::Prompt& p : completion->spec.prompts) EXPECT_EQ(p.pin_tokens, int64_t(p.ids.size()));
  EXPECT_EQ(completion->spec.pin_s, 120);
}

TEST(CacheFields, WrongOnesNameTheField) {
  Chat chat;
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages": [{"role": "user", "content": "a", "cache_control": {"type": "eternal"}}]})", "messages[0].cache_control.type"},
      {R"({"messages": [{"role": "user", "content": "a", "cache_control": {"ttl": "5"}}]})", "messages[0].cache_control.ttl"},
      {R"({"messages": [{"role": "user", "content": "a", "cache_control": {"ttl": "25h"}}]})", "messages[0].cache_control.ttl"},
      {R"({"messages": [{"role": "user", "content": "a", "cache_control": {"ttl": "-1s"}}]})", "messages[0].cache_control.ttl"},
      {R"({"messages": [{"role": "user", "content": "a"}], "cache_control": 5})", "cache_control"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": []}]}]})", "messages[0].content[0].cache_control"},
      {R"({"messages": [{"role": "user", "content": "a"}], "cache_salt_from_message": 1})", "cache_salt_from_message"},
      {R"({"messages": [{"role": "user", "content": "a"}], "cache_salt": "s", "cache_salt_from_message": -1})", "cache_salt_from_message"},
  };
  for (const auto& [body, field] : cases) {
    const auto call = chat.parse(body);
    ASSERT_FALSE(call) << body;
    EXPECT_THAT(call.error().error.message(), testing::HasSubstr(field)) << body;
  }
  EXPECT_FALSE(serve::parse_completion(*serve::parse_json(R"({"prompt": "a", "cache_salt": "s", "cache_salt_from_message": 1})"), *chat.front));
}

}  // namespace
}  // namespace isotope::test
