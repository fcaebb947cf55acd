#include "base/inbox.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <thread>
#include <vector>

namespace isotope::base {
namespace {

TEST(Inbox, KeepsEachPuttersOrderAndLosesNothing) {
  Inbox<std::unique_ptr<std::pair<int, int>>> box;
  constexpr int kThreads = 4, kEach = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) box.put(std::make_unique<std::pair<int, int>>(t, i));
    });
  std::map<int, int> next;
  int total = 0;
  while (total < kThreads * kEach) {
    box.wait();
    box.drain([&](auto v) {
      EXPECT_EQ(next[v->first]++, v->second);
      ++total;
    });
  }
  for (auto& t : threads) t.join();
}

TEST(Inbox, PokeEndsAWait) {
  Inbox<int> box;
  std::thread t([&] { box.poke(); });
  box.wait();
  t.join();
  box.put(3);  // values left behind are freed
  const auto start = std::chrono::steady_clock::now();
  box.wait_until(start + std::chrono::hours(1));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

}  // namespace
}  // namespace isotope::base
