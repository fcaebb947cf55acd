#include "sched/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "levers/environment.h"

namespace isotope::sched {
namespace {

SimOptions small(int ranks = 1) {
  SimOptions o;
  o.ranks = ranks;
  o.rank.blocks = 400;
  o.rank.scheduler.limits = {.token_budget = 256, .max_seqs = 16};
  o.check = true;
  return o;
}

SimReport run(std::string_view spec, const SimOptions& o) {
  const auto trace = synthetic_trace(spec);
  EXPECT_TRUE(trace) << (trace ? "" : trace.error().message());
  auto r = simulate(*trace, o);
  EXPECT_TRUE(r) << (r ? "" : r.error().message());
  if (r) EXPECT_EQ(r->broken, "");
  return r ? std::move(*r) : SimReport{};
}

TEST(Trace, FieldsAndErrors) {
  const auto t = parse_trace(R"({"arrival_s": 2, "prompt": 10, "output": 3, "prefix": "sys", "prefix_tokens": 8, "session": 4, "key": "u", "priority": -1}

{"timestamp": 1500, "input_length": 1000, "output_length": 5, "hash_ids": [7, 8], "rank": 0}
)",
                             "t.jsonl");
  ASSERT_TRUE(t) << t.error().message();
  ASSERT_EQ(t->size(), 2u);
  EXPECT_EQ((*t)[0].arrival_s, 1.5);  // sorted
  EXPECT_EQ((*t)[0].hash_ids.size(), 2u);
  EXPECT_EQ((*t)[1].session, "4");
  EXPECT_EQ((*t)[1].priority, -1);
  for (const char* bad : {"[1]", "{", "{\"prompt\": 0}", "{\"prompt\": \"x\"}", "{\"promt\": 1}", "{\"hash_ids\": [1.5]}", "{\"prefix_tokens\": 4}",
                          "{\"arrival_s\": -1}", "{\"prompt\": 10.5}", "{\"rank\": 0.5}", "{\"arrival_s\": 1e300}", "{\"session\": [1]}", "nan"}) {
    const auto r = parse_trace(std::string("{}\n") + bad, "t.jsonl");
    ASSERT_FALSE(r) << bad;
    EXPECT_NE(r.error().message().find("t.jsonl, line 2"), std::string::npos) << r.error().message();
  }
  EXPECT_FALSE(read_trace("/nonexistent"));
  EXPECT_FALSE(read_trace("/"));
  for (const char* bad : {"step_us=5x", "step_us", "step=1", "token_us=-1"}) EXPECT_FALSE(parse_cost(bad)) << bad;
  for (const char* bad : {"request=1", "requests", "requests=x", "rate=0", "prompt=0.5", "requests=1,,", "seed=-1"}) EXPECT_FALSE(synthetic_trace(bad)) << bad;
}

TEST(Simulator, RefusesARankThatIsNotThere) {
  const auto r = simulate({{.prompt = 1, .output = 1}, {.prompt = 1, .output = 1, .rank = 2}}, small(2));
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().message().find("request 1 names rank 2"), std::string::npos) << r.error().message();
}

TEST(Simulator, ARequestAloneTakesWhatItsStepsCost) {
  SimOptions o = small();
  o.rank.cost = {.step_us = 1000, .prefill_step_us = 500, .token_us = 10, .context_ns = 0, .pair_ns = 0};
  auto r = simulate({{.prompt = 300, .output = 4}}, o);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->broken, "");
  EXPECT_EQ(r->steps, 5);  // 256 + 44 tokens of prompt, the second gives the first token, then three
  EXPECT_EQ(r->prefill_steps, 2);
  EXPECT_NEAR(r->ttft.at(0), (2 * 1500 + 300 * 10) * 1e-6, 1e-9);
  EXPECT_NEAR(r->e2e.at(0), (2 * 1500 + 300 * 10 + 3 * 1010) * 1e-6, 1e-9);
}

TEST(Simulator, TheSameEveryTime) {
  const char* spec = "requests=300,rate=50,prompt=200,output=30,prefixes=3,prefix_tokens=96,sessions=9,keys=3,priorities=2";
  SimOptions o = small(3);
  o.faults = {.cancel = 0.02, .preempt = 0.05, .rank_loss = 0.002};
  auto a = run(spec, o), b = run(spec, o);
  EXPECT_EQ(report_json(a), report_json(b));
  EXPECT_GT(a.lost_ranks, 0);
  EXPECT_GT(a.cancelled, 0);
  EXPECT_EQ(a.finished + a.cancelled, 300);
}

TEST(Simulator, SharedPrefixesHitAndSessionsStay) {
  SimOptions o = small(4);
  const char* spec = "requests=200,rate=20,prompt=200,output=20,prefixes=2,prefix_tokens=128";
  EXPECT_GT(run(spec, o).hit_tokens, 0);
  o.rank.prefix_caching = false;
  EXPECT_EQ(run(spec, o).hit_tokens, 0);
  o.rank.prefix_caching = true;
  const char* sessions = "requests=200,rate=20,prompt=200,output=20,prefixes=0,sessions=20";
  const int64_t spread = run(sessions, o).hit_tokens;
  o.session_affinity = true;
  EXPECT_GT(run(sessions, o).hit_tokens, spread);
}

TEST(Simulator, PoolForOneAndAHalfSequences) {
  SimOptions o = small();
  o.rank.blocks = 24;  // a request takes up to 16
  const auto r = run("requests=60,rate=1000,prompt=60,output=60,prefixes=0", o);
  EXPECT_EQ(r.finished, 60);
  EXPECT_GT(r.preemptions, 0);
}

