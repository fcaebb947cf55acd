#include "sched/delayer.h"

#include <gtest/gtest.h>

namespace isotope::sched {
namespace {

using levers::PrefillDelayer;

constexpr int64_t kBudget = 1000;
/// Work that is worth no exit by itself: one decode, one small prompt.
const Signals kSmall{.able = 1, .pending = 100, .decoding = 1};

Signals with(auto... change) {
  Signals s = kSmall;
  (change(s), ...);
  return s;
}

/// A delayer past its first verdict, which always lets through.
struct Rig {
  explicit Rig(PrefillDelayer set = {}) : d(set, kBudget) { EXPECT_EQ(d.decide(kSmall), Exit::vacuous); }
  Exit operator()(const Signals& s) { return d.decide(s); }
  Delayer d;
};

TEST(Delayer, EachExitByItself) {
  struct Case {
    Exit want;
    PrefillDelayer set;
    Signals in;
  };
  const Case cases[] = {
      {Exit::hold, {}, kSmall},
      {Exit::fill, {}, with([](Signals& s) { s.pending = 900; })},
      {Exit::hold, {}, with([](Signals& s) { s.pending = 899; })},
      {Exit::fill, {.target_fill = 0.1}, kSmall},
      {Exit::vacuous, {}, with([](Signals& s) { s.able = 0; })},
      {Exit::nodecode, {}, with([](Signals& s) { s.decoding = 0; })},
      {Exit::kv, {}, with([](Signals& s) { s.kv_high = 1; })},
      {Exit::kv, {}, with([](Signals& s) { s.kv_low = 1; })},
      {Exit::queue_ms, {}, with([](Signals& s) { s.aged = 1; })},
      {Exit::hold_decode_interval, {.decode_interval = 3}, with([](Signals& s) { s.executed = 1, s.kv_high = 1, s.aged = 1, s.pending = kBudget; })},
      {Exit::nodecode, {.decode_interval = 3}, with([](Signals& s) { s.executed = 1, s.decoding = 0; })},
      {Exit::vacuous, {.decode_interval = 3}, with([](Signals& s) { s.executed = 1, s.able = 0; })},
  };
  for (const Case& c : cases) {
    Rig rig(c.set);
    EXPECT_EQ(rig(c.in), c.want) << exit_name(c.want);
    EXPECT_EQ(rig.d.count(c.want), c.want == Exit::vacuous ? 2 : 1);
  }
}

/// How many passes are held before one is let through, and by which exit.
std::pair<int, Exit> held(Rig& rig, const std::function<Signals(int)>& signals) {
  for (int n = 0;; ++n)
    if (const Exit e = rig(signals(n)); fires(e)) return {n, e};
}

TEST(Delayer, StallTtftAndPartialCountPasses) {
  const auto steady = [](int) { return kSmall; };
  const auto growing = [](int n) { return with([&](Signals& s) { s.pending = 100 + n; }); };
  const auto partial = [&](int n) { return with([&](Signals& s) { s.pending = 100 + n, s.partial = 1; }); };
  {
    Rig rig({.stall_ticks = 4});
    EXPECT_EQ(held(rig, steady), std::pair(4, Exit::stall));  // the first pass is the one that is not exceeded
    EXPECT_EQ(held(rig, steady), std::pair(4, Exit::stall));  // a release starts anew
  }
  Rig ttft({.ttft_max_ticks = 7, .partial_max_ticks = 3});
  EXPECT_EQ(held(ttft, growing), std::pair(7, Exit::ttft));
  EXPECT_EQ(held(ttft, partial), std::pair(3, Exit::partial));
}

TEST(Delayer, IntervalProtectsExactlySoManyPasses) {
  Rig rig({.stall_ticks = 1, .decode_interval = 3});
  const Signals after = with([](Signals& s) { s.executed = 1; });
  EXPECT_TRUE(rig.d.protects(true));
  EXPECT_FALSE(rig.d.protects(false));
  EXPECT_EQ(rig(after), Exit::hold_decode_interval);
  EXPECT_EQ(rig(kSmall), Exit::hold_decode_interval);
  EXPECT_TRUE(rig.d.protects(false));
  EXPECT_EQ(rig(kSmall), Exit::hold_decode_interval);
  EXPECT_FALSE(rig.d.protects(false));
  EXPECT_EQ(rig(kSmall), Exit::hold);   // protection does not count towards the stall
  EXPECT_EQ(rig(kSmall), Exit::stall);
}

TEST(Delayer, AGroupWaitsUntilAllRanksCanPrefill) {
  const auto two = [](int64_t able, int64_t pending) { return Signals{.ranks = 2, .able = able, .pending = pending, .decoding = 5}; };
  {
    Rig rig({.stall_ticks = 3});
    EXPECT_EQ(rig(two(1, 1000)), Exit::hold);  // full, but the other rank would stand still
    EXPECT_EQ(rig(two(2, 1799)), Exit::hold);
    EXPECT_EQ(rig(two(2, 1800)), Exit::fill);
  }
  Rig idle({.stall_ticks = 3});
  EXPECT_EQ(held(idle, [&](int) { return two(1, 500); }), std::pair(3, Exit::stall));
  int64_t asked = -1;
  const CostGate gate = [&](int64_t ticks) { return (asked = ticks) >= 2; };
  Rig cost({.stall_ticks = 100});
  EXPECT_EQ(cost.d.decide(two(1, 500), gate), Exit::hold);
  EXPECT_EQ(cost.d.decide(two(1, 500), gate), Exit::hold);
  EXPECT_EQ(cost.d.decide(two(1, 500), gate), Exit::cost);
  EXPECT_EQ(asked, 2);
  Rig off({.stall_ticks = 100, .cost_gate = false});
  EXPECT_EQ(off.d.decide(two(1, 500), [](int64_t) { return true; }), Exit::hold);
}

TEST(Delayer, SignalsOfRanksAddUp) {
  const Signals a{.executed = 1, .able = 1, .pending = 7, .held = 3, .decoding = 2}, b{.pending = 5, .decoding = 1, .partial = 1, .kv_high = 1, .kv_low = 1, .aged = 1};
  const Signals all[] = {a, b};
  const Signals s = combine(all);
  EXPECT_EQ(s.ranks, 2);
  EXPECT_EQ(s.executed, 1);
  EXPECT_EQ(s.able, 1);
  EXPECT_EQ(s.pending, 12);
  EXPECT_EQ(s.held, 3);
  EXPECT_EQ(s.decoding, 3);
  EXPECT_EQ(s.partial, 1);
  EXPECT_EQ(s.kv_high + s.kv_low + s.aged, 3);
}

TEST(Delayer, WhoHasOne) {
  EXPECT_FALSE(delayer_active({}, false));  // a single scheduler must ask for it
  EXPECT_TRUE(delayer_active({.decode_interval = 1}, false));
  EXPECT_TRUE(delayer_active({}, true));
  EXPECT_FALSE(delayer_active({.enabled = false, .decode_interval = 1}, false));
  EXPECT_FALSE(delayer_active({.enabled = false}, true));
}

TEST(Delayer, LinesSayWhatHappened) {
  Rig rig({.log_every = 3});
  EXPECT_FALSE(rig.d.summary_due());
  rig(kSmall);
  const Exit e = rig(kSmall);
  EXPECT_TRUE(rig.d.summary_due());
  EXPECT_NE(rig.d.debug_line(kSmall, e).find("HOLD hold pending=100 able=1/1 decoding=1"), std::string::npos) << rig.d.debug_line(kSmall, e);
  EXPECT_NE(rig.d.summary().find("3 verdicts: fill=0 stall=0"), std::string::npos) << rig.d.summary();
  EXPECT_NE(rig.d.summary().find("hold=2 hold_rate=0.667"), std::string::npos) << rig.d.summary();
  Rig never({.log_every = 0});
  EXPECT_FALSE(never.d.summary_due());
}

}  // namespace
}  // namespace isotope::sched
