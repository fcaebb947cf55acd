#include "sched/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>

#include "sched/pending.h"

namespace isotope::sched {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Seq : Entry {
  std::string name;
  int64_t known = 1, computed = 0, hit = 0;
};

/// A scheduler whose sequences are numbers: blocks of four tokens, as many as the pass says.
class Desk : Owner {
 public:
  explicit Desk(Limits l = {.token_budget = 32, .max_seqs = 4, .block_size = 4}, levers::PrefillDelayer d = {}, bool fair = true)
      : s({.limits = l, .delayer = d, .fair_share = fair}, *this) {}

  Seq& add(std::string name, int64_t prompt, auto... set) {
    Seq& q = all_.emplace_back();
    q.name = std::move(name);
    q.known = q.prompt_size = prompt;
    q.output_limit = 8;
    (set(q), ...);
    s.add(q);
    return q;
  }
  /// A pass and what it admits, by name; carries the plan out.
  std::vector<std::string> pass(int64_t available = 100, int64_t now_ns = 0) {
    const StepPlan plan = s.plan(Pass{.available = {available}, .total = {100}, .now_ns = now_ns});
    std::vector<std::string> names;
    std::vector<std::pair<Seq*, int64_t>> work;
    for (const auto& w : plan.work) work.emplace_back(&at(w.ref), w.tokens);
    for (const int32_t ref : plan.preempt) {
      at(ref).computed = 0;
      s.preempt(at(ref));
    }
    for (const int32_t ref : plan.admit) {
      names.push_back(at(ref).name);
      at(ref).computed = at(ref).hit;
      s.admit(at(ref));
    }
    bool prefill = false;
    for (auto& [q, n] : work) {
      prefill |= n > 1 || q->known == q->prompt_size;
      if ((q->computed += n) == q->known) ++q->known;
    }
    s.executed(prefill);
    return names;
  }
  Seq& at(int32_t ref) { return static_cast<Seq&>(s.at(ref)); }
  void end(Seq& q) { s.remove(q, q.known, true); }
  std::vector<std::string> queue() const {
    std::vector<std::string> names;
    for (const Entry* e : s.waiting()) names.push_back(static_cast<const Seq*>(e)->name);
    return names;
  }

 private:
  SeqState running_state(const Entry& e) const override {
    const Seq& q = static_cast<const Seq&>(e);
    return {.computed = q.computed, .known = q.known, .blocks = (q.computed + 3) / 4};
  }
  kv::Counts held(const Entry& e) const override { return {(static_cast<const Seq&>(e).computed + 3) / 4}; }
  SeqState waiting_state(Entry& e) override {
    const Seq& q = static_cast<const Seq&>(e);
    ++probes;
    return {.computed = q.hit, .known = q.known, .blocks = q.hit / 4};
  }
  std::list<Seq> all_;

