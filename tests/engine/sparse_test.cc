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

INSTANTIATE_TEST_SUITE_P(Models, Sparse, testing::Values("deepseek_v32", "glm_moe_dsa", "minimax_m3", "deepseek_v4", "deepseek_v41"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace isotope::engine::test
