#include "base/others.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>

namespace isotope::base {
namespace {

constexpr std::string_view kStat =
    "cpu  100 0 50 9000 10 1 2 40 0 0\n"
    "cpu0 60 5 20 4000 5 1 2 30 0 0\n"
    "cpu1 40 0 30 5000 5 0 0 10 0 0\n"
    "cpu12 7 0 0 1 0 0 0 0 0 0\n"
    "intr 1 2 3\n";

TEST(Others, WorkOfTheAllowedCpusCounts) {
  EXPECT_DOUBLE_EQ(worked_seconds(kStat, {true, true}, 100), 1.58);
  EXPECT_DOUBLE_EQ(worked_seconds(kStat, {true}, 100), 0.88) << "user, nice, system, both interrupts; not idle, waiting, stolen";
  EXPECT_DOUBLE_EQ(worked_seconds(kStat, {false, true}, 100), 0.70);
  std::vector<bool> last(13);
  last[12] = true;
  EXPECT_DOUBLE_EQ(worked_seconds(kStat, last, 100), 0.07);
  for (const char* odd : {"", "cpu", "cpu0", "cpux 1 2 3", "cpu99999999999999999999 1 2 3 4 5 6 7"}) EXPECT_EQ(worked_seconds(odd, {true}, 100), 0) << odd;
}

TEST(Others, WhatThisProcessDoesIsNotTheirs) {
  const Others others;
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t began = std::clock();
  double wall = 0, own = 0;
  while (own < 0.3) {
    own = double(std::clock() - began) / CLOCKS_PER_SEC;
    wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  // All cores together cannot do more; a tick or two of each may be counted late.
  EXPECT_GE(others.cores(), 0);
  EXPECT_LE(others.cores(), double(std::thread::hardware_concurrency()) - own / wall + 0.15);
}

}  // namespace
}  // namespace isotope::base
