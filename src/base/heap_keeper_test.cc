#include "base/heap_keeper.h"

#include <gtest/gtest.h>

#include <list>
#include <thread>

#include "base/log.h"

namespace isotope::base {
namespace {

HeapKeeper& keeper() { return HeapKeeper::process(); }

/// The keeper is one for the process: tests look at differences.
class Keeper : public testing::Test {
 protected:
  void SetUp() override {
    keeper().unfreeze();
    keeper().sweep(2);
    keeper().configure({}, false, "test");
    set_log_sink([this](LogLevel, std::string_view line) { log_ += std::string(line) + "\n"; });
    before_ = keeper().counts();
  }
  void TearDown() override {
    set_log_sink({});
    keeper().unfreeze();
    keeper().configure({}, false, "test");
  }
  int64_t collections(int g) const { return keeper().counts()[size_t(g)].collections - before_[size_t(g)].collections; }
  int64_t collected() const {
    int64_t n = 0;
    for (size_t g = 0; g < 3; ++g) n += keeper().counts()[g].collected - before_[g].collected;
    return n;
  }
  int64_t uncollectable() const {
    int64_t n = 0;
    for (size_t g = 0; g < 3; ++g) n += keeper().counts()[g].uncollectable - before_[g].uncollectable;
    return n;
  }
  static int64_t count(std::string_view type) {
    for (const auto& t : keeper().census().types)
      if (t.type == type) return t.count;
    return 0;
  }
  std::array<GcGeneration, 3> before_;
  std::string log_;
};

TEST_F(Keeper, CountsWhatLivesByTypeAndOwner) {
  std::list<Tracked> things;
  for (int i = 0; i < 5; ++i) things.emplace_back("thing", "test");
  EXPECT_EQ(count("thing"), 5);
  things.pop_front();
  things.erase(std::next(things.begin()));
  EXPECT_EQ(count("thing"), 3);
  things.clear();
  EXPECT_EQ(count("thing"), 0);
}

TEST_F(Keeper, SurvivorsGrowOlder) {
  const Tracked thing("thing", "test");
  const auto sizes = [] {
    const auto c = keeper().counts();
    return std::array{c[0].size, c[1].size, c[2].size};
  };
  const auto start = sizes();
  keeper().sweep(0);
  EXPECT_EQ(sizes()[1], start[1] + start[0]);
  keeper().sweep(1);
  EXPECT_EQ(sizes()[2], start[0] + start[1] + start[2]);
  keeper().sweep(2);
  EXPECT_EQ(sizes()[0] + sizes()[1], 0);
}

TEST_F(Keeper, WhatOutlivesItsPurposeIsReportedOnceAndOnlyAfterASecondLook) {
  Tracked leaked("stream", "test");
  const Tracked alive("stream", "test");
  leaked.retire();
  keeper().sweep(0);
  EXPECT_EQ(uncollectable(), 0) << "it may be on its way out";
  for (int i = 0; i < 3; ++i) keeper().sweep(2);
  EXPECT_EQ(uncollectable(), 1);
  EXPECT_NE(log_.find("a stream of test is still there"), std::string::npos) << log_;
}

TEST_F(Keeper, RetiredObjectsGiveMemoryBackOnce) {
  int calls = 0;
  Tracked kept("record", "test"), empty("record", "test");
  kept.retire([&] { return ++calls, true; });
  empty.retire([] { return false; });
  for (int i = 0; i < 4; ++i) keeper().sweep(2);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(collected(), 1);
  EXPECT_EQ(uncollectable(), 0) << "they stay on purpose";
}

TEST_F(Keeper, ThresholdsDecideWhatIsDue) {
  keeper().configure({.young = 5, .middle = 2, .full = 1}, false, "test");
  std::list<Tracked> things;
  for (int round = 1; round <= 24; ++round) {
    for (int i = 0; i < 6; ++i) things.emplace_back("thing", "test");
    keeper().run_due();
    keeper().run_due();  // nothing more is due
  }
  // Young, young, young, middle (3 young > 2); the second middle makes 2 > 1: then full.
  EXPECT_EQ(collections(0) + collections(1) + collections(2), 24);
  EXPECT_GT(collections(1), 0);
  EXPECT_GT(collections(2), 0);
  EXPECT_GT(collections(0), collections(1));
  keeper().configure({.young = 1000, .middle = 2, .full = 1}, false, "test");
  for (int i = 0; i < 500; ++i) things.emplace_back("thing", "test");
  keeper().run_due();
  EXPECT_EQ(collections(0) + collections(1) + collections(2), 24) << "a larger threshold spaces the sweeps out";
}

TEST_F(Keeper, FrozenObjectsAreNotSweptAndCanBeThawed) {
  Tracked old("old", "test");
  keeper().freeze();
  EXPECT_GE(keeper().census().frozen, 1);
  EXPECT_NE(log_.find("[gc] test: froze "), std::string::npos) << log_;
  old.retire([] { return true; });
  keeper().sweep(2);
  EXPECT_EQ(collected(), 0);
  const Tracked young("young", "test");
  EXPECT_EQ(keeper().counts()[0].size, 1) << "only what came later";
  keeper().unfreeze();
  EXPECT_EQ(keeper().census().frozen, 0);
  keeper().sweep(2);
  EXPECT_EQ(collected(), 1);
}

TEST_F(Keeper, TheFirstReclaimAfterTheFreezeIsWarnedOfOnce) {
  keeper().freeze();
  for (int i = 0; i < 3; ++i) {
    Tracked t("record", "test");
    t.retire([] { return true; });
    keeper().sweep(2);
  }
  const size_t at = log_.find("for the first time since the freeze");
  ASSERT_NE(at, std::string::npos) << log_;
  EXPECT_EQ(log_.find("for the first time since the freeze", at + 1), std::string::npos);
}

TEST_F(Keeper, DebugLogsEverySweep) {
  keeper().configure({}, true, "server");
  keeper().sweep(1);
  EXPECT_NE(log_.find("[gc] server: gen-1 took "), std::string::npos) << log_;
  EXPECT_NE(log_.find(" tracked"), std::string::npos);
}

TEST_F(Keeper, ManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 3000; ++i) {
        Tracked thing("busy", "test");
        if (i % 3 == 0) thing.retire([] { return true; });
        keeper().run_due();
      }
    });
  for (int i = 0; i < 50; ++i) keeper().census(), keeper().sweep(i % 3);
  for (auto& t : threads) t.join();
  EXPECT_EQ(count("busy"), 0);
}

}  // namespace
}  // namespace isotope::base