TEST(Simulator, DeadlinesTransfersAndCancels) {
  std::vector<SimRequest> t;
  for (int i = 0; i < 40; ++i) t.push_back({.prompt = 250, .output = 50, .deadline_ms = 200});
  t[0].transfer_ms = 40;
  t[1].cancel_s = 0.05;
  t[2] = {.prompt = 250, .output = 50, .transfer_ms = 1000, .cancel_s = 0.5};  // leaves before its KV arrives
  SimOptions o = small();
  o.faults.late = 0.5;
  auto r = simulate(t, o);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->broken, "");
  EXPECT_EQ(r->cancelled, 2);
  EXPECT_GT(r->refused, 0);
  EXPECT_GT(r->finished, 0);
  EXPECT_EQ(r->finished + r->cancelled + r->refused, 40);
  EXPECT_FALSE(simulate({{.prompt = 100'000}}, o));        // no rank can hold it
  EXPECT_FALSE(simulate({{.prompt = 1, .rank = 7}}, o));   // there is no such rank
}

TEST(Simulator, FairShareServesTheModestKeyEarlier) {
  std::vector<SimRequest> t;
  for (int i = 0; i < 100; ++i) t.push_back({.prompt = 200, .output = 20, .key = "greedy"});
  for (int i = 0; i < 5; ++i) t.push_back({.arrival_s = 0.1, .prompt = 200, .output = 20, .key = "modest"});
  const auto last_modest = [&](bool fair) {
    SimOptions o = small();
    o.rank.scheduler.fair_share = fair;
    std::vector<SimRequest> alone = t;
    for (size_t i = 0; i < 100; ++i) alone[i].deadline_ms = 0;
    for (size_t i = 100; i < 105; ++i) alone[i].deadline_ms = 700;
    auto r = simulate(alone, o);
    EXPECT_TRUE(r && r->broken.empty());
    return r->refused;
  };
  EXPECT_EQ(last_modest(true), 0);
  EXPECT_EQ(last_modest(false), 5);
}

/// The delayer's claim, in a group that steps together and on schedulers of their own: fewer, larger prefills and steadier decoding; more output a second
/// where there is more to do than can be done, and a later first token where there is not.
TEST(Simulator, DelayerGathersPrefills) {
  struct Case {
    bool lockstep, busy;
    const char* spec;
    double output;  ///< at least that much of what there is without a delayer
  };
  const Case cases[] = {{true, true, "requests=1500,rate=110,prompt=300,output=200,prefixes=0", 1.05},
                        {true, false, "requests=1000,rate=60,prompt=300,output=200,prefixes=0", 0.97},
                        {false, true, "requests=2000,rate=400,prompt=300,output=200,prefixes=0", 1.02},
                        {false, false, "requests=1000,rate=60,prompt=300,output=200,prefixes=0", 0.97}};
  SimOptions o = small(8);
  o.check = false;
  o.rank.blocks = 8000;
  o.rank.scheduler.limits = {.token_budget = 2048, .max_seqs = 64};
  for (size_t i = 0; i < std::size(cases); ++i) {
    const Case& c = cases[i];
    o.lockstep = c.lockstep;
    o.rank.scheduler.delayer = {.enabled = false};
    auto off = run(c.spec, o);
    o.rank.scheduler.delayer = {.decode_interval = 8};
    auto on = run(c.spec, o);
    EXPECT_TRUE(off.exits.empty());
    ASSERT_EQ(on.exits.size(), kExits);
    EXPECT_GT(on.tokens_per_prefill_step(), 1.5 * off.tokens_per_prefill_step()) << i;
    EXPECT_GT(on.output_per_s(), c.output * off.output_per_s()) << i;
    EXPECT_LT(on.tpot.mean(), off.tpot.mean()) << i;
    if (!c.busy) EXPECT_GT(on.ttft.mean(), off.ttft.mean()) << i;
  }
}

/// Every step of every rank is checked while clients leave, ranks are lost and transfers are late. ISOTOPE_SIM_STEPS makes it longer.
TEST(Simulator, InvariantsHoldUnderFaults) {
  const auto environment = levers::read_environment();
  const auto wish = environment.find("ISOTOPE_SIM_STEPS");
  const int64_t steps = wish != environment.end() ? std::atoll(wish->second.c_str()) : 20'000;
  int64_t done = 0;
  for (uint64_t seed = 1; done < steps; ++seed) {
    auto trace = *synthetic_trace("requests=400,rate=60,prompt=120,output=40,prefixes=3,prefix_tokens=64,sessions=30,keys=3,priorities=3,burst=8,seed=" +
                                  std::to_string(seed));
    for (size_t i = 0; i < trace.size(); i += 7) trace[i].transfer_ms = double(i);
    for (size_t i = 3; i < trace.size(); i += 11) trace[i].deadline_ms = 300;
    SimOptions o = small(int(1 + seed % 4));
    o.rank.blocks = 24 + int64_t(seed % 5) * 30;
    o.lockstep = seed % 3 == 0;
    o.rank.scheduler.limits = {.token_budget = 48 + int64_t(seed % 4) * 100, .max_seqs = int(3 + seed % 9), .long_prefill = seed % 2 ? 0 : 40, .chunked = seed % 5 != 0};
    o.rank.scheduler.delayer = {.stall_ticks = 3, .decode_interval = int64_t(seed % 3)};
    o.faults = {.cancel = 0.02, .preempt = 0.05, .rank_loss = seed % 2 ? 0.003 : 0, .late = 0.3, .seed = seed};
    auto r = simulate(trace, o);
    ASSERT_TRUE(r) << r.error().message();
    ASSERT_EQ(r->broken, "") << "seed " << seed;
    ASSERT_EQ(r->finished + r->cancelled + r->refused, 400) << "seed " << seed;
    done += r->steps;
  }
}

}  // namespace
}  // namespace isotope::sched
