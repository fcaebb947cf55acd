// What a request may ask for, what it gets told, and what the metrics say afterwards.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "fixture.h"

namespace isotope::engine::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

struct BadCase {
  const char* name;
  std::vector<int32_t> prompt;
  SamplingParams params;
  const char* says;  ///< part of the message
};
void PrintTo(const BadCase& c, std::ostream* o) {
  *o << c.name;
}

std::vector<BadCase> bad_cases() {
  const auto ok = prompt_of(4);
  return {
      {"empty", {}, {}, "no tokens"},
      {"negative", {-1}, {}, "token id -1 is out of vocabulary: the model has 97 tokens"},  // field report G09
      {"vocab", {3, 97}, {}, "token id 97"},
      {"huge", {INT32_MAX}, {}, "out of vocabulary"},
      {"bias_key", ok, {.logit_bias = {{191222, -100}}}, "'logit_bias'"},  // field report G08
      {"bias_negative", ok, {.logit_bias = {{-1, 1}}}, "token id -1 is out of vocabulary: the model has 97 tokens"},
      {"bias_nan", ok, {.logit_bias = {{1, kNan}}}, "bias of token 1 is nan"},
      {"bias_inf", ok, {.logit_bias = {{1, kInf}}}, "bias of token 1 is inf"},
      {"top_k", ok, {.top_k = -2}, "top_k is -2"},  // field report G07
      {"temperature", ok, {.temperature = -0.5f}, "temperature is -0.5"},
      {"temperature_nan", ok, {.temperature = kNan}, "temperature is nan"},
      {"temperature_inf", ok, {.temperature = kInf}, "temperature is inf"},
      {"top_p", ok, {.top_p = 0}, "top_p is 0"},
      {"top_p_high", ok, {.top_p = 1.5f}, "top_p is 1.5"},
      {"min_p", ok, {.min_p = -1}, "min_p"},
      {"typical", ok, {.typical_p = 0}, "typical_p"},
      {"repetition", ok, {.repetition_penalty = 0}, "repetition_penalty"},
      {"presence", ok, {.presence_penalty = 3}, "presence_penalty"},
      {"frequency", ok, {.frequency_penalty = kNan}, "frequency_penalty"},
      {"dry", ok, {.dry_multiplier = -1}, "dry_multiplier"},
      {"dry_base", ok, {.dry_base = kInf}, "dry_base"},
      {"dry_breaker", ok, {.dry_sequence_breakers = {{1, 500}}}, "dry_sequence_breakers"},
      {"xtc", ok, {.xtc_probability = 2}, "xtc_probability"},
      {"allowed", ok, {.allowed_token_ids = {1, 97}}, "allowed_token_ids"},
      {"stop", ok, {.stop_token_ids = {-5}}, "stop_token_ids"},
      {"bad_words", ok, {.bad_words = {{1}, {97}}}, "bad_words"},
      {"bad_words_empty", ok, {.bad_words = {{}}}, "empty token sequence"},
      {"max_tokens", ok, {.max_tokens = -1}, "max_tokens is -1"},
      {"min_tokens", ok, {.max_tokens = 4, .min_tokens = 5}, "min_tokens is 5"},
      {"logprobs", ok, {.logprobs = 98}, "logprobs is 98"},
      {"logprobs_low", ok, {.logprobs = -2}, "logprobs is -2"},
      {"prompt_logprobs", ok, {.prompt_logprobs = 1000}, "prompt_logprobs"},
      {"too_long", prompt_of(256), {.max_tokens = 1}, "n_prompt_tokens=256, n_ctx=256"},  // field report G20
      {"much_too_long", prompt_of(2560), {.max_tokens = 1}, "n_prompt_tokens=2560, n_ctx=256"},
      {"overflow", prompt_of(250), {.max_tokens = 7}, "n_prompt_tokens=250, n_ctx=256"},
      {"overflow_int64", ok, {.max_tokens = INT64_MAX}, "n_ctx=256"},
  };
}

class Bad : public testing::TestWithParam<BadCase> {};

