#include "sched/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isotope::sched {

bool operator==(const StepPlan::Work& a, const StepPlan::Work& b) {
  return a.ref == b.ref && a.tokens == b.tokens;
}
void PrintTo(const StepPlan::Work& w, std::ostream* o) {
  *o << "{" << w.ref << ", " << w.tokens << "}";
}

namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Work = StepPlan::Work;

struct Case {
  std::vector<SeqState> running, waiting;
  int64_t available = 100;
  Limits limits{.token_budget = 32, .block_size = 4};
  bool force_preempt = false;
};

StepPlan plan(const Case& c) {
  Input in{.running = c.running, .waiting = c.waiting, .limits = c.limits, .force_preempt = c.force_preempt};
  for (int g = 0; g < c.limits.groups; ++g) in.available[size_t(g)] = c.available;
  StepPlan out;
  Planner p;
  p.plan(in, out);
  StepPlan again;
  p.plan(in, again);  // pure: same input, same plan
  EXPECT_EQ(out.preempt, again.preempt);
  EXPECT_EQ(out.admit, again.admit);
  EXPECT_TRUE(out.work == again.work);
  return out;
}

SeqState decode(int ref, int64_t computed, int64_t held = 0) {
  return {.ref = ref, .computed = computed, .known = computed + 1, .blocks = (computed + 3) / 4, .held = {held}};
}
SeqState prompt(int ref, int64_t computed, int64_t known) {
  return {.ref = ref, .computed = computed, .known = known, .blocks = (computed + 3) / 4};
}

TEST(Plan, NothingToDo) {
  const auto p = plan({});
  EXPECT_THAT(p.work, IsEmpty());
}

TEST(Plan, DecodesFirstThenPromptsThenWaiting) {
  const auto p = plan({.running = {prompt(1, 8, 20), decode(2, 7)}, .waiting = {prompt(3, 0, 100)}});
  EXPECT_THAT(p.work, ElementsAre(Work{2, 1}, Work{1, 12}, Work{3, 19}));
  EXPECT_THAT(p.admit, ElementsAre(3));
  EXPECT_THAT(p.preempt, IsEmpty());
}

TEST(Plan, LongPrefillThresholdCapsOneSequence) {
  const auto p = plan(
      {.waiting = {prompt(1, 0, 100), prompt(2, 0, 5)}, .limits = {.token_budget = 32, .long_prefill = 10, .block_size = 4}});
  EXPECT_THAT(p.work, ElementsAre(Work{1, 10}, Work{2, 5}));
}

TEST(Plan, PrefixHitShortensTheChunk) {
  auto w = prompt(1, 8, 20);
  w.held = {2};
  EXPECT_THAT(plan({.waiting = {w}, .available = 5}).work, ElementsAre(Work{1, 12}));
}

TEST(Plan, SlotsLimitAdmission) {
  const auto p = plan({.running = {decode(1, 3)},
                       .waiting = {prompt(2, 0, 3), prompt(3, 0, 3)},
                       .limits = {.token_budget = 32, .max_seqs = 2, .block_size = 4}});
  EXPECT_THAT(p.admit, ElementsAre(2));
}

TEST(Plan, HeadOfTheQueueIsNotOvertaken) {
  const auto p = plan({.running = {decode(1, 3)}, .waiting = {prompt(2, 0, 40), prompt(3, 0, 3)}, .available = 9});
  EXPECT_THAT(p.admit, IsEmpty());
}

TEST(Plan, AdmissionLeavesRoomForPromptsInProgress) {
  // 1 still needs 10 blocks, 2 of them now; the other 8 are not 2's to take.
  const auto room = [](int64_t available) {
    return plan({.running = {prompt(1, 0, 40)},
                 .waiting = {prompt(2, 0, 16)},
                 .available = available,
                 .limits = {.token_budget = 32, .long_prefill = 8, .block_size = 4}})
        .admit.size();
  };
  EXPECT_EQ(room(13), 0u);
  EXPECT_EQ(room(14), 1u);
}

TEST(Plan, AnIdleEngineAdmitsWhatFits) {
  const auto p = plan({.waiting = {prompt(1, 0, 100)}, .available = 5});
  EXPECT_THAT(p.work, ElementsAre(Work{1, 20}));
}

