// Stored states of recurrent layers on the model made of arithmetic: within a step, waited for, checked; and hits whose windows are computed once more.
#include <gtest/gtest.h>

#include <sstream>

#include "fixture.h"

namespace isotope::engine::test {
namespace {

const std::vector<kv::GroupConfig> kHybrid = {{256, 0}, {12, kv::kStateGroup}};

/// The value of the line of that name with that label; -1 if there is none.
double metric(Engine& e, const std::string& name, const std::string& label = "") {
  std::istringstream text(e.metrics());
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("isotope:" + name) && line.find(label) != std::string::npos) return std::stod(line.substr(line.rfind(' ') + 1));
  return -1;
}

SamplingParams sampling(int64_t tokens, uint64_t seed = 1) { return {.temperature = 0.8f, .seed = seed, .max_tokens = tokens, .ignore_eos = true, .logprobs = 1}; }

Layout hybrid(kv::CheckpointOptions checkpoints, int64_t budget = 64) {
  Layout s{.groups = kHybrid, .checkpoints = checkpoints};
  s.options.max_num_batched_tokens = budget;
  s.options.max_num_seqs = 6;
  return s;
}

TEST(MidstepStates, OneStepStoresWhatSeveralStepsWould) {
  const auto prompt = prompt_of(61);
  int64_t steps[2] = {};
  for (const bool midstep : {false, true}) {
    SCOPED_TRACE(midstep);
    Rig rig(hybrid({.interval = 16, .midstep = midstep}));
    expect_same(run_one(*rig, request(1, prompt, sampling(5))), expected(prompt, sampling(5), kHybrid), "first");
    steps[midstep] = rig->stats(1)->chunks;
    EXPECT_EQ(metric(*rig, "midstep_checkpoints_total"), midstep ? 4 : 0);
    EXPECT_EQ(metric(*rig, "state_checkpoints_total", "kept"), 4);
    EXPECT_EQ(metric(*rig, "state_checkpoint_cuts_total"), midstep ? 0 : 4);
    for (const int64_t cut : {60, 58, 47, 31, 16}) {  // another text from there on
      auto other = prompt;
      other[size_t(cut)] = (other[size_t(cut)] + 1) % int32_t(kVocab - 1);
      const uint64_t id = uint64_t(cut);
      expect_same(run_one(*rig, request(id, other, sampling(5))), expected(other, sampling(5), kHybrid), "cut at " + std::to_string(cut));
      const int64_t places[] = {60, 48, 32, 16, 0};
      EXPECT_EQ(rig->stats(id)->cached_tokens, *std::find_if(places, places + 5, [&](int64_t p) { return p <= cut; })) << cut;
    }
  }
  EXPECT_EQ(steps[0], 5);
  EXPECT_EQ(steps[1], 1);
}

TEST(MidstepStates, TogetherPreemptedAndCancelled) {
  for (const bool midstep : {false, true}) {
    SCOPED_TRACE(midstep);
    Layout s = hybrid({.interval = 8, .midstep = midstep, .check = true}, 48);
    s.options.preempt_every = 3;
    Rig rig(s);
    std::vector<Request> all;
    std::vector<Answer> want;
    for (uint64_t id = 1; id <= 24; ++id) {
      auto prompt = prompt_of(20 + int64_t(id * 7 % 60), uint32_t(id % 3));
      want.push_back(expected(prompt, sampling(8, id), kHybrid));
      all.push_back(request(id, std::move(prompt), sampling(8, id)));
    }
    Collector c;
    for (Request& r : all) {
      const uint64_t id = r.id;
      r.sink = c.sink(id);
      ASSERT_TRUE(rig->submit(std::move(r)));
      if (id % 5 == 0) rig->finish(id, FinishReason::abort);
    }
    ASSERT_TRUE(c.wait_ended(24));
    for (uint64_t id = 1; id <= 24; ++id)
      if (id % 5) expect_same(c.answer(id), want[id - 1], "request " + std::to_string(id));
    EXPECT_EQ(rig.runner->captured > 0, midstep);
  }
}

TEST(MidstepStates, AFailedStepGivesItsSlotsBack) {
  Rig rig(hybrid({.interval = 8, .midstep = true}));
  rig.runner->fail_at_seqs = 1;
  const auto prompt = prompt_of(60);
  EXPECT_EQ(run_one(*rig, request(1, prompt, sampling(4))).finish, FinishReason::error);
  expect_same(run_one(*rig, request(2, prompt, sampling(4))), expected(prompt, sampling(4), kHybrid), "after it");
  EXPECT_EQ(rig->stats(2)->cached_tokens, 0);
}

/// Fault injection: something takes slots and does not give them back.
TEST(StateCheck, NamesWhoHoldsTooMuch) {
  for (const bool check : {true, false}) {
    SCOPED_TRACE(check);
    Layout s = hybrid({.interval = -1, .check = check});
    s.planned = [](uint64_t request, kv::Manager& m, kv::SeqBlocks& blocks) {
      if (request != 7) return;
      for (const int64_t at : {8, 4}) EXPECT_TRUE(m.reserve_image(blocks, at));  // the step ends at 8: none of them is of this step
      for (kv::StateImage& i : blocks.images) i.position = 0;
    };
    Rig rig(s);
    run_one(*rig, request(6, prompt_of(9, 1), sampling(2)));
    const Answer a = run_one(*rig, request(7, prompt_of(9, 2), sampling(2)));
    if (check) {
      ASSERT_TRUE(a.error);
      for (const char* part : {"request 7 ", " 3 blocks", "KV group 1", "ATOM_STATE_CHECKPOINT_CHECK_BLOCKS"}) EXPECT_NE(a.error->message().find(part), std::string::npos) << a.error->message();
      EXPECT_GE(metric(*rig, "state_blocks_per_request"), 0);
    }
    s.planned = {};
    EXPECT_EQ(run_one(*rig, request(8, prompt_of(9, 3), sampling(2))).finish, FinishReason::length);
  }
}

/// Submits the second request while the first one's prompt is being computed.
struct Pair {
  Pair(Layout s, std::vector<int32_t> first, std::vector<int32_t> second, std::function<void(Engine&)> then = {}) : rig(std::move(s)) {
    rig.runner->before_step = [&, then](const ops::Batch& b) {
      if (b.positions[0] == 0 || submitted) return;
      submitted = true;
      Request r = request(2, second, sampling(4, 2));
      r.sink = c.sink(2);
      EXPECT_TRUE(rig->submit(std::move(r)));
      if (then) then(*rig);
    };
    Request r = request(1, first, sampling(4));
    r.sink = c.sink(1);
    EXPECT_TRUE(rig->submit(std::move(r)));
    EXPECT_TRUE(c.wait_ended(2));
    expect_same(c.answer(2), expected(second, sampling(4, 2), kHybrid), "second");
    if (c.answer(1).finish != FinishReason::abort) expect_same(c.answer(1), expected(first, sampling(4), kHybrid), "first");
  }
  bool submitted = false;
  Collector c;
  Rig rig;
};

TEST(StateWait, APrefixThatIsBeingComputedIsWaitedFor) {
  const auto first = prompt_of(121);
  auto second = first;
  second.insert(second.end(), {1, 2, 3, 4, 5});
  Pair p(hybrid({.interval = -1}, 16), first, second);
  EXPECT_EQ(p.rig->stats(2)->cached_tokens, 120);
  EXPECT_GT(p.rig->stats(2)->checkpoint_waits, 3);
  EXPECT_EQ(metric(*p.rig, "checkpoint_waits_total", "satisfied"), 1);
  EXPECT_EQ(metric(*p.rig, "checkpoint_wait_saved_tokens_total"), 120);
}

TEST(StateWait, NotForAStateBehindWhatIsShared) {
  const auto first = prompt_of(121);
  auto second = first;
  second[100] = (second[100] + 1) % int32_t(kVocab - 1);
  for (const int64_t interval : {-1, 32}) {
    Pair p(hybrid({.interval = interval}, 16), first, second);
    EXPECT_EQ(p.rig->stats(2)->cached_tokens, interval > 0 ? 96 : 0);
    EXPECT_EQ(p.rig->stats(2)->checkpoint_waits > 0, interval > 0);
  }
}

TEST(StateWait, EndsWhenTheOtherIsCancelled) {
  const auto first = prompt_of(121);
  auto second = first;
  second.push_back(3);
  Pair p(hybrid({.interval = -1}, 16), first, second, [](Engine& e) { e.finish(1, FinishReason::abort); });
  EXPECT_EQ(p.c.answer(1).finish, FinishReason::abort);
  EXPECT_EQ(p.rig->stats(2)->cached_tokens, 0);
}

TEST(StateWait, EndsAtItsLimit) {
  Layout s = hybrid({.interval = -1}, 16);
  s.delayer.ttft_max_ticks = 2;
  const auto first = prompt_of(201);
  Pair p(s, first, first);
  EXPECT_EQ(p.rig->stats(2)->cached_tokens, 0);
  EXPECT_EQ(metric(*p.rig, "checkpoint_waits_total", "expired"), 1);
}

TEST(StateWait, NotWithoutStoredStates) {
  const auto first = prompt_of(121);
  Pair p(hybrid({.interval = 0}, 16), first, first);
  EXPECT_EQ(p.rig->stats(2)->checkpoint_waits, 0);
}

/// A window's blocks go before those of full attention; the hit is what full attention has, all the same.
TEST(WindowReplay, TheWholeHitIsUsedAndNothingOfItWritten) {
  const std::vector<kv::GroupConfig> groups = {{256, 0}, {24, 10}, {40, 24}};
  for (const int64_t again : {0, 40}) {
    SCOPED_TRACE(again);
    Layout s{.groups = groups, .kv_options = {.replay_tokens = again}};
    s.options.max_num_batched_tokens = 16;
    s.options.max_num_seqs = 2;
    Rig rig(s);
    const auto first = prompt_of(150, 1);
    run_one(*rig, request(1, first, sampling(2)));
    for (uint64_t id = 2; id <= 4; ++id) run_one(*rig, request(id, prompt_of(150, uint32_t(id)), sampling(2)));
    auto longer = first;
    longer.insert(longer.end(), {5, 6, 7});
    expect_same(run_one(*rig, request(9, longer, sampling(6))), expected(longer, sampling(6), groups), "longer");
    EXPECT_EQ(rig->stats(9)->cached_tokens, again ? 148 - again : 0);
    EXPECT_EQ(rig->stats(9)->replayed_tokens, again);
    EXPECT_EQ(rig.runner->left_alone, again);
    EXPECT_EQ(metric(*rig, "state_replay_tokens_total"), again);
    expect_same(run_one(*rig, request(10, first, sampling(6))), expected(first, sampling(6), groups), "those blocks again");
  }
}

TEST(WindowReplay, TogetherAndPreempted) {
  const std::vector<kv::GroupConfig> groups = {{200, 0}, {24, 10}, {40, 24}};
  Layout s{.groups = groups, .kv_options = {.replay_tokens = 40}};
  s.options.max_num_batched_tokens = 24;
  s.options.max_num_seqs = 3;
  s.options.preempt_every = 4;
  Rig rig(s);
  for (int round = 0; round < 3; ++round) {
    std::vector<Request> all;
    for (uint64_t id = 0; id < 6; ++id) all.push_back(request(uint64_t(round) * 10 + id + 1, prompt_of(90 + int64_t(id) * 5 + round, uint32_t(id % 4)), sampling(6, id)));
    std::map<uint64_t, Answer> want;
    for (const Request& r : all) want[r.id] = expected(r.prompt, r.sampling, groups);
    for (const auto& [id, a] : run(*rig, std::move(all))) expect_same(a, want[id], "request " + std::to_string(id));
  }
}

}  // namespace
}  // namespace isotope::engine::test
