#include "sched/lockstep.h"

#include <gtest/gtest.h>

namespace isotope::sched {
namespace {

RankReport report(Signals s, RankTimes t = {}) {
  s.ranks = 1;
  return {.work = true, .signals = s, .times = t};
}
const Signals kDecoding{.decoding = 3}, kPrompt{.able = 1, .pending = 100, .held = 1}, kBoth{.able = 1, .pending = 100, .held = 1, .decoding = 2};

TEST(Lockstep, ReplicasAgreeAndHoldForTheGroup) {
  const LockstepOptions o{.delayer = {.stall_ticks = 3, .decode_interval = 0}, .budget = 1000};
  Lockstep a(o), b(o);
  const std::vector<RankReport> pass = {report(kDecoding), report(kPrompt)};
  for (int i = 0; i < 40; ++i) {
    const bool held = a.hold(pass);
    EXPECT_EQ(held, b.hold(pass));
    EXPECT_EQ(a.last_exit(), b.last_exit());
    if (i == 1) EXPECT_TRUE(held) << "one rank decodes, so the other's prompt waits";
  }
  EXPECT_GT(a.delayer()->count(Exit::stall), 0);
  EXPECT_EQ(a.last_signals().able, 1);
}

TEST(Lockstep, RanksThatLeftCountNothing) {
  const RankTimes known{.prefill_ns = 10'000'000, .decode_ns = 1'000'000, .arrivals_milli = 1};
  Lockstep l({.delayer = {.stall_ticks = 1000}, .budget = 1000});
  const std::vector<RankReport> pass = {report(kDecoding, known), report(kPrompt, known), {}};
  l.hold(pass);
  for (int i = 0; i < 3; ++i) l.hold(pass);
  EXPECT_GT(l.delayer()->count(Exit::cost), 0) << "the one that left is not waited for: it will never measure a step";
  EXPECT_EQ(l.last_signals().ranks, 2);
}

TEST(Lockstep, WithoutADelayerNothingIsHeldOrBalanced) {
  Lockstep l({.delayer = {.enabled = false}});
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(l.hold(std::vector<RankReport>{report(kBoth), report(kBoth)}));
  EXPECT_FALSE(l.last_exit());
  EXPECT_FALSE(l.balances());
  EXPECT_TRUE(Lockstep({}).balances());
  EXPECT_FALSE(Lockstep({.balance = false}).balances());
}

TEST(Lockstep, WhoCarriesMoreGivesBack) {
  const Lockstep l({.balancing = {.token_weight = 1'000'000, .slack = 0.1, .min_tokens = 16, .block_size = 16}});
  std::vector<PrefillChunk> much = {{0, 512, 0}, {1, 512, 0}}, little = {{0, 128, 0}};
  const std::vector<double> costs = {l.cost(much), l.cost(little), 0};
  EXPECT_NEAR(imbalance(costs), 1024 / 576.0, 0.01);
  EXPECT_EQ(l.even_out(little, costs), 0);
  const int64_t taken = l.even_out(much, costs);
  EXPECT_EQ(1024 - taken, 512 + 112) << "1.1 times the mean of 576, down to the edge of a block";
  EXPECT_EQ(imbalance({}), 0);
  EXPECT_EQ(imbalance(std::vector<double>{0, 5}), 1);
}

}  // namespace
}  // namespace isotope::sched