TEST_P(Bad, RequestGetsATypedErrorAndOthersGoOn) {
  Rig rig({});
  Collector c;
  const SamplingParams p{.temperature = 0, .max_tokens = 12, .ignore_eos = true};
  Request neighbour = request(1, prompt_of(9), p);
  neighbour.sink = c.sink(1);
  ASSERT_TRUE(rig->submit(std::move(neighbour)));
  Request r = request(2, GetParam().prompt, GetParam().params);
  r.sink = c.sink(2);
  const auto refused = rig->submit(std::move(r));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_NE(refused.error().message().find(GetParam().says), std::string::npos) << refused.error().message();
  EXPECT_FALSE(refused.error().remedy.empty());
  ASSERT_TRUE(c.wait_ended(1));
  expect_same(c.answer(1), expected(prompt_of(9), p, rig.setup.groups), "neighbour");
  EXPECT_EQ(c.answer(2).events, 0);
}
INSTANTIATE_TEST_SUITE_P(Request, Bad, testing::ValuesIn(bad_cases()), [](const auto& i) { return std::string(i.param.name); });

TEST(Request, LengthsUpToTheContext) {  // field report G20
  Rig rig({.groups = {{64, 0}}});
  EXPECT_EQ(run_one(*rig, request(1, prompt_of(255), {.temperature = 0, .max_tokens = 1, .ignore_eos = true})).tokens.size(), 1u);
  const Answer scored = run_one(*rig, request(2, prompt_of(256), {.max_tokens = 0, .prompt_logprobs = 0}));
  EXPECT_EQ(scored.finish, FinishReason::length);
  EXPECT_EQ(scored.prompt.size(), 256u);
  EXPECT_TRUE(scored.tokens.empty());
  EXPECT_EQ(run_one(*rig, request(3, prompt_of(1), {.temperature = 0, .max_tokens = 255, .ignore_eos = true})).tokens.size(),
            255u);
}

TEST(Request, HugeTopKAndGreedyShareABatch) {  // field report G07
  Rig rig({});
  std::vector<Request> v;
  std::map<uint64_t, Answer> want;
  const SamplingParams params[] = {{.temperature = 0, .max_tokens = 9},
                                   {.temperature = 1, .top_k = 9999999, .seed = 1, .max_tokens = 9},
                                   {.temperature = 1, .top_k = INT32_MAX, .seed = 1, .max_tokens = 9},
                                   {.temperature = 1, .top_k = -1, .seed = 1, .max_tokens = 9},
                                   {.temperature = 1, .top_k = 0, .seed = 1, .max_tokens = 9},
                                   {.temperature = 1, .top_k = 64, .seed = 1, .max_tokens = 9}};
  for (uint64_t i = 0; i < std::size(params); ++i) {
    want[i] = expected(prompt_of(5), params[i], rig.setup.groups);
    v.push_back(request(i, prompt_of(5), params[i]));
  }
  const auto got = run(*rig, std::move(v));
  for (const auto& [id, a] : got) expect_same(a, want[id], std::to_string(id));
  for (uint64_t i = 2; i < 5; ++i) EXPECT_EQ(got.at(i).tokens, got.at(1).tokens);  // all of them mean "off"
}

TEST(Request, TinyTemperaturesGiveTheGreedyText) {  // field report G06
  Rig rig({});
  SamplingParams p{.temperature = 0, .seed = 1, .max_tokens = 20, .ignore_eos = true};
  const auto greedy = run_one(*rig, request(1, prompt_of(5), p)).tokens;
  for (float t : {1e-4f, 1e-5f, 1e-6f, 1e-7f, 1e-8f, 1e-38f, 1e-45f}) {
    p.temperature = t;
    EXPECT_EQ(run_one(*rig, request(1, prompt_of(5), p)).tokens, greedy) << t;
  }
}

TEST(Request, BiasIsReallyApplied) {  // field report G08
  Rig rig({});
  const Answer a =
      run_one(*rig, request(1, prompt_of(5), {.temperature = 1, .logit_bias = {{42, 1e9f}}, .seed = 1, .max_tokens = 5}));
  EXPECT_EQ(a.tokens, (std::vector<int32_t>(5, 42)));
}

TEST(Request, SeedIsDrawnAndReported) {
  Rig rig({});
  SamplingParams p{.temperature = 1, .max_tokens = 12, .ignore_eos = true};
  const auto first = run_one(*rig, request(1, prompt_of(5), p)).tokens,
             second = run_one(*rig, request(2, prompt_of(5), p)).tokens;
  EXPECT_NE(rig->stats(1)->seed, rig->stats(2)->seed);
  EXPECT_NE(first, second);
  p.seed = rig->stats(1)->seed;
  EXPECT_EQ(run_one(*rig, request(3, prompt_of(5), p)).tokens, first);
  EXPECT_EQ(rig->stats(3)->seed, *p.seed);
}

