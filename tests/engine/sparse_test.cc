// Models whose attention chooses its keys, or compresses them, through the whole engine: the same tokens and log-probabilities, to the bit, however a request
// runs; what indexers and compressors keep is shared, freed and computed anew with the blocks of its tokens.
#include <gtest/gtest.h>

#include "family.h"

namespace isotope::engine::test {
namespace {

class Sparse : public FamilyTest {};

TEST_P(Sparse, SamePromptSameBits) {
  constexpr int64_t kLongest = 270;
  expect_every_way({{"together", {}},
                    {"one thread, chunks of 1", {.threads = 1, .long_prefill_token_threshold = 1}},
                    {"three threads, chunks of 7", {.threads = 3, .long_prefill_token_threshold = 7}},
                    {"chunks of 64, three at once", {.max_num_seqs = 3, .max_num_batched_tokens = 64}},
                    {"preempted every third step", {.max_num_batched_tokens = 100, .preempt_every = 3}},
                    {"blocks of 64", {.block_size = 64}},
                    {"without prefix cache", {.prefix_caching = false}}},
                   kLongest, alone(eight(kLongest)));
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

class DeepseekV4 : public FamilyTest {};

/// Blocks of windows and of what compressed entries are made of go long before those of the entries themselves. With ATOM_DSV4_STATE_REPLAY a prefix whose
/// entries are all there is used whole: the last F = 128 + 3 · 15 tokens (the longest window, and four layers with windows of 16) are computed once more.
TEST_P(DeepseekV4, WindowsThatAreGoneAreComputedOnceMore) {
  constexpr int64_t kField = 128 + 3 * 15;
  const auto longer = [&] { return request(9, prompt(460, 7)); };
  const auto cold = open();
  const Answer want = run_one(*cold, longer());
  for (const bool replay : {false, true})
    for (const int64_t budget : {64, 512}) {
      SCOPED_TRACE(testing::Message() << replay << ", steps of " << budget);
      const auto e = open({.max_num_seqs = 6, .max_num_batched_tokens = budget}, {{"ATOM_DSV4_STATE_REPLAY", replay ? "1" : "0"}});
      ASSERT_TRUE(e);
      run_one(*e, request(1, prompt(440, 7)));
      for (uint64_t id = 2; id <= 6; ++id) run_one(*e, request(id, prompt(400, 20 + uint32_t(id))));
      for (uint64_t round = 0; round < 2; ++round) {
        expect_same(run_one(*e, longer()), want, "round " + std::to_string(round));
        const RequestStats s = *e->stats(9);
        if (round) EXPECT_EQ(s.cached_tokens, 448) << "its windows are there now";
        else EXPECT_EQ(s.cached_tokens, replay ? 432 - kField : 0);
        EXPECT_EQ(s.replayed_tokens, replay && !round ? kField : 0);
      }
      EXPECT_NE(e->metrics().find(replay ? "isotope:state_replay_requests_total 1.0" : "isotope:state_replay_requests_total 0.0"), std::string::npos);
      expect_all_blocks_back(*e);
    }
}

TEST_P(DeepseekV4, ReplaySameBitsEveryWay) {
  const std::map<std::string, std::string> on = {{"ATOM_DSV4_STATE_REPLAY", "1"}};
  const auto want = alone(eight(270));
  for (const EngineOptions& o : {EngineOptions{.max_num_seqs = 3, .max_num_batched_tokens = 40}, EngineOptions{.max_num_batched_tokens = 100, .preempt_every = 3}}) {
    const auto e = open(o, on);
    ASSERT_TRUE(e);
    for (int round = 0; round < 2; ++round) expect_all(run(*e, eight(270)), want, "round " + std::to_string(round));
    expect_all_blocks_back(*e);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DeepseekV4, testing::Values("deepseek_v4"), [](const auto&) { return std::string("tiny"); });

INSTANTIATE_TEST_SUITE_P(Models, Sparse, testing::Values("deepseek_v32", "glm_moe_dsa", "minimax_m3", "deepseek_v4", "deepseek_v41", "hy_v4"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace isotope::engine::test
