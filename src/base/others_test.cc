#include "base/others.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
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
  std::atomic<bool> stop{false};
  std::thread spin([&] {
    while (!stop) {}
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  stop = true;
  spin.join();
  const double seen = others.cores();
  EXPECT_GE(seen, 0);
  EXPECT_LT(seen, double(std::thread::hardware_concurrency()) - 0.5);
}

}  // namespace
}  // namespace isotope::base
