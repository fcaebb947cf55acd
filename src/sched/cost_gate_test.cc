#include "sched/cost_gate.h"

#include <gtest/gtest.h>

#include <vector>

namespace isotope::sched {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(CostGate, Verdicts) {
  struct Case {
    const char* what;
    std::vector<GateRank> ranks;
    int64_t waiting, hold_ticks;
    bool release;
  };
  // S = 110 ms - 10 ms = 0.1 s.
  const RankTimes quiet{110 * kMs, 10 * kMs, 0}, busy{110 * kMs, 10 * kMs, 50'000};
  const Case kCases[] = {
      {"nothing arrives: holding saves nothing", {{quiet, true}, {quiet, false}}, 1, 0, true},
      {"50/s * 0.1 s = 5 saved, 3 wait", {{quiet, true}, {busy, false}}, 3, 0, false},
      {"6 wait", {{quiet, true}, {busy, false}}, 6, 0, true},
      {"5 wait: just as good, go on holding", {{quiet, true}, {busy, false}}, 5, 0, false},
      {"arrivals at ranks with prefill do not count", {{busy, true}, {quiet, false}}, 1, 0, true},
      {"ten held steps of 10 ms have cost what one misaligned step would", {{quiet, true}, {busy, false}}, 1, 10, true},
      {"nine have not", {{quiet, true}, {busy, false}}, 1, 9, false},
      {"all prefill: aligned", {{quiet, true}, {quiet, true}}, 9, 99, false},
      {"nobody prefills", {{quiet, false}, {quiet, false}}, 9, 99, false},
      {"a rank has not measured its decode steps", {{quiet, true}, {{110 * kMs, 0, 0}, false}}, 9, 99, false},
      {"a rank has not measured its prefill steps", {{{0, 10 * kMs, 0}, true}, {quiet, false}}, 9, 99, false},
      {"the slowest rank counts", {{quiet, true}, {{20 * kMs, 10 * kMs, 50'000}, false}}, 3, 0, false},
      {"prefill no slower than decode: nothing is lost",
       {{{5 * kMs, 10 * kMs, 0}, true}, {{5 * kMs, 10 * kMs, 50'000}, false}},
       1,
       0,
       true},
      {"no ranks", {}, 9, 9, false},
  };
  for (const Case& c : kCases)
    EXPECT_EQ(gate_releases({.ranks = c.ranks, .waiting = c.waiting, .hold_ticks = c.hold_ticks}), c.release) << c.what;
}

TEST(CostGate, AveragesFollowTheSteps) {
  StepMeter m;
  EXPECT_EQ(m.times(0).prefill_ns, 0);
  m.step(true, 100 * kMs);
  EXPECT_EQ(m.times(0).prefill_ns, 100 * kMs) << "the first one stands for itself";
  EXPECT_EQ(m.times(0).decode_ns, 0);
  m.step(true, 200 * kMs);
  EXPECT_EQ(m.times(0).prefill_ns, 110 * kMs);
  m.step(false, 10 * kMs);
  for (int i = 0; i < 200; ++i) m.step(false, 20 * kMs);
  EXPECT_NEAR(double(m.times(0).decode_ns), 20e6, 1e3);
  m.step(false, -5);
  EXPECT_GT(m.times(0).decode_ns, 0) << "a clock that stood still does no harm";
}

TEST(CostGate, ArrivalsOfTheLastFiveSeconds) {
  constexpr int64_t kS = 1'000'000'000;
  StepMeter m;
  for (int i = 0; i < 100; ++i) m.arrival(1000 * kS + i * 10 * kMs);  // 100 within one second
  EXPECT_EQ(m.times(1001 * kS).arrivals_milli, 20'000);
  EXPECT_EQ(m.times(1004 * kS + 900 * kMs).arrivals_milli, 20'000);
  EXPECT_EQ(m.times(1005 * kS + 500 * kMs).arrivals_milli, 8'000) << "half a second later 60 of them are too old";
  EXPECT_EQ(m.times(1006 * kS).arrivals_milli, 0);
  m.arrival(2000 * kS);
  EXPECT_EQ(m.times(2000 * kS).arrivals_milli, 200);
  EXPECT_EQ(m.times(1 * kS).arrivals_milli, 200) << "a clock that went back";
}

}  // namespace
}  // namespace isotope::sched