TEST(Plan, LackOfABlockPreemptsTheLeastDeserving) {
  const auto p =
      plan({.running = {decode(1, 8), decode(2, 8, 3), decode(3, 8, 3)}, .waiting = {prompt(4, 0, 2)}, .available = 0});
  EXPECT_THAT(p.preempt, ElementsAre(3));
  EXPECT_THAT(p.work, ElementsAre(Work{1, 1}, Work{2, 1}));
  EXPECT_THAT(p.admit, IsEmpty());  // a step that preempts admits nobody
}

TEST(Plan, PreemptsItselfWhenItIsTheLast) {
  const auto p = plan({.running = {decode(1, 7), decode(2, 8, 2)}, .available = 0});
  EXPECT_THAT(p.preempt, ElementsAre(2));
  EXPECT_THAT(p.work, ElementsAre(Work{1, 1}));
}

TEST(Plan, PromptTakesBackWhatALaterDecodeGot) {
  auto first = prompt(1, 8, 24);
  const auto p = plan({.running = {first, decode(2, 8, 2)}, .available = 1});
  // The decode took the only block; the prompt before it gets that block and the two of the decode: 12 tokens.
  EXPECT_THAT(p.preempt, ElementsAre(2));
  EXPECT_THAT(p.work, ElementsAre(Work{1, 12}));
}

TEST(Plan, LastPromptInLineWaitsWithItsBlocks) {
  const auto p = plan({.running = {decode(1, 7), prompt(2, 8, 24)}, .available = 0});
  EXPECT_THAT(p.preempt, IsEmpty());
  EXPECT_THAT(p.work, ElementsAre(Work{1, 1}));
}

TEST(Plan, ChunkShrinksToTheBlocksThereAre) {
  EXPECT_THAT(plan({.running = {prompt(1, 6, 40)}, .available = 2}).work, ElementsAre(Work{1, 10}));
}

TEST(Plan, WithoutChunkingAPromptIsComputedWhole) {
  const Limits whole{.token_budget = 32, .chunked = false, .block_size = 4};
  EXPECT_THAT(plan({.waiting = {prompt(1, 0, 20), prompt(2, 0, 20)}, .limits = whole}).work, ElementsAre(Work{1, 20}));
  EXPECT_THAT(plan({.running = {decode(9, 2)}, .waiting = {prompt(1, 0, 60)}, .limits = whole}).work,
              ElementsAre(Work{9, 1}, Work{1, 60}));
}

TEST(Plan, PromptLogitsAreCapped) {
  auto a = prompt(1, 0, 30), b = prompt(2, 0, 30);
  a.all_rows = b.all_rows = true;
  const Limits rows{.token_budget = 64, .max_logit_rows = 12, .block_size = 4};
  EXPECT_THAT(plan({.waiting = {a, b, prompt(3, 0, 5)}, .limits = rows}).work, ElementsAre(Work{1, 12}));
}

TEST(Plan, SlidingGroupNeedsItsWindowOnly) {
  // 400 tokens = 100 blocks of the full group; the sliding group has 20 blocks.
  Case c{.running = {decode(9, 3)},
         .waiting = {prompt(1, 0, 400)},
         .limits = {.token_budget = 33, .block_size = 4, .groups = 2, .window = {0, 16}}};
  Input in{.running = c.running, .waiting = c.waiting, .available = {101, 20}, .limits = c.limits};
  StepPlan out;
  Planner p;
  p.plan(in, out);
  EXPECT_THAT(out.admit, ElementsAre(1));
  in.available = {100, 13};  // window 4 + chunk 8 + 2
  p.plan(in, out);
  EXPECT_THAT(out.admit, IsEmpty());
}

TEST(Plan, ForcedPreemptionSparesTheFresh) {
  auto fresh = decode(2, 8, 2);
  fresh.fresh = true;
  EXPECT_THAT(plan({.running = {decode(1, 8, 2), fresh}, .force_preempt = true}).preempt, ElementsAre(1));
  EXPECT_THAT(plan({.running = {fresh, prompt(3, 0, 9)}, .force_preempt = true}).preempt, IsEmpty());
}

}  // namespace
}  // namespace isotope::sched
