#include "sample/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace isotope::sample {
namespace {

/// Values with many ties.
std::vector<float> rough(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<float> v(n);
  for (float& x : v) x = float(int(rng() % 97)) / 8 - 4;
  return v;
}

std::vector<Item> sorted(const std::vector<float>& x) {
  std::vector<Item> all;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] > -std::numeric_limits<float>::infinity()) all.push_back({x[i], x[i], int32_t(i)});
  std::sort(all.begin(), all.end(), before);
  return all;
}

TEST(Select, TopKIsTheHeadOfTheSortedRow) {
  std::vector<Item> out;
  for (size_t n : {1, 63, 64, 65, 1000, 20000})
    for (int64_t k : {0, 1, 2, 20, 64, 999, 20000, 1 << 30}) {
      auto x = rough(n, uint32_t(n));
      x[n / 2] = std::numeric_limits<float>::quiet_NaN();
      if (n > 2) x[0] = -std::numeric_limits<float>::infinity();
      auto want = sorted(x);
      want.resize(std::min(want.size(), size_t(k)));
      top_k(x, k, out);
      ASSERT_EQ(out.size(), want.size());
      for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i].id, want[i].id) << n << " " << k << " " << i;
    }
}

TEST(Select, TopKOfAnAscendingRow) {  // every element displaces another
  std::vector<float> x(10000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
  std::vector<Item> out;
  top_k(x, 3, out);
  EXPECT_EQ(out[0].id, 9999);
  EXPECT_EQ(out[2].id, 9997);
}

TEST(Select, NucleusEndsWhereTheSortedRowReachesTheMass) {
  for (size_t n : {1, 2, 31, 33, 500, 5000})
    for (double p : {0.0, 1e-6, 0.1, 0.5, 0.9, 0.999, 1.0, 2.0}) {
      std::vector<float> x = rough(n, uint32_t(n) + 7);
      double total = 0;
      for (float& v : x) total += double(v = v + 4.125f);  // exact eighths: no rounding, any order of summation agrees
      const auto want = sorted(x);
      double need = p * total;
      size_t end = 0;
      for (double sum = 0; end < n; ++end)
        if ((sum += double(want[end].mass)) >= need) break;
      auto items = want;
      std::shuffle(items.begin(), items.end(), std::mt19937(5));
      EXPECT_EQ(nucleus_end(items, need).id, want[std::min(end, n - 1)].id) << n << " " << p;
    }
}

TEST(Select, Kth) {
  const auto want = sorted(rough(300, 3));
  for (int64_t k : {1, 2, 150, 300}) {
    auto items = want;
    std::shuffle(items.begin(), items.end(), std::mt19937(5));
    EXPECT_EQ(kth(items, k).id, want[size_t(k - 1)].id);
  }
}

}  // namespace
}  // namespace isotope::sample
