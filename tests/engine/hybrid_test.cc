// Models with a recurrent state through the whole engine: the same tokens and log-probabilities, to the bit, however a request runs; and no state is ever
// left over from whoever had the slot before (field report G27).
#include <gtest/gtest.h>

#include <sstream>

#include "family.h"

namespace isotope::engine::test {
namespace {

class Hybrid : public FamilyTest {};

TEST_P(Hybrid, SamePromptSameBits) {
  constexpr int64_t kLongest = 200;
  expect_every_way({{"together", {}},
                    {"one thread, chunks of 1", {.threads = 1, .long_prefill_token_threshold = 1}},
                    {"three threads, chunks of 7", {.threads = 3, .long_prefill_token_threshold = 7}},
                    {"chunks of 64, three at once", {.max_num_seqs = 3, .max_num_batched_tokens = 64}},
                    {"preempted every third step", {.max_num_batched_tokens = 100, .preempt_every = 3}},
                    {"without prefix cache", {.prefix_caching = false}}},
                   kLongest, alone(eight(kLongest)));
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

/// The value of the line of that name with that label; -1 if there is none.
double metric(const Engine& e, const std::string& name, const std::string& label = "") {
  std::istringstream text(e.metrics());
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("isotope:" + name) && line.find(label) != std::string::npos) return std::stod(line.substr(line.rfind(' ') + 1));
  return -1;
}

/// A conversation that grows: each turn begins with all that was said before.
TEST_P(Hybrid, TurnsGoOnFromAStoredState) {
  const auto e = open();
  ASSERT_TRUE(e);
  int64_t before = 0;
  for (uint64_t turn = 1; turn <= 4; ++turn) {
    const int64_t n = 70 * int64_t(turn);
    const auto cold = open();
    const Answer want = run_one(*cold, request(turn, prompt(n, 3)));
    expect_same(run_one(*e, request(turn, prompt(n, 3))), want, "turn " + std::to_string(turn));
    EXPECT_EQ(e->stats(turn)->cached_tokens, before) << "turn " << turn;
    before = (n - 1) / 16 * 16;
  }
  EXPECT_EQ(e->stats(4)->cache_reason, CacheReason::block_edge);
  expect_all_blocks_back(*e);
}

/// Two prompts that part inside what is cached: the second finds blocks but no state, says so, and leaves a state for the third.
TEST_P(Hybrid, AHitWithoutAStateLeavesOneForTheNext) {
  for (const bool demand : {true, false}) {
    const auto e = open({}, {{"ATOM_STATE_CHECKPOINT_DEMAND", demand ? "1" : "0"}});
    ASSERT_TRUE(e);
    const auto with_tail = [&](int32_t tail) {
      auto p = prompt(150, 4);
      for (size_t i = 100; i < p.size(); ++i) p[i] = 3 + (p[i] + tail) % 250;
      return p;
    };
    run_one(*e, request(1, with_tail(0)));
    for (uint64_t id : {2, 3}) {
      const auto cold = open();
      const Answer want = run_one(*cold, request(id, with_tail(int32_t(id))));
      expect_same(run_one(*e, request(id, with_tail(int32_t(id)))), want, "request " + std::to_string(id));
    }
    EXPECT_EQ(e->stats(2)->cached_tokens, 0);
    EXPECT_EQ(e->stats(2)->cache_reason, CacheReason::no_checkpoint);
    EXPECT_EQ(e->stats(3)->cached_tokens, demand ? 96 : 0);
    EXPECT_GT(metric(*e, "state_checkpoint_demands_total"), demand ? 0 : -1);
  }
}

TEST_P(Hybrid, SettingsOfCheckpointsDecideWhereStatesAreStored) {
  struct Case {
    const char *interval, *margin;
    int64_t cached;  ///< of the same prompt of 100 tokens with another end, from token `parts` on
    size_t parts;
  };
  const Case cases[] = {{"-1", "0", 96, 99}, {"-1", "20", 80, 99}, {"32", "0", 64, 70}, {"-1", "0", 0, 70}, {"0", "0", 0, 99}, {"40", "0", 64, 70}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.interval << ", margin " << c.margin);
    const auto e = open({}, {{"ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS", c.interval}, {"ATOM_STATE_CHECKPOINT_END_MARGIN", c.margin}});
    ASSERT_TRUE(e);
    run_one(*e, request(1, prompt(100, 5)));
    auto other = prompt(100, 5);
    for (size_t i = c.parts; i < other.size(); ++i) other[i] = 3 + other[i] % 250;
    const auto cold = open();
    const Answer want = run_one(*cold, request(2, std::vector<int32_t>(other)));
    expect_same(run_one(*e, request(2, std::move(other))), want, "answer");
    EXPECT_EQ(e->stats(2)->cached_tokens, c.cached);
    EXPECT_EQ(metric(*e, "state_checkpoints_total", "outcome=\"kept\"") > 0, std::string(c.interval) != "0");
  }
}

/// More prefixes than slots: the oldest states go, requests never fail or wait for them, and answers stay.
TEST_P(Hybrid, StatesGiveWayToRequests) {
  const auto want = alone(eight());
  const auto e = open({.max_num_seqs = 2, .max_num_batched_tokens = 64}, {{"ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS", "16"}});
  ASSERT_TRUE(e);
  for (int round = 0; round < 3; ++round) expect_all(run(*e, eight()), want, "round " + std::to_string(round));
  expect_all_blocks_back(*e);
}

INSTANTIATE_TEST_SUITE_P(Models, Hybrid, testing::Values("qwen3_next", "qwen3_5", "lfm2", "mamba", "mamba2", "granitemoehybrid", "nemotron_h_latent", "falcon_h1", "jamba",
                                         "kimi_linear", "minimax", "olmo_hybrid", "bailing_hybrid", "glm5_next", "qwen4_exp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace isotope::engine::test
