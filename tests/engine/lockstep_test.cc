// Engines that step together: nobody runs ahead, one verdict on prefill for all, costs evened out, and never another token for it.
#include <gtest/gtest.h>

#include <thread>

#include "ranks_rig.h"

namespace isotope::engine::test {
namespace {

using levers::PrefillDelayer;

const EngineOptions kOptions{.max_num_seqs = 4, .max_num_batched_tokens = 64};

Request plain(uint64_t id, int rank, int64_t prompt, int64_t output) {
  Request r = request(id, prompt_of(prompt, uint32_t(id)), {.temperature = 0, .max_tokens = output, .ignore_eos = true});
  r.rank = rank;
  return r;
}

double verdicts(Ranks& ranks, const std::string& outcome) {
  return ranks.metric("isotope:prefill_delayer_decisions_total{model_name=\"fake\",engine=\"0\",outcome=\"" + outcome + "\"}");
}

double gave_back(Ranks& ranks) {
  return ranks.metric("isotope:dp_prefill_gave_back_tokens_total");  // of all ranks
}

TEST(Lockstep, TheSameTokensWhateverTheGroupDecides) {
  Ranks alone({.ranks = 1});
  const auto want = run(*alone.engine, mixed(40));
  const PrefillDelayer delayers[] = {{}, {.enabled = false}, {.ttft_max_ticks = 2, .decode_interval = 3}, {.target_fill = 1, .stall_ticks = 4}};
  const sched::BalanceOptions balances[] = {{}, {.token_weight = 1, .slack = 0, .min_tokens = 1}, {.slack = 0, .min_tokens = 8}};
  for (const int n : {2, 5})
    for (const auto& d : delayers)
      for (const auto& b : balances)
        for (const int every : {0, 7}) {
          EngineOptions o = kOptions;
          o.preempt_every = every;
          Ranks ranks({.ranks = n}, o, d, b, true);
          const auto got = run(*ranks.engine, mixed(40));
          for (const auto& [id, a] : want) expect_same(got.at(id), a, std::to_string(n) + " ranks, request " + std::to_string(id));
          if (HasFailure()) return;
        }
}

std::vector<Request> one_each() {
  std::vector<Request> v;
  for (int r = 0; r < 2; ++r) v.push_back(plain(uint64_t(r), r, 9, 30));
  return v;
}

TEST(Lockstep, NobodyRunsAhead) {
  Ranks ranks({.ranks = 2}, kOptions, {}, {}, true);
  ranks.runners[1]->step_time = std::chrono::milliseconds(1);
  int64_t ahead = 0, first = -1;  // rank 0 may have begun before rank 1 got its request
  ranks.runners[0]->before_step = [&](const ops::Batch&) {
    const int64_t difference = ranks.runners[0]->steps - ranks.runners[1]->steps;
    if (ranks.runners[1]->steps == 0) return;
    if (first < 0) first = difference;
    ahead = std::max(ahead, difference - first);
  };
  Collector c;
  for (Request& r : one_each()) {
    r.sink = c.sink(r.id);
    ASSERT_TRUE(ranks->submit(std::move(r)));
  }
  ASSERT_TRUE(c.wait_ended(2));
  EXPECT_LE(ahead, 2);
}

TEST(Lockstep, FreeRanksDoNotWaitForEachOther) {
  Ranks ranks({.ranks = 2});
  Collector c;
  bool overtaken = true;
  ranks.runners[1]->before_step = [&](const ops::Batch&) { overtaken &= c.wait_tokens(0, 30); };  // a step of rank 1 takes as long as rank 0's whole answer
  for (Request& r : one_each()) {
    r.sink = c.sink(r.id);
    ASSERT_TRUE(ranks->submit(std::move(r)));
  }
  ASSERT_TRUE(c.wait_ended(2));
  EXPECT_TRUE(overtaken);
}

/// One rank decodes, the other has only a prompt: whether it may run is the group's to say, and a rank that is held is not stuck.
TEST(Lockstep, OneVerdictForAll) {
  for (const bool enabled : {true, false}) {
    Ranks ranks({.ranks = 2}, kOptions, {.enabled = enabled, .stall_ticks = 12, .cost_gate = false}, {}, true);
    Collector c;
    Request decodes = plain(0, 0, 5, 120), waits = plain(1, 1, 20, 3);
    decodes.sink = c.sink(0);
    waits.sink = c.sink(1);
    std::atomic<bool> sent{false};
    ranks.runners[0]->before_step = [&](const ops::Batch&) {
      if (ranks.runners[0]->steps == 5 && !sent.exchange(true)) EXPECT_TRUE(ranks->submit(std::move(waits)));
    };
    ASSERT_TRUE(ranks->submit(std::move(decodes)));
    ASSERT_TRUE(c.wait_ended(2));
    EXPECT_EQ(c.answer(1).finish, FinishReason::length);
    EXPECT_EQ(verdicts(ranks, "hold") >= 12, enabled);
    EXPECT_EQ(verdicts(ranks, "stall") > 0, enabled);
    EXPECT_EQ(ranks->stats(1)->delayer_holds >= 12, enabled);
  }
}

/// Rank 0 gets three prompts at once, rank 1 a short one. How much of a step rank 0 gives back is what the three settings say.
TEST(Lockstep, CostsAreEvenedOut) {
  struct Result {
    double gave_back;
    bool told;
  };
  const auto go = [](const sched::BalanceOptions& b) {
    Ranks ranks({.ranks = 2}, kOptions, {}, b, true);
    std::map<uint64_t, Answer> want;
    Collector c;
    {
      const Gate gate(*ranks.engine);  // rank 0 waits, and with it rank 1
      for (uint64_t id = 0; id < 4; ++id) {
        Request r = plain(id, id == 3, id == 3 ? 16 : 40, 4);
        want[id] = expected(r.prompt, r.sampling, std::vector<kv::GroupConfig>{{64, 0}, {64, 20}});
        r.sink = c.sink(id);
        EXPECT_TRUE(ranks->submit(std::move(r)));
      }
    }
    EXPECT_TRUE(c.wait_ended(4));
    bool told = false;
    for (uint64_t id = 0; id < 4; ++id) {
      expect_same(c.answer(id), want[id], "request " + std::to_string(id));
      for (const RequestRecord& r : ranks->records(std::to_string(id), 1))
        for (const Decision& d : r.decisions) told |= d.reason.starts_with("shortened");
    }
    EXPECT_GT(ranks.metric("isotope:dp_prefill_cost_imbalance_count{model_name=\"fake\",engine=\"0\"}"), 0);
    return Result{gave_back(ranks), told};
  };
  const Result strict = go({.slack = 0, .min_tokens = 4});
  EXPECT_GT(strict.gave_back, 0);
  EXPECT_TRUE(strict.told) << "isotope explain says why the chunk was short";
  EXPECT_EQ(go({.slack = 100, .min_tokens = 4}).gave_back, 0) << "as much above the mean as one likes";
  EXPECT_EQ(go({.slack = 0, .min_tokens = 4096}).gave_back, 0) << "no rank is shrunk below this";
  EXPECT_NE(go({.token_weight = 1, .slack = 0, .min_tokens = 4}).gave_back, strict.gave_back) << "long chunks cost more where only attention counts";
}

TEST(Lockstep, AGroupWithoutWorkSleeps) {
  Ranks ranks({.ranks = 3}, kOptions, {}, {}, true);
  run(*ranks.engine, mixed(12));
  const auto steps = [&] { return ranks->stats().steps; };
  for (int i = 0; i < 100; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const int64_t before = steps();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(steps(), before);
  EXPECT_TRUE(run_one(*ranks.engine, plain(99, 2, 7, 5)).finals) << "and wakes up again";
  EXPECT_EQ(ranks->stats().running, 0);
}

TEST(Lockstep, AFailedStepOfOneRankLeavesTheOthersAlone) {
  for (const bool throws : {false, true}) {
    Ranks ranks({.ranks = 3}, kOptions, {}, {}, true);
    ranks.runners[1]->throws = throws;
    ranks.runners[1]->fail_at_seqs = 1;
    Collector c;
    for (uint64_t id = 0; id < 3; ++id) {
      Request r = plain(id, int(id), 9, 30);
      r.sink = c.sink(id);
      ASSERT_TRUE(ranks->submit(std::move(r)));
    }
    ASSERT_TRUE(c.wait_ended(3));
    EXPECT_EQ(c.answer(0).finish, FinishReason::length);
    EXPECT_EQ(c.answer(1).finish, FinishReason::error);
    EXPECT_EQ(c.answer(2).finish, FinishReason::length);
  }
}

TEST(Lockstep, DrainsAndAbortsLikeFreeRanks) {
  for (const double drain_s : {0.0, 0.02, 30.0}) {
    Ranks ranks({.ranks = 3}, kOptions, {}, {}, true);
    for (FakeRunner* r : ranks.runners) r->step_time = std::chrono::milliseconds(1);
    Collector c;
    for (uint64_t id = 0; id < 2; ++id) {  // the third rank has nothing to do
      Request r = plain(id, int(id), 5, id ? 100 : 10);
      r.sink = c.sink(id);
      ASSERT_TRUE(ranks->submit(std::move(r)));
    }
    ASSERT_TRUE(c.wait_tokens(1, 1));
    ranks->shutdown(drain_s);
    EXPECT_EQ(c.ended(), 2);
    EXPECT_EQ(c.answer(1).finish, drain_s > 1 ? FinishReason::length : FinishReason::abort);
  }
}

/// Clients that come and go on all ranks while the group holds, balances and preempts.
TEST(Lockstep, ManyThreadsComeAndGo) {
  EngineOptions o = kOptions;
  o.preempt_every = 11;
  Ranks ranks({.ranks = 4}, o, {.stall_ticks = 2, .decode_interval = 1}, {.slack = 0, .min_tokens = 4}, true);
  Collector c;
  std::atomic<int> accepted{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 25; ++i) {
        const uint64_t id = t * 100 + i;
        Request r = plain(id, i % 3 ? -1 : int(t), 1 + int64_t(id * 31 % 90), 1 + int64_t(id % 20));
        r.sink = c.sink(id);
        accepted += bool(ranks->submit(std::move(r)));
        if (i % 4 == 0) ranks->finish(id, FinishReason::abort);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(c.wait_ended(accepted));
}

}  // namespace
}  // namespace isotope::engine::test
