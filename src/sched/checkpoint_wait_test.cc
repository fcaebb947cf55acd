// Requests that let others go first because a running one is about to store a state of their prefix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <string>

#include "sched/scheduler.h"

namespace isotope::sched {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Seq : Entry {
  std::string name;
  int64_t known = 0, hit = 0, promised = 0;
};

/// A queue before which nothing runs that counts: admitted requests are gone at once.
class Queue : Owner {
 public:
  explicit Queue(int64_t wait_passes) : s({.limits = {.token_budget = 32, .max_seqs = 64, .block_size = 4}, .wait_passes = wait_passes}, *this) {}
  Seq& add(std::string name, int64_t prompt, int64_t promised = 0) {
    Seq& q = all_.emplace_back();
    q.name = std::move(name);
    q.known = q.prompt_size = prompt;
    q.promised = promised;
    s.add(q);
    return q;
  }
  std::vector<std::string> pass() {
    std::vector<std::string> names;
    const StepPlan plan = s.plan(Pass{.available = {1000}, .total = {1000}});
    std::vector<Seq*> admitted;
    for (const int32_t ref : plan.admit) admitted.push_back(static_cast<Seq*>(&s.at(ref)));
    for (Seq* q : admitted) {
      names.push_back(q->name);
      s.admit(*q);
      s.remove(*q, q->known, true);
    }
    return names;
  }
  Scheduler s;

 private:
  SeqState running_state(const Entry&) const override { return {}; }
  kv::Counts held(const Entry&) const override { return {}; }
  SeqState waiting_state(Entry& e) override {
    const Seq& q = static_cast<const Seq&>(e);
    return {.computed = q.hit, .known = q.known, .blocks = q.hit / 4, .promised = q.promised};
  }
  std::list<Seq> all_;
};

TEST(CheckpointWait, OthersGoFirstUntilTheStateIsThere) {
  Queue d(10);
  Seq& w = d.add("waits", 50, 40);
  d.add("a", 8), d.add("b", 8);
  EXPECT_THAT(d.pass(), ElementsAre("a", "b"));
  EXPECT_THAT(d.pass(), IsEmpty());
  w.hit = 40, w.promised = 0;
  EXPECT_THAT(d.pass(), ElementsAre("waits"));
  EXPECT_EQ(w.waits, 2);
  EXPECT_EQ(d.s.waits().started, 1);
  EXPECT_EQ(d.s.waits().satisfied, 1);
  EXPECT_EQ(d.s.waits().tokens, 40);
}

TEST(CheckpointWait, LessThanAStepIsNotWorthIt) {
  Queue d(10);
  d.add("little", 50, 31);
  Seq& most = d.add("has most of it", 50, 48);
  most.hit = 20;
  EXPECT_THAT(d.pass(), ElementsAre("little"));
  EXPECT_THAT(d.pass(), ElementsAre("has most of it"));
  EXPECT_EQ(d.s.waits().started, 0);
}

TEST(CheckpointWait, EndsWithTheOtherRequest) {
  Queue d(10);
  Seq& w = d.add("waits", 50, 40);
  EXPECT_THAT(d.pass(), IsEmpty());
  w.promised = 0;  // aborted, or preempted
  EXPECT_THAT(d.pass(), ElementsAre("waits"));
  EXPECT_EQ(d.s.waits().ended, 1);
  EXPECT_EQ(d.s.waits().satisfied + d.s.waits().expired, 0);
}

TEST(CheckpointWait, LastsNoLongerThanItsLimitCountedFromTheFirstPass) {
  Queue d(3);
  Seq& w = d.add("waits", 50, 40);
  EXPECT_THAT(d.pass(), IsEmpty());
  w.hit = 20, w.promised = 60;  // a state came, another one promises more: the limit goes on counting
  EXPECT_THAT(d.pass(), IsEmpty());
  EXPECT_THAT(d.pass(), IsEmpty());
  EXPECT_THAT(d.pass(), ElementsAre("waits"));
  EXPECT_EQ(d.s.waits().expired, 1);
}

TEST(CheckpointWait, APassLooksAtSixteenRequestsBehindIt) {
  Queue d(100);
  d.add("waits", 50, 40);
  for (int i = 0; i < 20; ++i) d.add("w" + std::to_string(i), 50, 40);
  d.add("behind", 4);
  EXPECT_THAT(d.pass(), IsEmpty());
  EXPECT_EQ(d.s.waits().started, 17);
}

TEST(CheckpointWait, Off) {
  Queue d(0);
  d.add("waits", 20, 900);
  EXPECT_THAT(d.pass(), ElementsAre("waits"));
}

}  // namespace
}  // namespace isotope::sched
