#include "sched/fair_share.h"

#include <gtest/gtest.h>

#include "sched/retry.h"

namespace isotope::sched {
namespace {

TEST(FairShare, OffIsFirstComeFirstServed) {
  FairShare f(false);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(f.arrive(0, "a", 100), 0);
  f.finished(0, "a", 100, 50);
  EXPECT_EQ(f.keys(), 0u);
}

TEST(FairShare, ALateKeyDoesNotWaitBehindALongQueue) {
  FairShare f(true);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(f.arrive(0, "greedy", 10), i * 10);
  f.admitted(0, 0);
  f.admitted(0, 10);
  EXPECT_EQ(f.arrive(0, "modest", 10), 10);  // level with what runs now, not at 1000
  EXPECT_EQ(f.arrive(0, "modest", 10), 20);
  EXPECT_EQ(f.arrive(1, "greedy", 10), 0);   // another priority is another line
}

TEST(FairShare, CheapRequestsGoMoreOften) {
  FairShare f(true);
  EXPECT_EQ(f.arrive(0, "a", 1000), 0);
  EXPECT_EQ(f.arrive(0, "a", 1000), 1000);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(f.arrive(0, "b", 100), i * 100);  // ten of b's before a's second
}

TEST(FairShare, OnePaysForWhatWasUsed) {
  FairShare f(true);
  f.arrive(0, "a", 1000);
  f.arrive(0, "other", 1);
  f.finished(0, "a", 1000, 30);
  EXPECT_EQ(f.arrive(0, "a", 5), 30);
  f.finished(0, "a", 5, 100);  // more than expected
  EXPECT_EQ(f.arrive(0, "a", 5), 130);
}

TEST(FairShare, ExpectedOutputFollowsWhatRequestsDo) {
  FairShare f(true);
  EXPECT_EQ(f.expected_cost(100, 10), 110);
  const int64_t before = f.expected_cost(100, 100'000);
  for (int i = 0; i < 200; ++i) f.observe_output(20);
  EXPECT_LT(f.expected_cost(100, 100'000), before);
  EXPECT_NEAR(double(f.expected_cost(100, 100'000)), 120, 2);
}

TEST(FairShare, ForgetsIdleKeys) {
  FairShare f(true);
  f.arrive(0, "stays", 1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = std::to_string(i);
    f.arrive(0, key, 10);
    f.finished(0, key, 10, 10);
  }
  EXPECT_LE(f.keys(), 1025u);
  f.finished(0, "stays", 1, 1);
  EXPECT_EQ(f.keys(), 0u);  // a priority without requests is dropped
}

TEST(Retry, HintIsTheTimeTheQueueTakes) {
  EXPECT_EQ(retry_after_s(0, 3), 1);
  EXPECT_EQ(retry_after_s(100, 0), 5);
  EXPECT_EQ(retry_after_s(100, 10), 10);
  EXPECT_EQ(retry_after_s(1'000'000, 10), 60);
  EXPECT_EQ(retry_after_s(1, 1000), 1);
}

TEST(Retry, OnlyTimeWithAQueueCounts) {
  constexpr int64_t kTenth = 100'000'000;
  StartRate r;
  EXPECT_EQ(r.per_s(), 0);
  for (int64_t i = 1; i <= 100; ++i) r.pass(i * kTenth, 1, false);
  EXPECT_EQ(r.per_s(), 0) << "nobody waited: that ten started in a second is how many came";
  r.pass(101 * kTenth, 1, true);
  for (int64_t i = 102; i <= 104; ++i) r.pass(i * kTenth, 1, true);
  EXPECT_NEAR(r.per_s(), 10, 0.1) << "a second after the first queue, not half a minute later";
  r.pass(105 * kTenth, 1, false);
  r.pass(90'000 * kTenth, 4, true);  // hours later another burst: four start at once, the others wait
  EXPECT_NEAR(r.per_s(), 10, 0.1);
  for (int64_t i = 1; i <= 60; ++i) r.pass((90'000 + 10 * i) * kTenth, 1, true);  // now one a second
  EXPECT_NEAR(r.per_s(), 1, 0.2);
  for (int64_t i = 1; i <= 60; ++i) r.pass((90'600 + 10 * i) * kTenth, 0, true);  // and now nobody
  EXPECT_EQ(retry_after_s(10, r.per_s()), 60);
}

}  // namespace
}  // namespace isotope::sched
