// Ops by row of a few families against double precision, and the same bits for a row whatever its neighbours and the team.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "kernels/cpu/pick.h"
#include "ops/ops.h"

namespace isotope::ops {
namespace {

constexpr int64_t kCols = 75;  // no whole vectors

struct Step {
  std::unique_ptr<Ops> ops;
  std::vector<int32_t> tokens, positions;
  Step(int threads, int64_t rows, int32_t first = 0, std::string isa = "") : ops(*make_cpu_ops({.threads = threads, .isa = std::move(isa), .pin = false})) {
    for (int64_t r = 0; r < rows; ++r) tokens.push_back(0), positions.push_back(first + int32_t(r));
    ops->begin({.tokens = tokens, .positions = positions}, nullptr);
  }
  Tensor fill(int64_t rows, int64_t cols, unsigned seed, float centre = 0) {
    const Tensor t = ops->empty(rows, cols);
    std::mt19937 rng(seed);
    std::normal_distribution<float> d(centre, 2);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) t.row(r)[c] = d(rng);
    return t;
  }
};

std::vector<float> row(Tensor t, int64_t r) { return {t.row(r), t.row(r) + t.cols}; }

double mean_square(std::span<const float> v) {
  double sum = 0;
  for (float x : v) sum += double(x) * x;
  return sum / double(v.size());
}

TEST(Rowwise, GrowsQueriesWithTheirPosition) {
  Step s(2, 300, 10);
  const Tensor x = s.fill(300, kCols, 1), was = s.ops->copy(x);
  s.ops->scale_by_position(x, {.beta = 0.1f, .period = 16, .offset = 1});
  for (int64_t r = 0; r < 300; ++r) {
    const double factor = 1 + 0.1 * std::log1p(std::floor((10 + double(r) + 1) / 16));
    for (int64_t c = 0; c < kCols; ++c) ASSERT_NEAR(x.row(r)[c], factor * was.row(r)[c], 1e-6 * std::abs(factor * was.row(r)[c]));
  }
  EXPECT_EQ(row(x, 4), row(was, 4));  // position 14: not grown yet
}

TEST(Rowwise, KeepsWhatStandsOut) {
  Step s(2, 1);
  const Tensor x = s.fill(400, kCols, 2, 3), was = s.ops->copy(x);
  s.ops->keep_above(x, 1.6448536f);
  int64_t kept = 0;
  for (int64_t r = 0; r < x.rows; ++r) {
    double mean = 0, square = 0;
    for (float v : row(was, r)) mean += v / double(kCols);
    for (float v : row(was, r)) square += (v - mean) * (v - mean) / double(kCols);
    for (int64_t c = 0; c < kCols; ++c) {
      ASSERT_NEAR(x.row(r)[c], std::max(0.0, was.row(r)[c] - mean - 1.6448536 * std::sqrt(square)), 1e-5);
      kept += x.row(r)[c] > 0;
    }
  }
  EXPECT_NEAR(double(kept) / double(x.rows * kCols), 0.05, 0.01);
}

TEST(Rowwise, ClampsAddsByRowAndMatchesSizes) {
  Step s(2, 1);
  const Tensor x = s.fill(50, kCols, 3), y = s.fill(50, kCols, 4), c = s.fill(50, 4, 5), was = s.ops->copy(x);
  s.ops->clamp(x, -1, 0.5f);
  for (int64_t r = 0; r < 50; ++r)
    for (int64_t i = 0; i < kCols; ++i) ASSERT_EQ(x.row(r)[i], std::clamp(was.row(r)[i], -1.0f, 0.5f));
  const Tensor z = s.ops->copy(was);
  s.ops->add_by_row(z, y, c.columns(2, 1));
  for (int64_t r = 0; r < 50; ++r)
    for (int64_t i = 0; i < kCols; ++i) ASSERT_NEAR(z.row(r)[i], was.row(r)[i] + double(c.row(r)[2]) * y.row(r)[i], 1e-5);
  std::fill_n(was.row(7), kCols, 0.0f);  // nothing stands at its size
  const Tensor like = s.fill(50, 20, 6);
  s.ops->match_size(was, like, 1e-5f);
  for (int64_t r = 0; r < 50; ++r) {
    const double want = r == 7 ? 0 : std::sqrt(mean_square(row(like, r)));
    ASSERT_NEAR(std::sqrt(mean_square(row(was, r))), want, 1e-5 * (1 + want)) << r;
  }
}

TEST(Rowwise, HeadsAreCutAndFilledUp) {
  Step s(1, 1);
  const Tensor x = s.fill(3, 4 * 6, 7), wide = s.ops->resize_heads(x, 6, 8);
  ASSERT_EQ(wide.cols, 4 * 8);
  for (int64_t r = 0; r < 3; ++r)
    for (int h = 0; h < 4; ++h)
      for (int i = 0; i < 8; ++i) EXPECT_EQ(wide.row(r)[h * 8 + i], i < 6 ? x.row(r)[h * 6 + i] : 0.0f);
  const Tensor back = s.ops->resize_heads(wide, 8, 6);
  for (int64_t r = 0; r < 3; ++r) EXPECT_EQ(row(back, r), row(x, r));
}

TEST(Rowwise, OneGateForEachHead) {
  Step s(2, 1);
  const Tensor x = s.fill(40, 5 * 15, 8), gate = s.fill(40, 5, 9), was = s.ops->copy(x), raw = s.ops->copy(gate);
  s.ops->sigmoid_mul(x, gate);
  for (int64_t r = 0; r < 40; ++r)
    for (int64_t c = 0; c < x.cols; ++c) ASSERT_NEAR(x.row(r)[c], was.row(r)[c] / (1 + std::exp(-double(raw.row(r)[c / 15]))), 2e-6);
}

TEST(Rowwise, ALayerNormIsARowSource) {
  Step s(2, 1);
  std::vector<float> weight(kCols, 1.5f), bias(kCols, -0.25f);
  weight[3] = -2, bias[4] = 7;
  const Tensor x = s.fill(20, kCols, 10, 4), add = s.fill(20, kCols, 11), was = s.ops->copy(x), delta = s.ops->copy(add);
  const Tensor y = s.ops->rows({.x = x, .add = add, .add_scale = 0.5f, .norm = Norm{.weight = weight, .eps = 1e-5f, .bias = bias}});
  for (int64_t r = 0; r < 20; ++r) {
    double mean = 0, square = 0;
    std::vector<double> v;
    for (int64_t c = 0; c < kCols; ++c) v.push_back(was.row(r)[c] + 0.5 * delta.row(r)[c]), mean += v.back() / double(kCols);
    for (double a : v) square += (a - mean) * (a - mean) / double(kCols);
    for (int64_t c = 0; c < kCols; ++c) {
      ASSERT_NEAR(x.row(r)[c], v[size_t(c)], 1e-5);  // the residual has taken the sum, not the norm
      ASSERT_NEAR(y.row(r)[c], weight[size_t(c)] * (v[size_t(c)] - mean) / std::sqrt(square + 1e-5) + bias[size_t(c)], 2e-5);
    }
  }
}

/// Each op on all rows at once, with a team, equals the op on a row alone, on every instruction set.
TEST(Rowwise, ARowIsItsOwn) {
  const std::function<void(Ops&, Tensor, Tensor)> all[] = {
      [](Ops& o, Tensor x, Tensor) { o.keep_above(x, 0.7f); },
      [](Ops& o, Tensor x, Tensor) { o.clamp(x, -1, 1); },
      [](Ops& o, Tensor x, Tensor y) { o.add_by_row(x, y, y.columns(1, 1)); },
      [](Ops& o, Tensor x, Tensor y) { o.match_size(x, y, 1e-5f); },
      [](Ops& o, Tensor x, Tensor y) { o.sigmoid_mul(x, o.copy(y.columns(0, 25))); },
  };
  for (size_t i = 0; i < std::size(all); ++i) {
    std::vector<float> want;
    for (const auto& isa : kernels::cpu::isa_candidates()) {
      if (!isa.runnable) continue;
      for (int threads : {1, 3}) {
        Step s(threads, 1, 0, std::string(isa.isa));
        const Tensor x = s.fill(700, kCols, 12), y = s.fill(700, kCols, 13), alone = s.ops->copy(x);
        all[i](*s.ops, x, y);
        for (int64_t r : {0, 333, 699}) {
          all[i](*s.ops, {alone.row(r), 1, kCols, alone.stride}, {y.row(r), 1, kCols, y.stride});
          ASSERT_EQ(std::memcmp(alone.row(r), x.row(r), kCols * 4), 0) << "op " << i << ", row " << r << ", " << isa.isa;
        }
        std::vector<float> got;
        for (int64_t r = 0; r < x.rows; ++r) got.insert(got.end(), x.row(r), x.row(r) + kCols);
        if (want.empty()) want = got;
        ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * 4), 0) << "op " << i << " on " << isa.isa;
      }
    }
  }
}

}  // namespace
}  // namespace isotope::ops