 public:
  mutable int probes = 0;
  Scheduler s;
};

TEST(Scheduler, PriorityThenArrival) {
  Desk d;
  d.add("late", 4, [](Seq& q) { q.priority = 5; });
  d.add("first", 4);
  d.add("second", 4);
  d.add("urgent", 4, [](Seq& q) { q.priority = -1; });
  EXPECT_THAT(d.queue(), ElementsAre("urgent", "first", "second", "late"));
  EXPECT_THAT(d.pass(), ElementsAre("urgent", "first", "second", "late"));
}

TEST(Scheduler, KeysTakeTurns) {
  Desk fair, plain({.token_budget = 32, .max_seqs = 4, .block_size = 4}, {}, false);
  for (Desk* d : {&fair, &plain}) {
    for (const char* name : {"a1", "a2", "a3"}) d->add(name, 10, [](Seq& q) { q.share_key = "a"; });
    for (const char* name : {"b1", "b2"}) d->add(name, 10, [](Seq& q) { q.share_key = "b"; });
  }
  EXPECT_THAT(fair.queue(), ElementsAre("a1", "b1", "a2", "b2", "a3"));
  EXPECT_THAT(plain.queue(), ElementsAre("a1", "a2", "a3", "b1", "b2"));
}

TEST(Scheduler, APreemptedRequestKeepsItsPlace) {
  Desk d;
  d.add("a", 8), d.add("b", 8), d.add("c", 30);
  EXPECT_THAT(d.pass(4), ElementsAre("a", "b"));  // four blocks hold both prompts
  EXPECT_THAT(d.pass(0), IsEmpty());              // each wants a ninth token: b makes room for a
  EXPECT_THAT(d.queue(), ElementsAre("b", "c"));
  EXPECT_EQ(d.s.running().size(), 1u);
}

TEST(Scheduler, DeadlinesConcernThoseThatNeverStarted) {
  Desk d;
  Seq& runs = d.add("runs", 8, [](Seq& q) { q.start_by_ns = 50; });
  d.pass(4);
  Seq& waits = d.add("waits", 8, [](Seq& q) { q.start_by_ns = 60; });
  Seq& later = d.add("later", 8, [](Seq& q) { q.start_by_ns = 90; });
  EXPECT_EQ(d.s.overdue(55), nullptr);
  EXPECT_EQ(d.s.overdue(60), &waits);
  d.end(waits);
  EXPECT_EQ(d.s.overdue(89), nullptr);
  EXPECT_EQ(d.s.overdue(90), &later);
  d.end(later), d.end(runs);
  EXPECT_EQ(d.s.overdue(INT64_MAX), nullptr);
}

TEST(Scheduler, LooksAtTheHeadOfALongQueueOnly) {
  Desk d({.token_budget = 64, .max_seqs = 300, .block_size = 4});
  for (int i = 0; i < 10'000; ++i) d.add("x", 16);
  EXPECT_EQ(d.pass(1000).size(), 4u);
  EXPECT_LE(d.probes, 5);
  d.probes = 0;
  Desk full({.token_budget = 2048, .max_seqs = 2, .block_size = 4});
  for (int i = 0; i < 100; ++i) full.add("x", 16);
  full.pass(1000);
  full.probes = 0;
  full.pass(1000);
  EXPECT_EQ(full.probes, 0);  // no slot is free
}

TEST(Scheduler, DelayerProbesOneBudgetHoweverMuchIsCached) {
  Desk d({.token_budget = 64, .max_seqs = 1000, .block_size = 4}, {.decode_interval = 1});
  d.add("decodes", 4);
  d.pass();
  d.pass();  // protected
  for (int i = 0; i < 500; ++i) d.add("hit", 16, [](Seq& q) { q.hit = 12; });
  d.probes = 0;
  EXPECT_THAT(d.pass(), IsEmpty());
  EXPECT_EQ(d.s.last_exit(), Exit::hold);
  EXPECT_EQ(d.probes, 4);                          // 4 x 16 tokens of prompt are one budget
  EXPECT_EQ(d.s.last_signals().pending, 4 * 4);    // of which 4 x 4 are not cached
}

TEST(Scheduler, ProtectionNeitherProbesNorLooksAtAges) {
  Desk d({.token_budget = 64, .max_seqs = 10, .block_size = 4}, {.max_queue_ms = 0.0, .decode_interval = 2});
  d.add("decodes", 4);
  EXPECT_THAT(d.pass(), ElementsAre("decodes"));
  d.add("waits", 4);
  d.probes = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(d.pass(), IsEmpty());
    EXPECT_EQ(d.s.last_exit(), Exit::hold_decode_interval);
  }
  EXPECT_EQ(d.probes, 0);
  EXPECT_THAT(d.pass(), ElementsAre("waits"));
  EXPECT_EQ(d.s.last_exit(), Exit::queue_ms);
}

TEST(Scheduler, HoldsAlsoTheRestOfAPrompt) {
  Desk d({.token_budget = 8, .max_seqs = 10, .block_size = 4}, {.partial_max_ticks = 2, .decode_interval = 1});
  d.add("decodes", 3);
  d.pass();
  d.pass();
  Seq& longer = d.add("long", 20);
  while (longer.queued) d.pass();
  const int64_t some = longer.computed;
  EXPECT_EQ(some, 7);
  d.pass();
  EXPECT_EQ(longer.computed, some) << "protected";
  EXPECT_EQ(d.s.last_exit(), Exit::hold_decode_interval);
  d.pass();
  EXPECT_EQ(d.s.last_exit(), Exit::fill);  // 13 tokens are more than 0.9 x 8
  EXPECT_EQ(longer.computed, 14);
  EXPECT_GT(d.s.holds(), 0);
}

TEST(Scheduler, KvMarksLetThrough) {
  const Limits l{.token_budget = 64, .max_seqs = 10, .block_size = 4};
  for (const auto& [available, set, want] : {std::tuple{int64_t{9}, levers::PrefillDelayer{.decode_interval = 1}, Exit::kv},
                                             {int64_t{50}, levers::PrefillDelayer{.decode_interval = 1}, Exit::hold},
                                             {int64_t{95}, levers::PrefillDelayer{.kv_low = 0.1, .decode_interval = 1}, Exit::kv},
                                             {int64_t{80}, levers::PrefillDelayer{.kv_low = 0.1, .decode_interval = 1}, Exit::hold}}) {
    Desk d(l, set);
    d.add("decodes", 4);
    d.pass();
    d.pass();
    d.add("waits", 4);
    d.pass(available);
    EXPECT_EQ(d.s.last_exit(), want) << available;
  }
}

TEST(Pending, CountsWhatAdmissionWouldTake) {
  const Limits l{.token_budget = 100, .max_seqs = 4, .long_prefill = 30, .block_size = 4};
  const auto prompt = [](int64_t computed, int64_t known) { return SeqState{.computed = computed, .known = known, .blocks = (computed + 3) / 4}; };
  const SeqState decode = prompt(7, 8);
  struct Case {
    std::vector<SeqState> running, waiting;
    int64_t blocks;
    PendingPrefill want;
  };
  const Case cases[] = {
      {{}, {}, 100, {false, false, 0, 0}},
      {{decode}, {}, 100, {false, false, 0, 0}},
      {{decode, prompt(8, 20)}, {}, 100, {true, true, 1, 12}},
      {{decode}, {prompt(0, 10), prompt(8, 11)}, 100, {true, false, 2, 13}},        // the hit is not counted
      {{decode}, {prompt(0, 200)}, 100, {true, false, 1, 30}},                      // long_prefill
      {{decode}, {prompt(0, 20), prompt(0, 20)}, 5, {true, false, 1, 20}},          // blocks for the first only
      {{decode}, {prompt(0, 21)}, 5, {false, false, 0, 0}},
      {{}, {prompt(0, 21)}, 5, {true, false, 1, 21}},                               // nothing runs: it starts anyway
      {{decode, decode, decode}, {prompt(0, 10), prompt(0, 10)}, 100, {true, false, 1, 10}},  // slots
      {{}, {prompt(0, 30), prompt(0, 30), prompt(0, 30), prompt(0, 30)}, 100, {true, false, 4, 100}},  // one budget at most
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    const PendingPrefill p = pending_prefill(cases[i].running, cases[i].waiting, l, {cases[i].blocks});
    EXPECT_EQ(p.able, cases[i].want.able) << i;
    EXPECT_EQ(p.partial, cases[i].want.partial) << i;
    EXPECT_EQ(p.requests, cases[i].want.requests) << i;
    EXPECT_EQ(p.tokens, cases[i].want.tokens) << i;
  }
  EXPECT_DOUBLE_EQ(kv_usage({25, 90}, {100, 100}, 2), 0.75);
  EXPECT_DOUBLE_EQ(kv_usage({25, 90}, {0, 0}, 2), 0);
}

}  // namespace
}  // namespace isotope::sched
