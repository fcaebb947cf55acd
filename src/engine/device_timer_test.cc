#include "engine/device_timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isotope::engine {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;

struct Timer : DeviceTimer {
  void pass(int64_t ms, std::vector<Chunk> chunks) {
    begin(now, std::move(chunks));
    end(now += ms * kMs);
  }
  void read() {
    poll({.forward = [&](double s) { forwards.push_back(s); }, .prefill = [&](double s) { prefills.push_back(s); }});
  }
  int64_t now = 1;
  std::vector<double> forwards, prefills;
};

TEST(DeviceTimer, SumsTheChunksOfAPrompt) {
  Timer t;
  t.pass(10, {{7, 1, false}});
  t.pass(20, {{7, 2, false}, {8, 1, true}});
  t.read();
  EXPECT_THAT(t.prefills, ElementsAre(DoubleNear(0.020, 1e-9))) << "a prompt in one chunk";
  t.pass(5, {});
  t.pass(30, {{7, 3, true}});
  t.read();
  EXPECT_THAT(t.forwards, ElementsAre(DoubleNear(0.01, 1e-9), DoubleNear(0.02, 1e-9), DoubleNear(0.005, 1e-9), DoubleNear(0.03, 1e-9)));
  EXPECT_THAT(t.prefills, ElementsAre(DoubleNear(0.02, 1e-9), DoubleNear(0.06, 1e-9)));
  EXPECT_EQ(t.tracked(), 0u);
}

TEST(DeviceTimer, PartialSumsAreNeverPublished) {
  Timer t;
  t.pass(10, {{1, 1, false}, {2, 2, true}, {3, 1, false}});  // 2: its first chunk was not seen
  t.pass(10, {{1, 3, true}});                                // 1: the second one is missing
  t.discard(3);                                              // preempted
  t.pass(10, {{3, 2, true}});
  t.read();
  EXPECT_THAT(t.prefills, IsEmpty());
  t.pass(10, {{3, 1, true}});
  t.read();
  EXPECT_THAT(t.prefills, ElementsAre(DoubleNear(0.01, 1e-9))) << "admitted again, from chunk 1 on";
}

TEST(DeviceTimer, StopsAtTheFirstPassThatHasNotEnded) {
  Timer t;
  t.pass(1, {});
  t.begin(t.now, {});
  t.read();
  EXPECT_EQ(t.forwards.size(), 1u);
  t.end(t.now + kMs);
  t.read();
  EXPECT_EQ(t.forwards.size(), 2u);
}

TEST(DeviceTimer, AFullQueueMeasuresNothingMoreAndDropsTheSums) {
  Timer t;
  t.pass(1, {{5, 1, false}});
  t.read();
  for (size_t i = 0; i < DeviceTimer::kPending; ++i) t.pass(1, {});
  EXPECT_EQ(t.pending(), DeviceTimer::kPending);
  t.pass(1, {{5, 2, true}});
  EXPECT_EQ(t.pending(), DeviceTimer::kPending);
  EXPECT_EQ(t.tracked(), 0u);
  t.read();
  EXPECT_EQ(t.forwards.size(), 1 + DeviceTimer::kPending);
  EXPECT_THAT(t.prefills, IsEmpty());
}

TEST(DeviceTimer, FailedAndSenselessPassesCountForNothing) {
  Timer t;
  t.begin(t.now, {{1, 1, true}});
  t.fail();
  t.begin(10 * kMs, {{2, 1, true}});
  t.end(5 * kMs);
  t.read();
  EXPECT_THAT(t.forwards, IsEmpty());
  EXPECT_THAT(t.prefills, IsEmpty());
  EXPECT_EQ(t.invalid(), 1);
}

TEST(DeviceTimer, RemembersSoManyRequestsAndNoMore) {
  Timer t;
  for (uint64_t id = 0; id < DeviceTimer::kTracked + 10; ++id) {
    t.pass(1, {{id, 1, false}});
    t.read();
  }
  EXPECT_EQ(t.tracked(), DeviceTimer::kTracked);
  t.pass(1, {{3, 2, true}, {DeviceTimer::kTracked, 2, true}});
  t.read();
  EXPECT_EQ(t.prefills.size(), 1u) << "the oldest are forgotten";
}

}  // namespace
}  // namespace isotope::engine
