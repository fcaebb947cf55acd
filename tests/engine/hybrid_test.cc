// Models with a recurrent state through the whole engine: the same tokens and log-probabilities, to the bit, however a request runs; and no state is ever
// left over from whoever had the slot before (field report G27).
#include <gtest/gtest.h>

#include <algorithm>
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

/// The must of hybrid models: in a conversation each turn computes what came since the last one, and less than an interval of what it has seen before; what it
/// finds in the cache changes no bit; and where it found less than was cached, it is told why.
TEST_P(Hybrid, AConversationComputesItsLastIntervalAtMost) {
  constexpr int64_t kInterval = 64, kTurn = 90;
  for (const char* midstep : {"0", "1"}) {
    SCOPED_TRACE(midstep);
    const auto e = open({.max_num_batched_tokens = 128}, {{"ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS", std::to_string(kInterval)}, {"ATOM_GDN_STATE_MIDSTEP", midstep}});
    ASSERT_TRUE(e);
    for (uint64_t turn = 1; turn <= 5; ++turn) {
      // The end of a turn is rewritten by the next one, as chat templates do, so that its last stored state is of no use.
      auto said = prompt(kTurn * int64_t(turn), 6);
      const int64_t kept = kTurn * int64_t(turn - 1) - 10;
      for (size_t i = said.size() - 10; i < said.size(); ++i) said[i] = 3 + (said[i] + int32_t(turn)) % 250;
      const auto cold = open();
      const Answer want = run_one(*cold, request(turn, std::vector<int32_t>(said)));
      expect_same(run_one(*e, request(turn, std::move(said))), want, "turn " + std::to_string(turn));
      if (turn == 1) continue;
      const RequestStats s = *e->stats(turn);
      EXPECT_GT(s.cached_tokens, kept - kInterval - 16) << "turn " << turn;
      EXPECT_LE(s.cached_tokens, kept);
      EXPECT_NE(s.cache_reason, CacheReason::none);
      if (s.cached_tokens < kept / 16 * 16) {
        EXPECT_EQ(s.cache_reason, CacheReason::no_checkpoint);
        EXPECT_EQ(s.cache_position, s.cached_tokens);
      }
      const auto records = e->records(std::to_string(turn), 1);
      ASSERT_EQ(records.size(), 1u);
      const auto admitted = std::find_if(records[0].decisions.begin(), records[0].decisions.end(), [](const Decision& d) { return d.kind == Decision::Kind::admitted; });
      ASSERT_NE(admitted, records[0].decisions.end());
      EXPECT_FALSE(admitted->reason.empty());
    }
    expect_all_blocks_back(*e);
  }
}

/// States that are stored within a step are those of steps that end there: fewer steps, the same hits, the same bits.
TEST_P(Hybrid, StatesAreStoredWithinAStep) {
  int chunks[2] = {};
  for (const bool midstep : {false, true}) {
    const auto e = open({}, {{"ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS", "48"}, {"ATOM_GDN_STATE_MIDSTEP", midstep ? "1" : "0"}, {"ATOM_STATE_CHECKPOINT_CHECK_BLOCKS", "1"}});
    ASSERT_TRUE(e);
    for (const int64_t n : {230, 199, 150, 100, 60}) {  // each goes on from a state within the first one's prompt
      auto p = prompt(n, 8);
      p.back() = 3 + (p.back() + 1) % 250;
      const auto cold = open();
      const Answer want = run_one(*cold, request(uint64_t(n), std::vector<int32_t>(p)));
      expect_same(run_one(*e, request(uint64_t(n), std::move(p))), want, "prompt of " + std::to_string(n));
      if (n < 230) EXPECT_EQ(e->stats(uint64_t(n))->cached_tokens, (n - 1) / 48 * 48) << n;
    }
    chunks[midstep] = e->stats(230)->chunks;
    EXPECT_EQ(metric(*e, "midstep_checkpoints_total") > 0, midstep);
    EXPECT_EQ(metric(*e, "state_checkpoint_cuts_total") > 0, !midstep);
    expect_all_blocks_back(*e);
  }
  EXPECT_EQ(chunks[0], 6);  // 48 96 144 192 224 230
  EXPECT_EQ(chunks[1], 1);
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
