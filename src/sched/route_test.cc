#include "sched/route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace isotope::sched {
namespace {

using testing::ElementsAre;

struct Choice {
  const char* what;
  std::vector<RankLoad> loads;
  RoutePolicy policy;
  int64_t equiv;
  uint64_t cursor;
  int expected;
};

TEST(Route, LeastLoadedRank) {
  using enum RoutePolicy;
  const Choice kCases[] = {
      {"requests count first", {{2, 0}, {1, 9000}}, least_requests, 512, 0, 1},
      {"then tokens", {{1, 500}, {1, 400}}, least_requests, 512, 0, 1},
      {"tokens and requests together", {{2, 0}, {1, 1000}}, least_tokens, 512, 0, 0},
      {"equivalent weight 0: tokens alone", {{0, 1}, {50, 0}}, least_tokens, 0, 0, 1},
      {"a large equivalent counts requests", {{2, 0}, {1, 100'000}}, least_tokens, 1'000'000, 0, 1},
      {"ties begin at the cursor", {{1, 1}, {1, 1}, {1, 1}}, least_requests, 512, 2, 2},
      {"and go round", {{0, 1}, {0, 0}, {0, 1}}, least_tokens, 512, 2, 1},
      {"round robin looks at nothing", {{9, 9}, {0, 0}}, round_robin, 512, 4, 0},
      {"a cursor that has gone far", {{0, 0}, {0, 0}, {0, 0}}, round_robin, 512, UINT64_MAX, int(UINT64_MAX % 3)},
      {"one rank", {{7, 7}}, least_tokens, 512, 3, 0},
  };
  for (const Choice& c : kCases) EXPECT_EQ(least_loaded(c.loads, c.policy, c.equiv, c.cursor), c.expected) << c.what;
}

TEST(Route, WeightZeroKeepsSmallRequestsOffTheRankWithALongPrompt) {
  Router r({.ranks = 2, .policy = RoutePolicy::least_tokens, .request_equiv = 0});
  ASSERT_EQ(r.route({.id = 1, .prompt_tokens = 100'000})->rank, 0);
  for (uint64_t id = 2; id < 50; ++id) EXPECT_EQ(r.route({.id = id, .prompt_tokens = 100})->rank, 1);
}

TEST(Route, BurstsSpreadAndTiesRotate) {
  Router r({.ranks = 3});
  std::vector<int> ranks;
  for (uint64_t id = 0; id < 6; ++id) ranks.push_back(r.route({.id = id, .prompt_tokens = 10})->rank);
  EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(r.counts().routed, ElementsAre(2, 2, 2));
  EXPECT_EQ(r.counts().load_balanced, 6);
}

TEST(Route, ChargesAndReleasesOnce) {
  Router r({.ranks = 2});
  r.route({.id = 7, .prompt_tokens = 100});
  EXPECT_EQ(r.loads()[0].requests, 1);
  EXPECT_EQ(r.loads()[0].prefill_tokens, 100);
  r.first_output(7);
  r.first_output(7);
  EXPECT_EQ(r.loads()[0].prefill_tokens, 0);
  EXPECT_EQ(r.loads()[0].requests, 1);
  r.finished(7);
  r.finished(7);
  r.finished(99);
  r.first_output(99);
  EXPECT_EQ(r.loads()[0].requests, 0);
  EXPECT_EQ(r.rank_of(7), -1);
}

TEST(Route, AbortBeforeTheFirstOutputReleasesBoth) {
  Router r({.ranks = 1});
  r.route({.id = 7, .prompt_tokens = 100});
  r.finished(7);
  EXPECT_EQ(r.loads()[0].prefill_tokens, 0);
  EXPECT_EQ(r.loads()[0].requests, 0);
}

TEST(Route, ExplicitRank) {
  Router r({.ranks = 2});
  EXPECT_EQ(r.route({.id = 1, .prompt_tokens = 5, .rank = 1})->rank, 1);
  EXPECT_EQ(r.route({.id = 2, .prompt_tokens = 5, .rank = 1})->rank, 1);
  const auto wrong = r.route({.id = 3, .prompt_tokens = 5, .rank = 2});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().what, "there is no data-parallel rank 2");
  EXPECT_FALSE(r.route({.id = 3, .prompt_tokens = 5, .rank = -2}));
  EXPECT_EQ(r.loads()[0].requests + r.loads()[1].requests, 2) << "a refused request is charged nowhere";
  EXPECT_EQ(r.counts().explicit_rank, 2);
  EXPECT_FALSE(r.route({.id = 1, .prompt_tokens = 5})) << "alive already";
}

TEST(Route, RollBackLeavesNoTrace) {
  Router r({.ranks = 2, .session_affinity = true});
  r.route({.id = 1, .prompt_tokens = 100, .session = "known"});
  r.finished(1);
  const int owner = r.route({.id = 2, .prompt_tokens = 300, .session = "known"})->rank;
  r.roll_back(2);
  r.roll_back(2);
  r.route({.id = 3, .prompt_tokens = 50, .session = "new", .has_parent = true});
  r.roll_back(3);
  EXPECT_THAT(r.counts().sessions, owner == 0 ? ElementsAre(1, 0) : ElementsAre(0, 1));
  EXPECT_EQ(r.counts().affinity_new, 1);
  EXPECT_EQ(r.counts().affinity_owner_hit, 0);
  EXPECT_EQ(r.counts().affinity_parent_ignored, 0);
  EXPECT_EQ(r.loads()[0].requests + r.loads()[1].requests, 0);
  EXPECT_EQ(r.route({.id = 4, .prompt_tokens = 300, .session = "known"})->charged_tokens, 200)
      << "the failed turn is not remembered";
}

// ---- sessions -----------------------------------------------------------------------------------------------------------------

TEST(Route, LaterTurnsStayWithTheOwnerAndChargeTheirGrowth) {
  Router r({.ranks = 2, .session_affinity = true});
  const RouteGrant first = *r.route({.id = 1, .prompt_tokens = 100, .session = "s"});
  EXPECT_EQ(first.reason, RouteReason::session_new);
  EXPECT_EQ(first.charged_tokens, 100);
  for (uint64_t id = 10; id < 20; ++id)
    r.route({.id = id, .prompt_tokens = 1000, .rank = first.rank});  // the owner is busy; it stays the owner
  const RouteGrant second = *r.route({.id = 2, .prompt_tokens = 250, .session = "s"});
  EXPECT_EQ(second.rank, first.rank);
  EXPECT_EQ(second.reason, RouteReason::session_owner);
  EXPECT_EQ(second.charged_tokens, 150);
  EXPECT_EQ(r.route({.id = 3, .prompt_tokens = 40, .session = "s"})->charged_tokens, 0) << "a shorter prompt charges nothing";
  EXPECT_EQ(r.counts().affinity_new, 1);
  EXPECT_EQ(r.counts().affinity_owner_hit, 2);
}

TEST(Route, AnExplicitRankTakesTheSessionOver) {
  Router r({.ranks = 2, .session_affinity = true});
  const int first = r.route({.id = 1, .prompt_tokens = 100, .session = "s"})->rank;
  const RouteGrant moved = *r.route({.id = 2, .prompt_tokens = 120, .session = "s", .rank = 1 - first});
  EXPECT_EQ(moved.charged_tokens, 120) << "the new owner has none of it";
  const RouteGrant next = *r.route({.id = 3, .prompt_tokens = 150, .session = "s"});
  EXPECT_EQ(next.rank, 1 - first);
  EXPECT_EQ(next.charged_tokens, 30);
  EXPECT_EQ(r.route({.id = 4, .prompt_tokens = 160, .session = "s", .rank = 1 - first})->charged_tokens, 10)
      << "the same owner by hint";
}

TEST(Route, NewSessionsGoByTokensWhateverThePolicy) {
  Router r({.ranks = 2, .policy = RoutePolicy::least_requests, .request_equiv = 512, .session_affinity = true});
  r.route({.id = 1, .prompt_tokens = 10'000, .rank = 0});
  for (uint64_t id = 2; id < 7; ++id) r.route({.id = id, .prompt_tokens = 1, .rank = 1});
  // By requests rank 0 would win (1 against 5); by tokens rank 1 (10 512 against 2 565).
  EXPECT_EQ(r.route({.id = 9, .prompt_tokens = 10, .session = "s"})->rank, 1);
  EXPECT_EQ(r.route({.id = 10, .prompt_tokens = 10})->rank, 0) << "without a session: the policy";
}

TEST(Route, TiedSessionsArePlacedAlikeEverywhere) {
  const std::vector<RankLoad> idle(4);
  std::vector<int> per_rank(4);
  for (int i = 0; i < 400; ++i) {
    const std::string session = "session-" + std::to_string(i);
    ++per_rank[size_t(place_session(idle, 512, session))];
    EXPECT_EQ(place_session(idle, 512, session), place_session(idle, 0, session));
  }
  for (const int n : per_rank) EXPECT_GT(n, 50) << "ties spread";
  EXPECT_EQ(place_session(idle, 512, "a fixed place"), 2)
      << "the hash is part of the wire between processes: it must never change";
}

TEST(Route, ParentsDoNotMatter) {
  Router a({.ranks = 4, .session_affinity = true}), b({.ranks = 4, .session_affinity = true});
  for (uint64_t id = 1; id < 40; ++id) {
    const std::string session = "s" + std::to_string(id);
    EXPECT_EQ(a.route({.id = id, .prompt_tokens = 9, .session = session, .has_parent = true})->rank,
              b.route({.id = id, .prompt_tokens = 9, .session = session})->rank);
  }
  EXPECT_EQ(a.counts().affinity_parent_ignored, 39);
}

TEST(Route, WithoutTheLeverSessionsAreNotKept) {
  Router r({.ranks = 2});
  r.route({.id = 1, .prompt_tokens = 9, .session = "s"});
  EXPECT_EQ(r.route({.id = 2, .prompt_tokens = 9, .session = "s"})->rank, 1);
  EXPECT_THAT(r.counts().sessions, ElementsAre(0, 0));
}

TEST(Route, TheLeastRecentlyUsedSessionIsForgotten) {
  Router r({.ranks = 1, .session_affinity = true, .max_sessions = 2});
  for (const char* s : {"a", "b", "a", "c"}) {
    r.route({.id = 1, .prompt_tokens = 100, .session = s});
    r.finished(1);
  }
  EXPECT_EQ(r.route({.id = 2, .prompt_tokens = 100, .session = "a"})->charged_tokens, 0);
  EXPECT_EQ(r.route({.id = 3, .prompt_tokens = 100, .session = "b"})->charged_tokens, 100);
  EXPECT_EQ(r.counts().sessions[0], 2);
}

TEST(Route, RandomTraffic) {
  std::mt19937 rng(7);
  Router r({.ranks = 5, .policy = RoutePolicy::least_tokens, .session_affinity = true, .max_sessions = 30});
  std::vector<uint64_t> alive;
  for (uint64_t id = 1; id < 20'000; ++id) {
    const std::string session = rng() % 2 ? "s" + std::to_string(rng() % 60) : "";
    const auto g = r.route(
        {.id = id, .prompt_tokens = int64_t(rng() % 900), .session = session, .rank = rng() % 9 == 0 ? int(rng() % 6) : -1});
    if (g) alive.push_back(id);
    for (int i = 0; i < 2 && !alive.empty(); ++i) {
      const size_t at = rng() % alive.size();
      const auto what = rng() % 4;
      if (what == 0) r.first_output(alive[at]);
      if (what == 1) r.roll_back(alive[at]);
      if (what == 2) r.finished(alive[at]);
      if (what == 1 || what == 2) alive.erase(alive.begin() + ptrdiff_t(at));
    }
    int64_t requests = 0;
    for (const RankLoad& l : r.loads()) {
      ASSERT_GE(l.prefill_tokens, 0);
      ASSERT_GE(l.requests, 0);
      requests += l.requests;
    }
    ASSERT_EQ(requests, int64_t(alive.size()));
  }
  for (const uint64_t id : alive) r.finished(id);
  for (const RankLoad& l : r.loads()) EXPECT_EQ(l.prefill_tokens, 0);
  int64_t sessions = 0;
  for (const int64_t n : r.counts().sessions) sessions += n;
  EXPECT_LE(sessions, 30);
}

TEST(Route, PolicyNames) {
  EXPECT_EQ(*parse_route_policy("least_tokens"), RoutePolicy::least_tokens);
  EXPECT_EQ(*parse_route_policy("round-robin"), RoutePolicy::round_robin);
  EXPECT_EQ(parse_route_policy("fastest").error().what, "there is no routing policy 'fastest'");
}

}  // namespace
}  // namespace isotope::sched
