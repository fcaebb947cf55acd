// What DeepSeek V4.1 calls beyond V4, against double precision: streams that are read late, memories, rows of tables, choices within blocks.
#include "ops/sparse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "ops/cpu/chosen.h"
#include "ops/cpu/feed.h"

namespace isotope::ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Ops with a batch of `rows` tokens of one sequence.
struct Step {
  explicit Step(int64_t rows, int threads = 1) : ops(*make_cpu_ops({.threads = threads, .pin = false})) {
    tokens.assign(size_t(rows), 0), positions.resize(size_t(rows));
    std::iota(positions.begin(), positions.end(), 0);
    start = {0, int32_t(rows)}, context = {int32_t(rows)};
    ops->begin({.tokens = tokens, .positions = positions, .query_start = start, .context_len = context}, nullptr);
  }
  Tensor tensor(int kind, int64_t rows, int64_t cols) {
    const Tensor t = ops->empty(rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      const auto v = numbers_of(0, r, kind, cols);
      std::copy(v.begin(), v.end(), t.row(r));
    }
    return t;
  }
  std::unique_ptr<Ops> ops;
  std::vector<int32_t> tokens, positions, start, context;
};

TEST(LateStreams, ABlockReadsByTheWeightsOfTheOneBefore) {
  constexpr int n = 3, d = 10, all = (2 + n) * n;
  Step s(2);
  const auto fn = numbers_of(1, 1, 1, all * n * d);
  Streams w{.base = numbers_of(1, 2, 1, all), .scale = {0.7f, 1.1f, 0.9f}, .streams = n, .iterations = 4, .eps = 1e-3f, .norm_eps = 1e-20f};
  w.mix.w = *s.ops->pack({.dtype = tensor::DType::f32, .data = fn.data(), .bytes = fn.size() * 4, .shape = {all, n * d}, .rank = 2});
  const Tensor x = s.tensor(5, 2, n * d);
  SparseOps& o = *s.ops->sparse();
  const StreamStep now = o.enter(x, w);
  Tensor read;
  const StreamStep first = o.enter_late(x, w, read);
  ASSERT_EQ(read.cols, n);
  for (int64_t r = 0; r < 2; ++r) {
    EXPECT_EQ(std::vector<float>(first.x.row(r), first.x.row(r) + d), std::vector<float>(x.row(r), x.row(r) + d)) << "the first block reads the first stream";
    EXPECT_EQ(std::memcmp(first.weights.row(r), now.weights.row(r), size_t(now.weights.cols) * sizeof(float)), 0);
  }
  const Tensor blended = o.blend(x, read);
  const StreamStep second = o.enter_late(x, w, read);
  for (int64_t r = 0; r < 2; ++r) {
    EXPECT_EQ(std::memcmp(second.x.row(r), now.x.row(r), d * sizeof(float)), 0) << "the streams did not change, so these weights are those of now";
    EXPECT_EQ(std::memcmp(blended.row(r), now.x.row(r), d * sizeof(float)), 0);
  }
}

TEST(Memory, AgreesWithDoublePrecision) {
  constexpr int n = 3;
  for (int64_t d : {1, 15, 16, 70}) {
    for (int threads : {1, 3}) {
      constexpr int64_t kRows = 40;
      Step s(kRows, threads);
      const Tensor x = s.tensor(1, kRows, n * d), kv = s.tensor(2, kRows, (n + 1) * d);
      std::fill_n(kv.row(3), d, 0.0f);  // a key of zeros scores zero
      const auto q = numbers_of(1, 0, 3, n * d), k = numbers_of(1, 0, 4, n * d);
      std::vector<float> before(x.row(0), x.row(0) + x.stride * (kRows - 1) + x.cols);
      s.ops->sparse()->add_memory(x, {.kv = kv, .q_weight = q, .k_weight = k, .streams = n, .eps = 1e-6f});
      for (int64_t r = 0; r < kRows; ++r)
        for (int64_t i = 0; i < n; ++i) {
          const float* const stream = before.data() + r * x.stride + i * d;
          double squares[2] = {}, score = 0;
          for (int64_t j = 0; j < d; ++j) {
            squares[0] += double(stream[j]) * double(stream[j]), squares[1] += double(kv.row(r)[i * d + j]) * double(kv.row(r)[i * d + j]);
            score += double(stream[j]) * double(q[size_t(i * d + j)]) * double(kv.row(r)[i * d + j]) * double(k[size_t(i * d + j)]);
          }
          score /= std::sqrt(squares[0] / double(d) + 1e-6) * std::sqrt(squares[1] / double(d) + 1e-6) * std::sqrt(double(d));
          const double gate = 1 / (1 + std::exp(-std::copysign(std::sqrt(std::max(std::abs(score), 1e-6)), score)));
          for (int64_t j = 0; j < d; ++j)
            ASSERT_NEAR(x.row(r)[i * d + j], double(stream[j]) + gate * double(kv.row(r)[n * d + j]), 3e-3) << d << " wide, row " << r << ", stream " << i;
        }
    }
  }
}

