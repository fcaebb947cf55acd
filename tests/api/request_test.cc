// What reaches the engine of a request's fields.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/call.h"
#include "serve/frontend.h"
#include "serve/pool_call.h"
#include "serve/route_headers.h"
#include "support/byte_tokenizer.h"
#include "support/fake_engine.h"

namespace isotope::test {
namespace {

using serve::Json;
using testing::ElementsAre;
using testing::HasSubstr;

struct Rig {
  explicit Rig(serve::FrontendOptions o = {}, const std::string& generation_config = {}, const std::string& chat_template = {}) {
    engine.vocab().generation_config_json = generation_config;
    if (!chat_template.empty()) engine.vocab().chat_template = chat_template;
    auto made = serve::Frontend::create(engine, std::make_unique<ByteTokenizer>(), std::move(o));
    if (made) {
      front = *std::move(made);
    } else {
      error = made.error();
    }
  }
  serve::Call completion(const std::string& fields) {
    auto call = serve::parse_completion(*serve::parse_json("{\"prompt\": \"a\"" + (fields.empty() ? "" : ", " + fields) + "}"), *front);
    EXPECT_TRUE(call) << (call ? "" : call.error().error.message());
    return call ? *std::move(call) : serve::Call{};
  }
  SamplingParams sampling(const std::string& fields) { return completion(fields).spec.sampling; }

