#include "sample/vector_math.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace isotope::sample {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> noise(size_t n, float scale = 5, uint32_t seed = 1) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> d(0, scale);
  std::vector<float> v(n);
  for (float& x : v) x = d(rng);
  return v;
}

const size_t kSizes[] = {1, 2, 15, 16, 17, 1023, 1024, 1025, 49152, 50001};

TEST(VectorMath, ExpIsCloseOverItsWholeRange) {
  for (float x = 0; x > -86.9f; x -= 0.0137f) EXPECT_NEAR(exp_nonpositive(x) / std::exp(double(x)), 1, 5e-7) << x;
  EXPECT_EQ(exp_nonpositive(0), 1);
  for (float x : {-87.0f, -1000.0f, -FLT_MAX, -kInf, kNan}) EXPECT_EQ(exp_nonpositive(x), 0) << x;
  EXPECT_EQ(exp_nonpositive(kInf), 1);
}

TEST(VectorMath, ReductionsMatchPlainLoops) {
  for (size_t n : kSizes) {
    auto x = noise(n);
    size_t best = 0;
    double sum = 0;
    for (size_t i = 0; i < n; ++i)
      if (x[i] > x[best]) best = i;
    for (size_t i = 0; i < n; ++i) sum += std::exp(double(x[i]) - double(x[best]));
    EXPECT_EQ(argmax(x), int64_t(best));
    EXPECT_EQ(max_of(x), x[best]);
    EXPECT_NEAR(sum_exp(x, x[best]) / sum, 1, 1e-6);
    std::vector<float> e(n);
    EXPECT_EQ(exp_scaled(x, x[best], 1, e), sum_exp(x, x[best]));
    EXPECT_EQ(rank_of(x, int64_t(best)), 1);
    const size_t i = n / 3;
    int64_t rank = 1;
    for (size_t j = 0; j < n; ++j) rank += x[j] > x[i] || (x[j] == x[i] && j < i);
    EXPECT_EQ(rank_of(x, int64_t(i)), rank);
  }
}

TEST(VectorMath, ArgmaxTakesTheLowestOfEqualsAndIgnoresNan) {
  for (size_t n : kSizes) {
    std::vector<float> x(n, -3);
    EXPECT_EQ(argmax(x), 0);
    x[n - 1] = 7;
    EXPECT_EQ(argmax(x), int64_t(n) - 1);
    x[n / 2] = 7;
    EXPECT_EQ(argmax(x), int64_t(n / 2));
    x[0] = kNan;
    EXPECT_EQ(argmax(x), n == 1 ? 0 : int64_t(n / 2) ? int64_t(n / 2) : int64_t(n) - 1);
    std::fill(x.begin(), x.end(), kNan);
    EXPECT_EQ(argmax(x), 0);
    EXPECT_EQ(max_of(x), -kInf);
    EXPECT_EQ(sum_exp(x, max_of(x)), 0);
    std::fill(x.begin(), x.end(), -kInf);
    EXPECT_EQ(argmax(x), 0);
    x[n - 1] = kInf;
    EXPECT_EQ(argmax(x), int64_t(n) - 1);
    EXPECT_EQ(max_of(x), FLT_MAX);
    EXPECT_EQ(sum_exp(x, max_of(x)), 1);
  }
}

TEST(VectorMath, TinyTemperaturesLeaveTheMaximum) {
  const auto x = noise(3000);
  const float m = max_of(x);
  std::vector<float> e(x.size());
  for (float t : {1e-2f, 1e-4f, 1e-8f, 1e-30f, FLT_MIN, 1e-45f}) {
    const double sum = exp_scaled(x, m, t, e);
    EXPECT_EQ(e[size_t(argmax(x))], 1) << t;
    EXPECT_TRUE(sum >= 1 && sum < 1.5) << t;
  }
}

}  // namespace
}  // namespace isotope::sample
