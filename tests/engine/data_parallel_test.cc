// Several engines in one process: the tokens of one, requests spread as the router says, nothing lost when ranks end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <thread>

#include "ranks_rig.h"

namespace isotope::engine::test {
namespace {

using testing::HasSubstr;

TEST(DataParallel, TheSameTokensWithAnyNumberOfRanks) {
  std::map<uint64_t, Answer> want;
  for (const int n : {1, 2, 5}) {
    Ranks ranks({.ranks = n}, {.max_num_seqs = 4, .max_num_batched_tokens = 64, .preempt_every = 7});
    auto got = run(*ranks.engine, mixed(40));
    if (want.empty()) want = got;
    ASSERT_EQ(got.size(), 40u);
    for (const auto& [id, a] : want) expect_same(got.at(id), a, std::to_string(n) + " ranks, request " + std::to_string(id));
    int busy = 0;
    for (const FakeRunner* r : ranks.runners) busy += r->steps > 0;
    EXPECT_EQ(busy, n) << "every rank had work";
    EXPECT_EQ(ranks->stats().engines, n);
  }
}

TEST(DataParallel, MetricsAreLabelledByEngineAndAddUp) {
  Ranks ranks({.ranks = 2});
  run(*ranks.engine, mixed(20));
  const std::string text = ranks->metrics();
  for (const char* line : {"vllm:num_requests_running{model_name=\"fake\",engine=\"0\"} 0.0", "vllm:num_requests_running{model_name=\"fake\",engine=\"1\"} 0.0",
                           "vllm:cache_config_info{engine=\"1\",block_size=\"4\"", "atom:dp_requests_routed_total{rank=\"1\"}"})
    EXPECT_THAT(text, HasSubstr(line));
  double generated = 0;
  for (const char* rank : {"0", "1"}) generated += ranks.metric("vllm:generation_tokens_total{model_name=\"fake\",engine=\"" + std::string(rank) + "\"}");
  EXPECT_EQ(generated, double(ranks->stats().generation_tokens));
  EXPECT_EQ(ranks.metric("atom:generation_tokens_total"), generated) << "rows without labels hold the sum";
  EXPECT_EQ(ranks.metric("atom:kv_cache_blocks_total"), 128);
  // Every family is declared once, every series appears once.
  std::set<std::string> seen;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string key = line.starts_with("#") ? line.substr(0, line.find(' ', 7)) : line.substr(0, line.rfind(' '));
    EXPECT_TRUE(seen.insert(key).second) << line;
  }
}

TEST(DataParallel, TheRouterHearsOfFirstOutputsAndEnds) {
  Ranks ranks({.ranks = 2});
  Collector c;
  {
    const Gate gate(*ranks.engine);  // rank 0 is held; what is sent there stays in flight
    for (uint64_t id : {1, 2}) {
      Request r = request(id, prompt_of(30), {.temperature = 0, .max_tokens = 3, .ignore_eos = true});
      r.rank = int(id) - 1;
      r.sink = c.sink(id);
      ASSERT_TRUE(ranks->submit(std::move(r)));
    }
    ASSERT_TRUE(c.wait_ended(1));
    EXPECT_EQ(ranks.metric("atom:dp_inflight_requests{rank=\"1\"}"), 0);
    EXPECT_EQ(ranks.metric("atom:dp_queued_prefill_tokens{rank=\"0\"}"), 30);
  }
  ASSERT_TRUE(c.wait_ended(2));
  EXPECT_EQ(ranks.metric("atom:dp_queued_prefill_tokens{rank=\"0\"}"), 0);
  EXPECT_EQ(ranks.metric("atom:dp_route_explicit_total"), 2);
}

TEST(DataParallel, TheLatestRequestsAreThoseOfAllRanks) {
  Ranks ranks({.ranks = 3});
  for (uint64_t id = 0; id < 9; ++id) {
    Request r = request(id, prompt_of(5), {.temperature = 0, .max_tokens = 1});
    r.rank = id < 6 ? int(id / 3) : 2;  // the first rank's are the oldest
    run_one(*ranks.engine, std::move(r));
  }
  std::vector<uint64_t> ids;
  for (const RequestRecord& r : ranks->records({}, 5)) ids.push_back(r.id);
  EXPECT_EQ(ids, (std::vector<uint64_t>{8, 7, 6, 5, 4})) << "not the first rank's";
}

TEST(DataParallel, RefusedRequestsLeaveTheRouterAsItWas) {
  Ranks ranks({.ranks = 2});
  Request wrong_rank = request(1, prompt_of(5), {});
  wrong_rank.rank = 2;
  wrong_rank.sink = [](const TokenEvent&) {};
  const auto refused = ranks->submit(std::move(wrong_rank));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().source, "request field 'data_parallel_rank'") << "the API names the field of it";
  Request empty = request(2, {}, {});
  empty.sink = [](const TokenEvent&) {};
  EXPECT_FALSE(ranks->submit(std::move(empty)));
  EXPECT_EQ(ranks.metric("atom:dp_inflight_requests{rank=\"0\"}") + ranks.metric("atom:dp_inflight_requests{rank=\"1\"}"), 0);
  Request no_sink = request(3, prompt_of(5), {});
  EXPECT_FALSE(ranks->submit(std::move(no_sink)));
  EXPECT_TRUE(run_one(*ranks.engine, request(1, prompt_of(5), {.temperature = 0, .max_tokens = 2})).finals);
}