  FakeEngine engine;
  std::unique_ptr<serve::Frontend> front;
  Error error;
};

TEST(Request, HeadersThatSayWhereToRun) {
  const auto read = [](serve::Headers headers, int body_rank = -1) {
    serve::JobSpec spec{.rank = body_rank};
    const auto ok = serve::read_route_headers({.headers = std::move(headers)}, spec);
    EXPECT_TRUE(ok) << ok.error().message();
    return std::tuple(spec.session, spec.session_has_parent, spec.rank);
  };
  EXPECT_EQ(read({}), std::tuple("", false, -1));
  EXPECT_EQ(read({{"x-correlation-id", "c"}}), std::tuple("c", false, -1));
  EXPECT_EQ(read({{"x-correlation-id", "c"}, {"x-dynamo-session-id", "d"}, {"x-dynamo-parent-session-id", "p"}}), std::tuple("d", true, -1));
  EXPECT_EQ(read({{"x-data-parallel-rank", "3"}}), std::tuple("", false, 3));
  EXPECT_EQ(read({{"x-data-parallel-rank", "3"}}, 1), std::tuple("", false, 1)) << "the body wins";
  EXPECT_EQ(std::get<0>(read({{"x-correlation-id", std::string(5000, 'x')}})).size(), 1024u);
  for (const char* bad : {"-1", "x", "1x", "99999999999", " 1"}) {
    serve::JobSpec spec;
    const auto ok = serve::read_route_headers({.headers = {{"x-data-parallel-rank", bad}}}, spec);
    ASSERT_FALSE(ok) << bad;
    EXPECT_EQ(ok.error().source, "header X-Data-Parallel-Rank");
  }
}

TEST(Request, NeutralDefaults) {
  Rig rig;
  const SamplingParams p = rig.sampling("");
  const SamplingParams neutral;
  EXPECT_EQ(p.temperature, neutral.temperature);
  EXPECT_EQ(p.top_k, 0);
  EXPECT_EQ(p.top_p, 1);
  EXPECT_EQ(p.logprobs, -1);
  EXPECT_EQ(p.prompt_logprobs, -1);
  EXPECT_TRUE(p.seed.has_value());
  EXPECT_FALSE(p.ignore_eos);
}

TEST(Request, EveryNumberReachesItsField) {
  Rig rig;
  const SamplingParams p = rig.sampling(R"("temperature": 0.5, "top_p": 0.25, "min_p": 0.125, "typical_p": 0.75, "repetition_penalty": 1.5,
      "presence_penalty": -1, "frequency_penalty": 2, "top_k": 40, "dry_multiplier": 0.5, "dry_base": 2, "dry_allowed_length": 3,
      "dry_penalty_last_n": 64, "xtc_probability": 0.5, "xtc_threshold": 0.25, "seed": 9, "min_tokens": 2, "ignore_eos": true)");
  EXPECT_EQ(p.temperature, 0.5f);
  EXPECT_EQ(p.top_p, 0.25f);
  EXPECT_EQ(p.min_p, 0.125f);
  EXPECT_EQ(p.typical_p, 0.75f);
  EXPECT_EQ(p.repetition_penalty, 1.5f);
  EXPECT_EQ(p.presence_penalty, -1);
  EXPECT_EQ(p.frequency_penalty, 2);
  EXPECT_EQ(p.top_k, 40);
  EXPECT_EQ(p.dry_multiplier, 0.5f);
  EXPECT_EQ(p.dry_base, 2);
  EXPECT_EQ(p.dry_allowed_length, 3);
  EXPECT_EQ(p.dry_penalty_last_n, 64);
  EXPECT_EQ(p.xtc_probability, 0.5f);
  EXPECT_EQ(p.xtc_threshold, 0.25f);
  EXPECT_EQ(p.seed, 9u);
  EXPECT_EQ(p.min_tokens, 2);
  EXPECT_TRUE(p.ignore_eos);
}

TEST(Request, HugeNumbersAreCutToWhatTheFieldHolds) {
  Rig rig;
  EXPECT_EQ(rig.sampling(R"("top_k": 2147483648)").top_k, INT32_MAX);
  EXPECT_EQ(rig.sampling(R"("top_k": 9223372036854775807)").top_k, INT32_MAX);
  EXPECT_GT(rig.sampling(R"("top_p": 1e-300)").top_p, 0);
  EXPECT_EQ(rig.sampling(R"("temperature": 1e-300)").temperature, 0);
}

TEST(Request, TokenLists) {
  Rig rig;
  const SamplingParams p = rig.sampling(R"("logit_bias": {"5": -100, "6": 1.5}, "stop_token_ids": [7, 8], "allowed_token_ids": [97], "bad_words": ["ab", " c"])");
  EXPECT_THAT(p.logit_bias, ElementsAre(std::pair(5, -100.0f), std::pair(6, 1.5f)));
  EXPECT_THAT(p.stop_token_ids, ElementsAre(7, 8));
  EXPECT_THAT(p.allowed_token_ids, ElementsAre(97));
  EXPECT_THAT(p.bad_words, ElementsAre(ElementsAre('a', 'b'), ElementsAre('c')));
}

TEST(Request, BreakersAreTheTokensThatHoldThem) {
  Rig rig;
  EXPECT_TRUE(rig.sampling("").dry_sequence_breakers.empty());
  EXPECT_THAT(rig.sampling(R"("dry_multiplier": 1)").dry_sequence_breakers,
              ElementsAre(ElementsAre('\n'), ElementsAre('"'), ElementsAre('*'), ElementsAre(':')));
  EXPECT_THAT(rig.sampling(R"("dry_multiplier": 1, "dry_sequence_breakers": ["th"])").dry_sequence_breakers,
              ElementsAre(ElementsAre('t', 'h'), ElementsAre(260)));
  EXPECT_TRUE(rig.sampling(R"("dry_multiplier": 1, "dry_sequence_breakers": [])").dry_sequence_breakers.empty());
}

TEST(Request, LogprobsOfCompletions) {
  Rig rig;
  EXPECT_EQ(rig.sampling(R"("logprobs": 3)").logprobs, 3);
  EXPECT_EQ(rig.sampling(R"("logprobs": 3)").prompt_logprobs, -1);
  EXPECT_EQ(rig.sampling(R"("logprobs": 3, "echo": true)").prompt_logprobs, 3);
  EXPECT_EQ(rig.sampling(R"("logprobs": 1, "echo": true, "prompt_logprobs": 4)").prompt_logprobs, 4);
  EXPECT_EQ(rig.sampling(R"("best_of": 2)").logprobs, 0);
  EXPECT_EQ(rig.completion(R"("best_of": 2)").spec.output.logprobs, -1);
}

TEST(Request, TheModelsOwnDefaults) {
  Rig rig({}, R"({"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05, "max_new_tokens": 5, "do_sample": true, "eos_token_id": [1, 2]})");
  EXPECT_TRUE(rig.front->warnings().empty());
  const serve::Call call = rig.completion("");
  EXPECT_EQ(call.spec.sampling.temperature, 0.7f);
  EXPECT_EQ(call.spec.sampling.top_p, 0.8f);
  EXPECT_EQ(call.spec.sampling.top_k, 20);
  EXPECT_EQ(call.spec.sampling.repetition_penalty, 1.05f);
  EXPECT_EQ(call.spec.prompts[0].max_tokens, 5);
  EXPECT_EQ(rig.sampling(R"("temperature": 0, "top_k": -1)").temperature, 0);
  EXPECT_EQ(rig.completion(R"("max_tokens": 9)").spec.prompts[0].max_tokens, 9);
}

TEST(Request, DefaultsCanBeOverriddenOrLeftOut) {
  serve::FrontendOptions o;
  o.sampling_overrides = *serve::SamplingDefaults::parse(R"({"temperature": 0.1})", "test");
  EXPECT_EQ(Rig(o, R"({"temperature": 0.7, "top_k": 20})").sampling("").temperature, 0.1f);
  EXPECT_EQ(Rig(o, R"({"temperature": 0.7, "top_k": 20})").sampling("").top_k, 20);
  EXPECT_EQ(Rig({.use_generation_config = false}, R"({"temperature": 0.7})").sampling("").temperature, 1);
}

TEST(Request, BrokenDefaultsAreAWarning) {
  Rig rig({}, R"({"temperature": "hot"})");
  ASSERT_EQ(rig.front->warnings().size(), 1u);
  EXPECT_THAT(rig.front->warnings()[0], HasSubstr("temperature: expected a number"));
  EXPECT_FALSE(serve::SamplingDefaults::parse("[]", "x"));
}

TEST(Request, PriorityAndSalt) {
  Rig rig;
  const serve::Call call = rig.completion(R"("priority": -3, "cache_salt": "mine", "user": "ann", "deadline_ms": 250)");
  EXPECT_EQ(call.spec.share_key, "user:ann");
  EXPECT_EQ(call.spec.deadline_ms, 250);
  for (const char* bad : {"\"deadline_ms\": 0", "\"deadline_ms\": -1", "\"deadline_ms\": \"x\"", "\"user\": 5"}) {
    const auto refused = serve::parse_completion(*serve::parse_json(std::string("{\"prompt\": \"a\", ") + bad + "}"), *rig.front);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().error.code, Code::invalid_argument) << bad;
  }
  EXPECT_EQ(call.spec.priority, -3);
  EXPECT_EQ(call.spec.cache_salt, "mine");
}