TEST(TableRows, ComeSideBySide) {
  std::vector<float> numbers(50 * 3);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const RowTable t{.values = reinterpret_cast<const std::byte*>(numbers.data()), .dtype = tensor::DType::f32, .rows = 50, .dim = 3};
  for (int threads : {1, 3}) {
    constexpr int64_t kRows = 30;
    Step s(kRows, threads);
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < 2 * kRows; ++i) rows.push_back(i * 17 % 50);
    const RowsArgs args{.table = &t, .rows = rows, .each = 2};
    s.ops->sparse()->prefetch_rows(args);
    const Tensor out = s.ops->sparse()->take_rows(args);
    ASSERT_EQ(out.cols, 6);
    for (int64_t i = 0; i < 2 * kRows; ++i)
      for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(out.row(i / 2)[i % 2 * 3 + j], float(rows[size_t(i)] * 3 + j));
  }
}

TEST(ChoiceWithinBlocks, TakesTheBestKeysOfTheBlocksAlone) {
  const std::vector<float> scores = {9, 1, 8, 1, 5, 5, 0, 7, 6, 6, 3};
  float best[4], picked[16];
  int32_t blocks[4], out[16];
  ASSERT_EQ(best_blocks(scores, 4, 1, 2, best, blocks), 2);
  EXPECT_EQ(blocks[0], 0) << "its best key is the best of all";
  EXPECT_EQ(blocks[1], 2) << "the newest block, though its keys are worse than those of block 1";
  const auto within = [&](std::vector<int32_t> b, int64_t top) {
    const int64_t n = choose_within(scores, b, 4, top, picked, out);
    return std::vector<int32_t>(out, out + n);
  };
  EXPECT_THAT(within({0, 2}, 4), ElementsAre(0, 2, 8, 9));
  EXPECT_THAT(within({0, 2}, 3), ElementsAre(0, 2, 8)) << "of equal ones the lower";
  EXPECT_THAT(within({1, 2}, 5), ElementsAre(4, 5, 7, 8, 9));
  EXPECT_THAT(within({2}, 5), ElementsAre(8, 9, 10));
  EXPECT_THAT(within({0, 1, 2}, 100).size(), 11u);
}

// ---- entries whose rotation is put off, and choices in two steps ----------------------------------------------------------------------
enum { kQ = 1, kKv, kInputs, kGates, kIndexQ, kIndexW, kIndexQ2 };
struct Shape {
  int ratio = 2;
  int64_t top = 6, blocks = 4;
  int block_keys = 4;
};
constexpr int kHeads = 3, kDim = 16, kIndexHeads = 5, kIndexDim = 8;

std::vector<KvLayerSpec> layers_of(const Shape& s) {
  return {{.kv_heads = 1, .head_dim = kDim, .form = KvForm::rows},
          {.kv_heads = 1, .head_dim = kDim, .form = KvForm::rows, .every = s.ratio},
          {.kv_heads = 1, .head_dim = kIndexDim, .form = KvForm::rows, .every = s.ratio},
          {.head_dim = 2 * kDim, .form = KvForm::floats}};
}
Rope turning(int dim) { return {.inv_freq = {1.0f, 0.25f}, .rot = 4, .interleaved = true, .first = dim - 4}; }

/// The first half of an entry is its indexer's key as well.
Tensor attend(Feed& f, const Shape& s) {
  const Rope rope = turning(kDim), index_rope = turning(kIndexDim);
  const std::vector<float> norm(kDim, 1.0f), bias(size_t(s.ratio) * kDim, 0.0f);
  SparseOps& o = f.sparse();
  const Tensor made = o.pool({.inputs = f.tensor(kInputs, kDim), .gates = f.tensor(kGates, kDim), .bias = bias, .norm = Norm{norm, 1e-6f}, .ratio = s.ratio,
                              .series = 1, .dim = kDim, .kept = 3});
  if (made) {
    const Tensor keys = f.ops().copy(made.columns(0, kIndexDim));
    o.store_entries({.x = keys, .rope = &index_rope, .layer = 2});
    o.store_entries({.x = made, .rope = &rope, .layer = 1});
  }
  IndexArgs a{.q = f.tensor(kIndexQ, kIndexHeads * kIndexDim), .weights = f.tensor(kIndexW, kIndexHeads), .layer = 2, .heads = kIndexHeads, .dim = kIndexDim,
              .scale = 0.25f, .top = s.top, .blocks = s.blocks, .block_keys = s.block_keys};
  o.choose_keys(a);
  a.q = f.tensor(kIndexQ2, kIndexHeads * kIndexDim), a.blocks = 0, a.within = true;
  o.choose_keys(a);
  return o.attend_compressed({.q = f.tensor(kQ, kHeads * kDim), .kv = f.tensor(kKv, kDim), .heads = kHeads, .dim = kDim, .scale = 0.25f, .recent = 0, .window = 10,
                              .entries = 1, .chosen = true});
}

void turn(std::vector<double>& v, int64_t position) {
  const size_t n = v.size();
  for (size_t i = 0; i < 2; ++i) {
    const double angle = double(position) * (i ? 0.25 : 1.0), a = v[n - 4 + 2 * i], b = v[n - 3 + 2 * i];
    v[n - 4 + 2 * i] = a * std::cos(angle) - b * std::sin(angle), v[n - 3 + 2 * i] = b * std::cos(angle) + a * std::sin(angle);
  }
}

