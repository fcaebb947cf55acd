#include "base/team.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace isotope::base {
namespace {

class TeamSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, TeamSizes, testing::Values(1, 2, 3, 7));

TEST_P(TeamSizes, EveryMemberRunsOncePerCall) {
  Team team(GetParam());
  std::vector<int> count(size_t(GetParam()), 0);
  for (int i = 0; i < 500; ++i) team.run([&](int m) { ++count[size_t(m)]; });
  for (int c : count) EXPECT_EQ(c, 500);
}

TEST_P(TeamSizes, SharedWorkIsDoneOncePerMemberNumberHoweverLateTheyAre) {
  Team team(GetParam());
  std::vector<std::atomic<int>> count(static_cast<size_t>(GetParam()));
  for (int i = 0; i < 3000; ++i) {
    std::atomic<int> now{0};
    team.share([&](int m) {
      ++count[size_t(m)];
      now += m + 1;
    });
    ASSERT_EQ(now, GetParam() * (GetParam() + 1) / 2);
    if (i % 500 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  for (const auto& c : count) EXPECT_EQ(c, 3000);
}

TEST_P(TeamSizes, RangesCoverEverythingOnceInMultiplesOfGrain) {
  Team team(GetParam());
  for (int64_t n : {0, 1, 2, 7, 16, 33, 100}) {
    for (int64_t grain : {1, 3, 16, 200}) {
      std::vector<std::atomic<int>> hit(size_t(n) + 1);
      team.for_ranges(n, grain, [&](int64_t a, int64_t b) {
        EXPECT_EQ(a % grain, 0);
        EXPECT_TRUE(b == n || b % grain == 0);
        for (int64_t i = a; i < b; ++i) ++hit[size_t(i)];
      });
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(hit[size_t(i)], 1) << "n=" << n << " grain=" << grain << " i=" << i;
    }
  }
}

TEST_P(TeamSizes, BarrierSeparatesPhases) {
  Team team(GetParam());
  const size_t n = size_t(GetParam());
  std::vector<int> a(n, 0), b(n, 0);
  team.run([&](int m) {
    for (int round = 1; round <= 200; ++round) {
      a[size_t(m)] = round;
      team.barrier();
      int sum = 0;
      for (int v : a) sum += v;
      b[size_t(m)] += sum == round * int(n);
      team.barrier();
    }
  });
  for (int v : b) EXPECT_EQ(v, 200);
}

/// A member that comes late may find its share done by the caller, and the team about to go: what it would still run is gone then.
TEST(Team, NobodyRunsAnythingAfterTheLastCall) {
  static std::atomic<bool> working;
  static std::atomic<int> late;
  late = 0;
  for (int i = 0; i < 3000; ++i) {
    Team team(7, false);
    working = true;
    for (int call = 0; call < 3; ++call)
      team.share([](int) {
        if (!working) ++late;
      });
    working = false;
  }
  EXPECT_EQ(late, 0);
}

TEST(Team, WorksAfterMembersHaveParked) {
  Team team(3);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> n{0};
    team.run([&](int) { ++n; });
    EXPECT_EQ(n, 3);
  }
}

TEST(Team, MayBeCalledFromDifferentThreadsInTurn) {
  Team team(2);
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> n{0};
    std::thread([&] { team.run([&](int) { ++n; }); }).join();
    EXPECT_EQ(n, 2);
  }
}

TEST(Team, IdleTeamUsesNoCpu) {
  Team team(2);
  team.run([](int) {});
  auto cpu = [] {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return double(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * double(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
  };
  const double before = cpu();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(cpu() - before, 0.05);
}

// Sanitizers need more address space than they are left with here.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Team, GoesOnWithTheThreadsThatCouldBeStarted) {
  const auto few_threads = [] {
    long pages = 0;
    if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
      if (std::fscanf(f, "%ld", &pages) != 1) std::exit(2);
      std::fclose(f);
    }
    const rlim_t now = rlim_t(pages) * rlim_t(sysconf(_SC_PAGESIZE));
    const rlimit limit{now + (rlim_t{100} << 20), now + (rlim_t{100} << 20)};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::exit(3);
    Team team(200);
    std::atomic<int> sum{0};
    team.share([&](int) { ++sum; });
    std::exit(team.size() >= 1 && team.size() < 200 && sum == team.size() ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(few_threads(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace isotope::base