TEST(ChatTemplates, ABrokenOneOfTheModelIsAWarningAndARefusal) {
  Rig rig({}, {}, "{% for x in %}");
  ASSERT_NE(rig.front, nullptr);
  EXPECT_EQ(rig.front->warnings().size(), 1u);
  const auto call = serve::parse_chat(*serve::parse_json(R"({"messages": [{"role": "user", "content": "x"}]})"), *rig.front);
  ASSERT_FALSE(call);
  EXPECT_THAT(call.error().error.message(), HasSubstr("--chat-template"));
  EXPECT_TRUE(serve::parse_chat(*serve::parse_json(R"({"messages": [{"role": "user", "content": "x"}], "chat_template": "{{ messages[0].content }}"})"), *rig.front));
}

TEST(ChatTemplates, ABrokenOneThatWasAskedForStopsTheStart) {
  EXPECT_EQ(Rig({.chat_template = "{% for x in %}"}).front, nullptr);
  EXPECT_THAT(Rig({.chat_template = "/nonexistent/file"}).error.message(), HasSubstr("chatml"));
}

TEST(ChatTemplates, NamesAndLiterals) {
  const auto text = [](const Rig& rig) {
    serve::ChatInput in;
    in.messages = *serve::parse_json(R"([{"role": "user", "content": "x"}])");
    const auto pieces = rig.front->render(in);
    if (!pieces) return pieces.error().message();
    std::string out;
    for (const auto& p : *pieces) out += p.text;
    return out;
  };
  EXPECT_EQ(text(Rig({.chat_template = "chatml"})), "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(text(Rig({.chat_template = "{{ messages[0].role }}{{ k }}", .template_kwargs = {{"k", "v"}}})), "userv");
}

TEST(ChatTemplates, PartsReachTemplatesThatWalkOverThem) {
  const auto text = [](const char* source, const char* content) -> std::string {
    Rig rig({.chat_template = source});
    serve::ChatInput in;
    in.messages = Json::array({{{"role", "user"}, {"content", *serve::parse_json(content)}}});
    const auto pieces = rig.front->render(in);
    if (!pieces) return pieces.error().message();
    std::string out;
    for (const auto& p : *pieces) out += p.text;
    return out;
  };
  const char* parts = R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])";
  EXPECT_EQ(text("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m['content'] %}({{ p.text }}){% endfor %}{% endif %}{% endfor %}", parts), "(a)(b)");
  EXPECT_EQ(text("{% for m in messages %}{{ m.content }}{% endfor %}", parts), "a\nb");
  EXPECT_EQ(text("{% for m in messages %}{% if 'a' in m.content %}{{ m.content }}{% endif %}{% endfor %}", parts), "a\nb");
}

TEST(ChatTemplates, RaiseIsARefusalWithItsText) {
  Rig rig({.chat_template = "{{ raise_exception('roles must alternate') }}"});
  const auto call = serve::parse_chat(*serve::parse_json(R"({"messages": [{"role": "user", "content": "x"}]})"), *rig.front);
  ASSERT_FALSE(call);
  EXPECT_EQ(serve::http_status(call.error()), 400);
  EXPECT_THAT(call.error().error.message(), HasSubstr("roles must alternate"));
}

TEST(PoolFields, ActivationOfScores) {
  FakeEngine engine({.labels = 1});
  const auto front = *serve::Frontend::create(engine, std::make_unique<ByteTokenizer>(), {});
  const struct {
    const char* fields;
    bool activation;
  } cases[] = {{"", true}, {R"(, "use_activation": null)", true}, {R"(, "use_activation": true)", true}, {R"(, "use_activation": false)", false}, {R"(, "activation": false)", false},
               {R"(, "activation": false, "use_activation": false)", false}};
  for (const auto& c : cases) {
    const auto score = serve::parse_score(*serve::parse_json(std::string(R"({"text_1": "a", "text_2": ["b"])") + c.fields + "}"), *front, {});
    ASSERT_TRUE(score) << score.error().error.message();
    EXPECT_TRUE(score->request.classify);
    EXPECT_EQ(score->request.activation, c.activation) << c.fields;
    const auto rerank = serve::parse_rerank(*serve::parse_json(std::string(R"({"query": "a", "documents": ["b"])") + c.fields + "}"), *front, {});
    ASSERT_TRUE(rerank) << rerank.error().error.message();
    EXPECT_EQ(rerank->request.activation, c.activation) << c.fields;
  }
}

}  // namespace
}  // namespace isotope::test
