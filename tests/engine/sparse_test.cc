// Models whose attention chooses its keys, or compresses them, through the whole engine: the same tokens and log-probabilities, to the bit, however a request
// runs; what indexers and compressors keep is shared, freed and computed anew with the blocks of its tokens.
#include <gtest/gtest.h>

#include "collector.h"
#include "levers/levers.h"

namespace isotope::engine::test {
namespace {

class Sparse : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Engine> open(EngineOptions o = {}) {
    o.model = std::string(ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/") + GetParam();
    o.kv_bytes = 64 << 20;
    if (!o.threads) o.threads = 2;
    o.max_model_len = 512;
    auto e = Engine::open(o, *levers::Levers::resolve({}));
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
    const int64_t lengths[] = {1, 2, 15, 17, 33, 64, 130, 270};
    std::vector<Request> v;
    for (uint64_t i = 0; i < 8; ++i) v.push_back(request(i, prompt(lengths[i], uint32_t(i % 3))));
    v[4].sampling.prompt_logprobs = 1;
    return v;
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

TEST_P(Sparse, SamePromptSameBits) {
  std::map<uint64_t, Answer> want;
  for (Request& r : eight()) {
    const auto e = open();
    ASSERT_TRUE(e);
    const uint64_t id = r.id;
    want[id] = run_one(*e, std::move(r));
    EXPECT_EQ(want[id].tokens.size(), 12u);
  }
  const std::pair<const char*, EngineOptions> ways[] = {
      {"together", {}},
      {"one thread, chunks of 1", {.threads = 1, .long_prefill_token_threshold = 1}},
      {"three threads, chunks of 7", {.threads = 3, .long_prefill_token_threshold = 7}},
      {"chunks of 64, three at once", {.max_num_seqs = 3, .max_num_batched_tokens = 64}},
      {"preempted every third step", {.max_num_batched_tokens = 100, .preempt_every = 3}},
      {"blocks of 64", {.block_size = 64}},
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

/// Each turn begins with all that was said before, and finds it: keys of indexers and compressed keys come with the blocks.
TEST_P(Sparse, TurnsFindWhatWasSaid) {
  const auto e = open();
  ASSERT_TRUE(e);
  for (uint64_t turn = 1; turn <= 4; ++turn) {
    const int64_t n = 70 * int64_t(turn);
    const auto cold = open();
    const Answer want = run_one(*cold, request(turn, prompt(n, 3)));
    expect_same(run_one(*e, request(turn, prompt(n, 3))), want, "turn " + std::to_string(turn));
    EXPECT_EQ(e->stats(turn)->cached_tokens, turn == 1 ? 0 : (n - 70) / 16 * 16) << "turn " << turn;
  }
  expect_all_blocks_back(*e);
}

INSTANTIATE_TEST_SUITE_P(Models, Sparse, testing::Values("deepseek_v32", "glm_moe_dsa", "minimax_m3", "deepseek_v4"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace isotope::engine::test
