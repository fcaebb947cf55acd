// Models with a recurrent state through the whole engine: the same tokens and log-probabilities, to the bit, however a request runs; and no state is ever
// left over from whoever had the slot before (field report G27).
#include <gtest/gtest.h>

#include "collector.h"
#include "levers/levers.h"

namespace isotope::engine::test {
namespace {

class Hybrid : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Engine> open(EngineOptions o = {}, const std::map<std::string, std::string>& settings = {}) {
    o.model = std::string(ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/") + GetParam();
    o.kv_bytes = 64 << 20;
    if (!o.threads) o.threads = 2;
    o.max_model_len = 512;
    auto e = Engine::open(o, *levers::Levers::resolve({.environment = settings}));
    EXPECT_TRUE(e) << (e ? "" : e.error().message());
    return e ? std::move(*e) : nullptr;
  }

  /// Prompts of one seed are prefixes of each other.
  static std::vector<int32_t> prompt(int64_t n, uint32_t seed) {
    std::vector<int32_t> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = int32_t(3 + (i * 7919 + seed * 104729 + i * i * 31) % 250);
    return v;
  }
  static Request request(uint64_t id, std::vector<int32_t> prompt) {
    Request r;
    r.id = id;
    r.prompt = std::move(prompt);
    r.sampling = {.temperature = id % 2 ? 0.8f : 0.0f, .seed = id, .max_tokens = 12, .ignore_eos = true, .logprobs = 2};
    return r;
  }
  static std::vector<Request> eight() {
    const int64_t lengths[] = {1, 2, 15, 17, 33, 64, 130, 200};
    std::vector<Request> v;
    for (uint64_t i = 0; i < 8; ++i) v.push_back(request(i, prompt(lengths[i], uint32_t(i % 3))));
    v[4].sampling.prompt_logprobs = 1;
    return v;
  }
  /// Each request in an engine of its own, so that no slot has been used before.
  std::map<uint64_t, Answer> alone() {
    std::map<uint64_t, Answer> out;
    for (Request& r : eight()) {
      const auto e = open();
      if (!e) return out;
      const uint64_t id = r.id;
      out[id] = run_one(*e, std::move(r));
      EXPECT_EQ(out[id].tokens.size(), 12u);
    }
    return out;
  }
  static void expect_all(const std::map<uint64_t, Answer>& got, const std::map<uint64_t, Answer>& want, const std::string& where) {
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [id, a] : want) expect_same(got.at(id), a, where + ", request " + std::to_string(id));
  }
  static void expect_all_blocks_back(Engine& e) {
    const EngineStats s = e.stats();
    EXPECT_EQ(s.blocks_free + s.blocks_evictable, s.blocks_total);
    EXPECT_NE(e.metrics().find("isotope:kv_integrity_errors_total 0.0"), std::string::npos);
  }
};

TEST_P(Hybrid, SamePromptSameBits) {
  const auto want = alone();
  const std::pair<const char*, EngineOptions> ways[] = {
      {"together", {}},
      {"one thread, chunks of 1", {.threads = 1, .long_prefill_token_threshold = 1}},
      {"three threads, chunks of 7", {.threads = 3, .long_prefill_token_threshold = 7}},
      {"chunks of 64, three at once", {.max_num_seqs = 3, .max_num_batched_tokens = 64}},
      {"preempted every third step", {.max_num_batched_tokens = 100, .preempt_every = 3}},
      {"without prefix cache", {.prefix_caching = false}},
  };
  for (const auto& [name, options] : ways) {
    const auto e = open(options);
    ASSERT_TRUE(e);
    expect_all(run(*e, eight()), want, name);
    expect_all(run(*e, eight()), want, std::string(name) + ", again");
    EXPECT_EQ(e->stats().preemptions > 0, options.preempt_every > 0);
    expect_all_blocks_back(*e);
  }
}

TEST_P(Hybrid, ASlotKeepsNothingOfItsLastUser) {
  const auto e = open({.max_num_seqs = 1});
  ASSERT_TRUE(e);
  const auto fresh = open();
  const Answer want = run_one(*fresh, request(2, prompt(41, 8)));
  run_one(*e, request(1, prompt(90, 7)));
  expect_same(run_one(*e, request(2, prompt(41, 8))), want, "the slot's second user");
  EXPECT_EQ(e->stats(2)->cached_tokens, 0);
  EXPECT_EQ(e->stats(2)->cache_reason, CacheReason::cold);
}

INSTANTIATE_TEST_SUITE_P(Models, Hybrid, testing::Values("qwen3_next"), [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace isotope::engine::test