TEST(DataParallel, AnIdIsAliveOnOneRankOnly) {
  Ranks ranks({.ranks = 2});
  Collector c;
  {
    const Gate gate(*ranks.engine);
    for (const bool expected : {true, false}) {
      Request r = request(9, prompt_of(5), {.temperature = 0, .max_tokens = 2});
      r.rank = 0;
      r.sink = c.sink(9);
      EXPECT_EQ(bool(ranks->submit(std::move(r))), expected);
    }
    ranks->finish(9, FinishReason::abort);
    ranks->finish(12345, FinishReason::abort);
  }
  ASSERT_TRUE(c.wait_ended(1));
  EXPECT_EQ(c.answer(9).finish, FinishReason::abort);
  EXPECT_TRUE(ranks->stats(9));
}

TEST(DataParallel, LaterTurnsHitTheCacheOfTheirSession) {
  const auto turn = [](Ranks& ranks, uint64_t id, int64_t n) {
    Request r = request(id, prompt_of(n), {.temperature = 0, .max_tokens = 2});
    r.session = "conversation";
    run_one(*ranks.engine, std::move(r));
    return ranks->stats(id)->cached_tokens;
  };
  Ranks with({.ranks = 3, .session_affinity = true});
  EXPECT_EQ(turn(with, 1, 40), 0);
  for (uint64_t id = 2; id < 6; ++id) EXPECT_GE(turn(with, id, 40 + int64_t(id)), 36) << "turn " << id;
  EXPECT_EQ(with.metric("atom:dp_affinity_owner_hit_total"), 4);
  EXPECT_EQ(with.metric("atom:dp_affinity_spill_total"), 0);
  Ranks without({.ranks = 3});
  EXPECT_EQ(turn(without, 1, 40), 0);
  EXPECT_EQ(turn(without, 2, 42), 0) << "the next rank has none of it";
}

TEST(DataParallel, ASinkThatThrowsIsNotInFlightForEver) {
  Ranks ranks({.ranks = 2});
  Request r = request(1, prompt_of(5), {.temperature = 0, .max_tokens = 50, .ignore_eos = true});
  r.sink = [](const TokenEvent&) { throw std::runtime_error("the test's sink"); };
  ASSERT_TRUE(ranks->submit(std::move(r)));
  for (int i = 0; i < 1000 && ranks->stats().running + ranks->stats().waiting > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(ranks.metric("atom:dp_inflight_requests{rank=\"0\"}") + ranks.metric("atom:dp_inflight_requests{rank=\"1\"}"), 0);
}

TEST(DataParallel, AllRanksDrainAtTheSameTime) {
  Ranks ranks({.ranks = 3});
  for (FakeRunner* r : ranks.runners) r->step_time = std::chrono::milliseconds(2);
  Collector c;
  for (uint64_t id = 0; id < 3; ++id) {
    Request r = request(id, prompt_of(5), {.temperature = 0, .max_tokens = 190, .ignore_eos = true});
    r.rank = int(id);
    r.sink = c.sink(id);
    ASSERT_TRUE(ranks->submit(std::move(r)));
  }
  for (uint64_t id = 0; id < 3; ++id) ASSERT_TRUE(c.wait_tokens(id, 1));
  ranks->shutdown(0.05);
  EXPECT_EQ(c.ended(), 3);
  for (uint64_t id = 0; id < 3; ++id) {
    EXPECT_EQ(c.answer(id).finish, FinishReason::abort) << "the deadline is one for all";
    EXPECT_EQ(c.answer(id).error->code, Code::unavailable);
  }
  Request late = request(9, prompt_of(5), {});
  late.sink = [](const TokenEvent&) {};
  EXPECT_EQ(ranks->submit(std::move(late)).error().code, Code::unavailable);
}

TEST(DataParallel, ShutdownFromASinkDoesNotWaitForItself) {
  Ranks ranks({.ranks = 2});
  Collector c;
  for (uint64_t id = 0; id < 2; ++id) {
    Request r = request(id, prompt_of(5), {.temperature = 0, .max_tokens = 20, .ignore_eos = true});
    r.rank = int(id);
    r.sink = [&, inner = c.sink(id)](const TokenEvent& e) {
      ranks->shutdown(0);
      inner(e);
    };
    const auto accepted = ranks->submit(std::move(r));
    if (id == 0) ASSERT_TRUE(accepted);
  }
  EXPECT_TRUE(c.wait_ended(1));
  ranks->shutdown(0);  // before the collector goes
}

}  // namespace
}  // namespace isotope::engine::test
