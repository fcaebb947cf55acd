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
  StartRate r;
  EXPECT_EQ(r.per_s(0), 0);
  for (int64_t i = 1; i <= 3000; ++i) r.start(i * 100'000'000);  // ten a second for five minutes
  EXPECT_NEAR(r.per_s(300'000'000'000), 10, 0.2);
  EXPECT_LT(r.per_s(600'000'000'000), 0.01);
}

}  // namespace
}  // namespace isotope::sched