double compare(const Shape& s, const std::vector<float>& got, int64_t length, int& compared) {
  double worst = 0;
  std::vector<std::vector<double>> entries, keys;
  for (int64_t w = 0; w < length / s.ratio; ++w) {
    std::vector<double> e(kDim, 0.0);
    double squares = 0;
    for (size_t j = 0; j < kDim; ++j) {
      double sum = 0;
      for (int64_t t = w * s.ratio; t < (w + 1) * s.ratio; ++t) {
        const double g = std::exp(double(numbers_of(0, t, kGates, kDim)[j]));
        sum += g, e[j] += g * double(numbers_of(0, t, kInputs, kDim)[j]);
      }
      e[j] /= sum, squares += e[j] * e[j];
    }
    for (double& v : e) v /= std::sqrt(squares / kDim + 1e-6);
    keys.emplace_back(e.begin(), e.begin() + kIndexDim);
    turn(e, w * s.ratio), turn(keys.back(), w * s.ratio);
    entries.push_back(e);
  }
  for (int64_t p = 0; p < length; ++p) {
    const auto n = size_t((p + 1) / s.ratio);
    const auto scores = [&](int kind) {
      const auto q = numbers_of(0, p, kind, kIndexHeads * kIndexDim), w = numbers_of(0, p, kIndexW, kIndexHeads);
      std::vector<double> out(n, 0.0);
      for (size_t e = 0; e < n; ++e)
        for (size_t h = 0; h < kIndexHeads; ++h) {
          double x = 0;
          for (size_t j = 0; j < kIndexDim; ++j) x += double(q[h * kIndexDim + j]) * keys[e][j];
          out[e] += double(w[h]) * std::max(0.0, 0.25 * x);
        }
      return out;
    };
    bool close = false;
    const auto best = [&](const std::vector<double>& v, size_t top) {
      std::vector<size_t> order(v.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v[a] > v[b]; });
      if (top < order.size()) {
        const double gap = v[order[top - 1]] - v[order[top]];
        close = close || (gap > 0 && gap < 1e-5);
        order.resize(top);
      }
      return order;
    };
    const auto first = scores(kIndexQ);
    std::vector<double> blocks((n + size_t(s.block_keys) - 1) / size_t(s.block_keys), -1e30);
    for (size_t e = 0; e < n; ++e) blocks[e / size_t(s.block_keys)] = std::max(blocks[e / size_t(s.block_keys)], first[e]);
    if (!blocks.empty()) blocks.back() = 1e30;
    const auto kept = best(blocks, size_t(s.blocks));
    auto second = scores(kIndexQ2);
    for (size_t e = 0; e < n; ++e)
      if (std::find(kept.begin(), kept.end(), e / size_t(s.block_keys)) == kept.end()) second[e] = -1e20;
    std::vector<std::vector<double>> seen;
    for (int64_t t = std::max<int64_t>(0, p - 9); t <= p; ++t) {
      const auto k = numbers_of(0, t, kKv, kDim);
      seen.emplace_back(k.begin(), k.end());
    }
    for (size_t e : best(second, size_t(s.top))) seen.push_back(entries[e]);
    if (close) continue;
    ++compared;
    const auto q = numbers_of(0, p, kQ, kHeads * kDim);
    for (size_t h = 0; h < kHeads; ++h) {
      std::vector<double> out(kDim, 0.0);
      double sum = 0;
      for (const auto& k : seen) {
        double x = 0;
        for (size_t j = 0; j < kDim; ++j) x += double(q[h * kDim + j]) * k[j];
        sum += std::exp(0.25 * x);
        for (size_t j = 0; j < kDim; ++j) out[j] += std::exp(0.25 * x) * k[j];
      }
      for (size_t j = 0; j < kDim; ++j) worst = std::max(worst, std::abs(out[j] / sum - double(got[(size_t(p) * kHeads + h) * kDim + j])));
    }
  }
  return worst;
}

const Shape kShapes[] = {{}, {.ratio = 4, .top = 3, .blocks = 2, .block_keys = 3}, {.ratio = 1, .top = 5, .blocks = 3, .block_keys = 8}, {.top = 100, .blocks = 100}};

TEST(SharedKeys, AgreeWithDoublePrecision) {
  constexpr int64_t kLength = 110;
  for (const Shape& s : kShapes) {
    const auto got = fed(layers_of(s), 1, KvType::f32, kFeedWays[0], kLength, [&](Feed& f) { return attend(f, s); });
    int compared = 0;
    EXPECT_LT(compare(s, got, kLength, compared), 2e-5) << "ratio " << s.ratio;
    EXPECT_GT(compared, kLength * 9 / 10);
  }
}

TEST(SharedKeys, TheSameBitsHoweverThePromptRuns) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE("ratio " + std::to_string(s.ratio));
    expect_same_bits(layers_of(s), 110, [&](Feed& f) { return attend(f, s); });
  }
}

}  // namespace
}  // namespace isotope::ops
