// Attention of encoders against a double-precision reference, and the same bits in any company.
#include "ops/cpu/self_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "isotope/options.h"

namespace isotope::ops {
namespace {

constexpr int kHeads = 3, kDim = 24, kWidth = kHeads * kDim;

struct Rows {
  std::vector<float> data;
  explicit Rows(int64_t n, unsigned seed) : data(size_t(n * kWidth)) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> d;
    for (float& x : data) x = d(rng);
  }
  Tensor tensor(int64_t n) { return {data.data(), n, kWidth, kWidth}; }
};

/// All rows of sequences of these lengths; the k-th sequence's rows come from its own seed.
std::vector<float> attend(std::span<const int> lengths, std::span<const unsigned> seeds, int threads, Precision p) {
  std::vector<int32_t> start{0}, tokens;
  std::vector<float> in[3];
  for (size_t s = 0; s < lengths.size(); ++s) {
    for (unsigned part = 0; part < 3; ++part) {
      const Rows r(lengths[s], seeds[s] * 3 + part);
      in[part].insert(in[part].end(), r.data.begin(), r.data.end());
    }
    start.push_back(start.back() + lengths[s]);
  }
  const int64_t T = start.back();
  tokens.resize(size_t(T));
  const auto ops = *make_cpu_ops({.threads = threads, .precision = p, .pin = false});
  ops->begin({.tokens = tokens, .positions = tokens, .query_start = start, .context_len = {}}, nullptr);
  const auto t = [&](int i) { return Tensor{in[i].data(), T, kWidth, kWidth}; };
  const Tensor out = ops->self_attention({.q = t(0), .k = t(1), .v = t(2), .heads = kHeads, .head_dim = kDim, .scale = 0.2f});
  std::vector<float> got;
  for (int64_t r = 0; r < T; ++r) got.insert(got.end(), out.row(r), out.row(r) + out.cols);
  return got;
}

std::vector<double> reference(int n, unsigned seed) {
  const Rows q(n, seed * 3), k(n, seed * 3 + 1), v(n, seed * 3 + 2);
  std::vector<double> out(size_t(n * kWidth));
  for (int h = 0; h < kHeads; ++h) {
    for (int i = 0; i < n; ++i) {
      std::vector<double> p(static_cast<size_t>(n));
      double sum = 0;
      for (int j = 0; j < n; ++j) {
        double dot = 0;
        for (int d = 0; d < kDim; ++d) dot += double(q.data[size_t(i * kWidth + h * kDim + d)]) * double(k.data[size_t(j * kWidth + h * kDim + d)]);
        sum += p[size_t(j)] = std::exp(0.2 * dot);
      }
      for (int j = 0; j < n; ++j)
        for (int d = 0; d < kDim; ++d) out[size_t(i * kWidth + h * kDim + d)] += p[size_t(j)] / sum * double(v.data[size_t(j * kWidth + h * kDim + d)]);
    }
  }
  return out;
}

TEST(SelfAttention, EqualsTheReference) {
  for (const int n : {1, 2, 15, 16, 17, 127, 128, 129, 300}) {
    const unsigned seed = 5;
    const auto want = reference(n, seed), exact = [&] { const auto v = attend({&n, 1}, {&seed, 1}, 2, Precision::exact); return std::vector<double>(v.begin(), v.end()); }();
    const auto fast = attend({&n, 1}, {&seed, 1}, 2, Precision::fast);
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(exact[i], want[i], 2e-6) << n;
      ASSERT_NEAR(fast[i], want[i], 3e-2) << n;
    }
  }
}

TEST(SelfAttention, SameBitsInAnyCompany) {
  const int lengths[] = {7, 130, 1, 128, 64};
  const unsigned seeds[] = {1, 2, 3, 4, 5};
  for (const Precision p : {Precision::exact, Precision::fast}) {
    const auto together = attend(lengths, seeds, 3, p);
    size_t at = 0;
    for (size_t s = 0; s < std::size(lengths); ++s) {
      const auto alone = attend({&lengths[s], 1}, {&seeds[s], 1}, 1, p);
      EXPECT_EQ(std::memcmp(alone.data(), together.data() + at, alone.size() * sizeof(float)), 0) << s;
      at += alone.size();
    }
  }
}

}  // namespace
}  // namespace isotope::ops
