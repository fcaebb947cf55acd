#include "ops/cpu/chosen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace isotope::ops {
namespace {

std::vector<int32_t> chosen(const std::vector<float>& scores, int64_t top) {
  std::vector<int32_t> out(scores.size() + 1, -7);
  const int64_t n = choose_top(scores, top, out.data());
  EXPECT_EQ(out[size_t(n)], -7) << "nothing is written behind the list";
  out.resize(size_t(n));
  return out;
}

/// Sorted by score, then by number.
std::vector<int32_t> sorted(const std::vector<float>& scores, int64_t top) {
  std::vector<int32_t> out(scores.size());
  std::iota(out.begin(), out.end(), 0);
  std::stable_sort(out.begin(), out.end(), [&](int32_t a, int32_t b) { return scores[size_t(a)] > scores[size_t(b)]; });
  out.resize(size_t(std::min<int64_t>(top, int64_t(out.size()))));
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Chosen, AreTheLargest) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (int n : {1, 2, 15, 16, 17, 300, 5000}) {
    std::vector<float> scores(size_t(n), 0.0f);
    for (float& s : scores) s = normal(rng);
    for (int64_t top : {1, 2, 7, 64, 2048}) EXPECT_EQ(chosen(scores, top), sorted(scores, top)) << n << " " << top;
  }
}

TEST(Chosen, OfEqualScoresTheLowerNumberWins) {
  std::mt19937 rng(2);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> scores(size_t(1 + rng() % 100));
    for (float& s : scores) s = float(int(rng() % 4)) - 1.5f;
    const int64_t top = int64_t(1 + rng() % 40);
    EXPECT_EQ(chosen(scores, top), sorted(scores, top));
  }
  EXPECT_EQ(chosen({0.0f, -0.0f, 0.0f, -0.0f}, 2), (std::vector<int32_t>{0, 1})) << "both zeros are equal";
  EXPECT_EQ(chosen({1, 1, 1, 1}, 3), (std::vector<int32_t>{0, 1, 2}));
}

TEST(Chosen, StrangeScoresAndCounts) {
  EXPECT_EQ(chosen({}, 5), std::vector<int32_t>());
  EXPECT_EQ(chosen({3, 1}, 0), std::vector<int32_t>());
  EXPECT_EQ(chosen({3, 1}, 2), (std::vector<int32_t>{0, 1}));
  const float inf = INFINITY;
  EXPECT_EQ(chosen({-inf, 1, inf, -inf, 2}, 3), (std::vector<int32_t>{1, 2, 4}));
  EXPECT_EQ(chosen({1e-42f, -1e-42f, 0, 3.4e38f}, 2), (std::vector<int32_t>{0, 3}));
  std::vector<float> nan(20, std::nanf(""));
  EXPECT_EQ(chosen(nan, 4).size(), 4u);
}

std::vector<int32_t> blocks(const std::vector<float>& scores, int block, int local, int64_t top) {
  std::vector<float> best(scores.size() + 1);
  std::vector<int32_t> ids(size_t(top), 0), out(scores.size() + 1, -7);
  const int64_t n = choose_blocks(scores, block, local, top, best.data(), ids.data(), out.data());
  out.resize(size_t(n));
  return out;
}

TEST(ChosenBlocks, CountByTheirBestKeyAndTheLastOnesAreIn) {
  const std::vector<float> s = {0, 9, 0,  1, 1, 1,  2, 0, 5,  0, 0};  // blocks of three: 9, 1, 5, 0
  EXPECT_EQ(blocks(s, 3, 0, 2), (std::vector<int32_t>{0, 1, 2, 6, 7, 8}));
  EXPECT_EQ(blocks(s, 3, 1, 2), (std::vector<int32_t>{0, 1, 2, 9, 10}));
  EXPECT_EQ(blocks(s, 3, 2, 2), (std::vector<int32_t>{6, 7, 8, 9, 10}));
  EXPECT_EQ(blocks(s, 3, 1, 9), blocks(s, 3, 0, 4)) << "more than there are";
  EXPECT_EQ(blocks({4, 4, 4, 4, 4, 4}, 2, 0, 2), (std::vector<int32_t>{0, 1, 2, 3})) << "of equal blocks the lower wins";
  EXPECT_EQ(blocks({1}, 128, 1, 16), std::vector<int32_t>{0});
}

TEST(ChosenTokens, AreThoseOfTheBestKeysAndTheOnesWithoutAKey) {
  const auto tokens = [](const std::vector<float>& scores, TokenKeys k) {
    std::vector<int32_t> keys(size_t(k.top), -1), out(size_t(k.top * k.every + k.every - 1), -7);
    out.resize(size_t(choose_tokens(scores, k, keys.data(), out.data())));
    return out;
  };
  EXPECT_EQ(tokens({1, 5, 2}, {2, 2, 7}), (std::vector<int32_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(tokens({1, 5, 2}, {1, 2, 6}), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(tokens({1, 1}, {1, 4, 11}), (std::vector<int32_t>{0, 1, 2, 3, 8, 9, 10})) << "of equal keys the lower wins";
  EXPECT_EQ(tokens({}, {3, 4, 3}), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(tokens({4}, {3, 4, 4}), (std::vector<int32_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace isotope::ops