TEST(Request, EndTokenHasItsLogprob) {
  Rig rig({});
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const SamplingParams p{.temperature = 1, .seed = seed, .max_tokens = 40, .logprobs = 2};
    const Answer a = run_one(*rig, request(1, prompt_of(5), p));
    if (a.finish != FinishReason::stop) continue;
    EXPECT_EQ(a.stop_token, kEos);
    EXPECT_EQ(a.logprobs.size(), a.tokens.size() + 1);
    EXPECT_EQ(a.logprobs.back().token, kEos);
    double sum = 0;
    for (const auto& l : a.logprobs) sum += double(l.logprob);
    EXPECT_DOUBLE_EQ(rig->stats(1)->cumulative_logprob, sum);
    EXPECT_EQ(rig->stats(1)->output_tokens, int64_t(a.logprobs.size()));
    return;
  }
  FAIL() << "no text ended by itself";
}

TEST(Request, PromptLogprobsComeInBoundedPieces) {
  Rig rig({});
  rig.runner->before_step = [](const ops::Batch& b) { EXPECT_LE(b.R(), 64 + 1); };
  const SamplingParams p{.temperature = 0, .max_tokens = 3, .ignore_eos = true, .prompt_logprobs = 3};
  const auto prompt = prompt_of(150);
  const Answer want = expected(prompt, p, rig.setup.groups);
  for (uint64_t i = 0; i < 2; ++i) {
    expect_same(run_one(*rig, request(i, prompt, p)), want, "prompt log-probabilities");
    EXPECT_EQ(rig->stats(i)->cached_tokens, 0);  // every row is needed, so nothing may come from the cache
  }
}

/// The value on the line that starts with `name`.
double metric(const std::string& text, const std::string& name) {
  const size_t at = ("\n" + text).find("\n" + name + " ");
  return at == std::string::npos ? NAN : std::stod(text.substr(at + name.size() + 1));
}

TEST(Metrics, CountersAreMonotoneAndSourcesAddUp) {  // field report X01
  Layout setup{.groups = {{40, 0}}, .max_model_len = 128};
  setup.options.preempt_every = 5;
  Rig rig(setup);
  std::map<std::string, double> last;
  const std::string L = "{model_name=\"fake\",engine=\"0\"";
  for (uint64_t round = 0; round < 6; ++round) {
    std::vector<Request> v;
    for (uint64_t i = 0; i < 6; ++i)
      v.push_back(request(round * 10 + i, prompt_of(10 + int64_t(i), uint32_t(round / 2)),
                          {.temperature = 0, .max_tokens = 20, .ignore_eos = true}));
    run(*rig, std::move(v));
    const std::string text = rig->metrics();
    for (const std::string& name :
         {"vllm:prompt_tokens_total" + L + "}", "vllm:prompt_tokens_cached_total" + L + "}",
          "vllm:generation_tokens_total" + L + "}", "vllm:prefix_cache_queries_total" + L + "}",
          "vllm:prefix_cache_hits_total" + L + "}", "vllm:num_preemptions_total" + L + "}",
          "vllm:time_to_first_token_seconds_count" + L + "}", "vllm:request_success_total" + L + ",finished_reason=\"length\"}",
          std::string("atom:requests_finished_total"), std::string("atom:generation_tokens_total")}) {
      const double now = metric(text, name);
      EXPECT_GE(now, last[name]) << name;
      last[name] = now;
    }
    const auto source = [&](const char* s) {
      return metric(text, "vllm:prompt_tokens_by_source_total" + L + ",source=\"" + s + "\"}");
    };
    EXPECT_EQ(source("local_compute") + source("local_cache_hit") + source("external_kv_transfer"),
              last["vllm:prompt_tokens_total" + L + "}"]);
    EXPECT_GE(source("local_compute"), 0);
  }
  EXPECT_EQ((last["vllm:prompt_tokens_total" + L + "}"]),
            6 * (10 + 11 + 12 + 13 + 14 + 15 + 1));  // and run()'s gate, a prompt of one token
  EXPECT_EQ(last["atom:requests_finished_total"], 36 + 6);
  EXPECT_EQ(last["atom:generation_tokens_total"], 720);
  EXPECT_GT((last["vllm:num_preemptions_total" + L + "}"]), 0);
  EXPECT_GT((last["vllm:prompt_tokens_cached_total" + L + "}"]), 0);
  EXPECT_NE(rig->metrics().find("block_size=\"4\",num_gpu_blocks=\"40\""), std::string::npos);
}

}  // namespace
}  // namespace isotope::engine::test
