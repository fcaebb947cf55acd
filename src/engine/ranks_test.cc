#include "engine/ranks.h"

#include <gtest/gtest.h>

#include <set>

namespace isotope::engine {
namespace {

Result<EngineOptions> resolve(std::map<std::string, std::string> environment, EngineOptions o = {}, int cores = 8) {
  return resolve_ranks(std::move(o), *levers::Levers::resolve({.environment = std::move(environment)}), cores);
}

TEST(Ranks, EnginesOfOneProcess) {
  EXPECT_EQ(resolve({})->data_parallel_size, 1);
  EXPECT_EQ(resolve({})->first_core, -1);
  EXPECT_EQ(resolve({{"ATOM_DP_SIZE", "4"}})->data_parallel_size, 4);
  EXPECT_EQ(resolve({{"ATOM_DP_SIZE", "4"}}, {.data_parallel_size = 2})->data_parallel_size, 2) << "the flag wins";
  EXPECT_EQ(resolve({{"ISOTOPE_CPU_THREADS", "3"}})->threads, 3);
}

TEST(Ranks, AProcessThatIsOneRankOfSeveral) {
  const auto o = resolve({{"ATOM_DP_SIZE", "4"}, {"ATOM_DP_RANK", "3"}});
  EXPECT_EQ(o->data_parallel_size, 1);
  EXPECT_EQ(o->first_rank, 3);
  EXPECT_EQ(o->first_core, -1) << "alone on its machine";
  const auto first = resolve({{"ATOM_DP_SIZE", "4"}, {"ATOM_DP_RANK", "0"}});
  EXPECT_EQ(first->data_parallel_size, 1) << "rank 0 said aloud is a rank, not the default";
}

TEST(Ranks, LocalRanksTakeEqualDisjointShares) {
  std::set<int> taken;
  for (int k = 0; k < 3; ++k) {
    const auto o = resolve({{"ATOM_DP_SIZE", "3"}, {"ATOM_DP_RANK", std::to_string(k)}, {"ATOM_DP_RANK_LOCAL", std::to_string(k)}});
    for (int c = 0; c < o->threads; ++c) EXPECT_TRUE(taken.insert(o->first_core + c).second);
  }
  EXPECT_EQ(taken.size(), 8u);
  const auto crowded = resolve({{"ATOM_DP_SIZE", "4"}, {"ATOM_DP_RANK_LOCAL", "3"}}, {}, 2);
  EXPECT_EQ(crowded->threads, 1);
  EXPECT_EQ(crowded->first_core, -1) << "more ranks than cores: bound nowhere";
}

TEST(Ranks, RanksOutsideTheGroupStopTheStart) {
  for (const char* name : {"ATOM_DP_RANK", "ATOM_DP_RANK_LOCAL"}) {
    const auto o = resolve({{"ATOM_DP_SIZE", "2"}, {name, "2"}});
    ASSERT_FALSE(o);
    EXPECT_EQ(o.error().what, "rank 2 of 2 data-parallel ranks");
    EXPECT_EQ(o.error().source, name);
  }
}

TEST(Ranks, CoreSharesOfTheEngines) {
  EXPECT_EQ(core_share({.data_parallel_size = 1}, 0, 8).threads, 0);
  EXPECT_EQ(core_share({.data_parallel_size = 1}, 0, 8).first_core, -1);
  int next = 0;
  for (int r = 0; r < 3; ++r) {
    const CoreShare s = core_share({.data_parallel_size = 3}, r, 8);
    EXPECT_EQ(s.first_core, next);
    EXPECT_TRUE(s.pin);
    next += s.threads;
  }
  EXPECT_EQ(next, 8);
  for (int r = 0; r < 5; ++r) {
    const CoreShare s = core_share({.data_parallel_size = 5}, r, 2);
    EXPECT_EQ(s.threads, 1);
    EXPECT_FALSE(s.pin);
  }
  EXPECT_EQ(core_share({.data_parallel_size = 2, .threads = 6}, 1, 2).threads, 3) << "more threads than cores, as asked";
}

TEST(Ranks, ProcessesThatStepTogetherMeet) {
  const auto at = [](std::map<std::string, std::string> environment, const char* lockstep = "1") {
    environment["ISOTOPE_DP_LOCKSTEP"] = lockstep;
    return meeting_of({}, *levers::Levers::resolve({.environment = std::move(environment)}));
  };
  EXPECT_FALSE(at({}));
  EXPECT_FALSE(at({{"ATOM_DP_SIZE", "4"}})) << "all four are in this process";
  EXPECT_FALSE(at({{"ATOM_DP_SIZE", "4"}, {"ATOM_DP_RANK", "1"}}, "0"));
  EXPECT_FALSE(at({{"ATOM_DP_RANK", "0"}}));
  const auto m = at({{"ATOM_DP_SIZE", "4"}, {"ATOM_DP_RANK", "3"}, {"ATOM_DP_MASTER_IP", "::1"}, {"ATOM_DP_MASTER_PORT", "1234"}});
  ASSERT_TRUE(m);
  EXPECT_EQ(m->host, "::1");
  EXPECT_EQ(m->port, 1234);
  EXPECT_EQ(m->rank, 3);
  EXPECT_EQ(m->size, 4);
  const auto other = at({{"ATOM_DP_SIZE", "4"}, {"ATOM_DP_RANK", "0"}, {"ATOM_DP_PREFILL_BALANCE_SLACK", "0.2"}});
  EXPECT_EQ(other->port, 29500);
  EXPECT_NE(other->terms, m->terms) << "ranks with other settings would come to other verdicts";
}

}  // namespace
}  // namespace isotope::engine
