#include "ops/cpu/cpu_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace isotope::ops {
namespace {

/// A batch of T plain tokens of one sequence, positions from `first` on.
struct Step {
  std::vector<int32_t> tokens, positions, start, context;
  explicit Step(int64_t T, int32_t first = 0) : start{0, int32_t(T)}, context{first + int32_t(T)} {
    for (int64_t t = 0; t < T; ++t) tokens.push_back(int32_t(t * 7 % 10)), positions.push_back(first + int32_t(t));
  }
  Batch batch() const { return {.tokens = tokens, .positions = positions, .query_start = start, .context_len = context}; }
};

std::unique_ptr<Ops> make(int threads, Precision p = Precision::fast) { return *make_cpu_ops({.threads = threads, .precision = p, .pin = false}); }

std::vector<float> normal(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> d;
  std::vector<float> r(static_cast<size_t>(n));
  for (float& x : r) x = d(rng);
  return r;
}

Tensor tensor_of(Ops& o, const std::vector<float>& data, int64_t rows, int64_t cols) {
  const Tensor t = o.empty(rows, cols);
  for (int64_t r = 0; r < rows; ++r) std::memcpy(t.row(r), &data[size_t(r * cols)], size_t(cols) * 4);
  return t;
}

std::vector<float> values(Tensor t) {
  std::vector<float> out;
  for (int64_t r = 0; r < t.rows; ++r) out.insert(out.end(), t.row(r), t.row(r) + t.cols);
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

HostTensor host(const std::vector<float>& data, int64_t n, int64_t k) {
  return {.dtype = tensor::DType::f32, .data = data.data(), .bytes = data.size() * 4, .shape = {n, k}, .rank = 2};
}

/// Runs every row-wise operation on x [T, D] and returns all results in a row.
std::vector<float> all_ops(Ops& o, const std::vector<float>& data, int64_t T, int64_t D, int32_t first) {
  const Step step(T, first);
  o.begin(step.batch(), nullptr);
  const auto w = normal(D, 91), hw = normal(32, 92);
  Rope rope{.scale = 1.1f, .rot = 32};
  for (int i = 0; i < 16; ++i) rope.inv_freq.push_back(std::pow(10000.0f, -float(i) / 16));
  const Tensor x = tensor_of(o, data, T, D), norm = o.rms_norm(x, w, 1e-5f), act = o.act_mul(x, norm, Activation::gelu_tanh);
  o.head_norm(act, 32, hw, 1e-6f);
  o.rope(act, 32, rope);
  const Tensor sum = o.add_rms_norm(act, norm, w, 1e-5f);
  o.add(sum, x, 0.3f);
  o.scale(sum, 1.7f);
  const Tensor capped = tensor_of(o, values(sum), T, D);
  o.softcap(capped, 5.0f);
  auto out = values(sum);
  for (float v : values(capped)) out.push_back(v);
  return out;
}

TEST(CpuOps, RowsDependOnThemselvesAloneAndThreadsDoNotMatter) {
  const int64_t T = 67, D = 320;
  const auto data = normal(T * D, 1);
  const auto expected = all_ops(*make(1), data, T, D, 100);
  for (int threads : {1, 2, 3}) {
    auto o = make(threads);
    EXPECT_TRUE(same_bits(all_ops(*o, data, T, D, 100), expected)) << threads;
    for (int64_t t : {int64_t{0}, int64_t{33}, T - 1}) {
      const std::vector<float> row(data.begin() + t * D, data.begin() + (t + 1) * D);
      const auto alone = all_ops(*o, row, 1, D, int32_t(100 + t));
      for (int part = 0; part < 2; ++part) {
        EXPECT_EQ(0, std::memcmp(&alone[size_t(part * D)], &expected[size_t((part * T + t) * D)], size_t(D) * 4)) << "row " << t << " part " << part;
      }
    }
  }
}

TEST(CpuOps, FusedFormsEqualTheComposedOnes) {
  for (int64_t T : {1, 5, 64}) {
    auto o = make(2);
    const Step step(T);
    o->begin(step.batch(), nullptr);
    const int64_t D = 96, F = 256;
    const auto w = normal(D, 3), xs = normal(T * D, 4), ys = normal(T * D, 5), gs = normal(F * D, 6), us = normal(F * D, 7);
    const Tensor x1 = tensor_of(*o, xs, T, D), x2 = tensor_of(*o, xs, T, D), y = tensor_of(*o, ys, T, D);
    const Tensor fused = o->add_rms_norm(x1, y, w, 1e-5f);
    o->add(x2, y);
    EXPECT_TRUE(same_bits(values(fused), values(o->rms_norm(x2, w, 1e-5f))));
    EXPECT_TRUE(same_bits(values(x1), values(x2)));
    const Linear gate{.w = *o->pack(host(gs, F, D)), .bias = normal(F, 8)}, up{.w = *o->pack(host(us, F, D))};
    for (Activation a : {Activation::silu, Activation::gelu_tanh, Activation::relu2}) {
      const Tensor composed = o->act_mul(o->linear(fused, gate), o->linear(fused, up), a);
      EXPECT_TRUE(same_bits(values(o->linear_act(fused, gate, up, a)), values(composed)));
    }
  }
}

TEST(CpuOps, LinearNEqualsLinearAndTheReference) {
  auto o = make(2, Precision::exact);
  const int64_t D = 100, N[] = {64, 7, 129};
  for (int64_t T : {1, 3, 40}) {
    const Step step(T);
    o->begin(step.batch(), nullptr);
    const auto xs = normal(T * D, 11);
    const Tensor x = tensor_of(*o, xs, T, D);
    std::vector<std::vector<float>> ws;
    std::vector<Linear> linears;
    for (int i = 0; i < 3; ++i) {
      ws.push_back(normal(N[i] * D, unsigned(20 + i)));
      linears.push_back({.w = *o->pack(host(ws.back(), N[i], D)), .bias = i == 1 ? std::vector<float>() : normal(N[i], unsigned(30 + i))});
    }
    const Linear* ptrs[] = {&linears[0], &linears[1], &linears[2]};
    Tensor outs[3];
    o->linear_n(x, ptrs, outs);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(same_bits(values(outs[i]), values(o->linear(x, linears[size_t(i)])))) << i;
      for (int64_t t = 0; t < T; ++t) {
        for (int64_t n = 0; n < N[i]; ++n) {
          double s = linears[size_t(i)].bias.empty() ? 0 : double(linears[size_t(i)].bias[size_t(n)]);
          for (int64_t k = 0; k < D; ++k) s += double(xs[size_t(t * D + k)]) * double(ws[size_t(i)][size_t(n * D + k)]);
          ASSERT_NEAR(outs[i].row(t)[n], s, 5e-5) << i << " " << t << " " << n;
        }
      }
    }
  }
}

TEST(CpuOps, EmbedScalesRowsOfTheTable) {
  auto o = make(2, Precision::exact);
  const int64_t D = 64;
  const auto table = normal(10 * D, 12);
  const auto w = *o->pack(host(table, 10, D));
  const Step step(33);
  o->begin(step.batch(), nullptr);
  const Tensor x = o->embed(*w, 3.0f);
  for (int64_t t = 0; t < 33; ++t) {
    for (int64_t j = 0; j < D; ++j) ASSERT_EQ(x.row(t)[j], table[size_t(step.tokens[size_t(t)] * D + j)] * 3.0f);
  }
}

TEST(CpuOps, GatherTakesRows) {
  auto o = make(1);
  const Step step(4);
  o->begin(step.batch(), nullptr);
  const auto data = normal(4 * 10, 13);
  const Tensor x = tensor_of(*o, data, 4, 10);
  const int32_t rows[] = {3, 0};
  const Tensor y = o->gather(x, rows);
  ASSERT_EQ(y.rows, 2);
  for (int j = 0; j < 10; ++j) {
    EXPECT_EQ(y.row(0)[j], data[size_t(30 + j)]);
    EXPECT_EQ(y.row(1)[j], data[size_t(j)]);
  }
}

/// Angles are float32 products, their cos and sin exact even a million tokens in.
TEST(CpuOps, RopeIsRightAtFarPositions) {
  for (int32_t first : {0, 1000, 99'999, 1'000'000}) {
    auto o = make(1);
    const Step step(3, first);
    o->begin(step.batch(), nullptr);
    Rope rope{.rot = 64};
    for (int i = 0; i < 32; ++i) rope.inv_freq.push_back(float(std::pow(10000.0, -i / 32.0)));
    const auto data = normal(3 * 64, 14);
    const Tensor x = tensor_of(*o, data, 3, 64);
    o->rope(x, 64, rope);
    for (int64_t t = 0; t < 3; ++t) {
      for (int i = 0; i < 32; ++i) {
        const double angle = double(float(first + t) * rope.inv_freq[size_t(i)]), a = double(data[size_t(t * 64 + i)]), b = double(data[size_t(t * 64 + 32 + i)]);
        ASSERT_NEAR(x.row(t)[i], a * std::cos(angle) - b * std::sin(angle), 1e-6);
        ASSERT_NEAR(x.row(t)[32 + i], b * std::cos(angle) + a * std::sin(angle), 1e-6);
      }
    }
  }
}

TEST(CpuOps, TwoRopesInOneStepDoNotMix) {
  auto o = make(1);
  const Step step(2, 5);
  const auto data = normal(2 * 16, 15);
  auto rotate = [&](float base) {
    Rope r{.rot = 16};
    for (int i = 0; i < 8; ++i) r.inv_freq.push_back(std::pow(base, -float(i) / 8));
    const Tensor x = tensor_of(*o, data, 2, 16);
    o->rope(x, 16, r);
    return values(x);
  };
  o->begin(step.batch(), nullptr);
  const auto a = rotate(10000), b = rotate(1e6f), again = rotate(10000);
  EXPECT_TRUE(same_bits(a, again));
  EXPECT_FALSE(same_bits(a, b));
  const Step later(2, 6);
  o->begin(later.batch(), nullptr);
  EXPECT_FALSE(same_bits(a, rotate(10000)));
}

TEST(CpuOps, TensorsLiveUntilTheEndOfTheNextLayer) {
  auto o = make(1);
  const Step step(3);
  o->begin(step.batch(), nullptr);
  auto filled = [&](float v) {
    const Tensor t = o->empty(3, 1000);
    for (int64_t r = 0; r < 3; ++r) std::fill_n(t.row(r), 1000, v);
    return t;
  };
  const Tensor outside = filled(-1);
  Tensor last = outside;
  for (int layer = 0; layer < 6; ++layer) {
    o->next_layer();
    const Tensor now = filled(float(layer));
    for (int i = 0; i < 5; ++i) filled(100);
    EXPECT_EQ(last.row(2)[999], float(layer - 1));
    EXPECT_EQ(now.row(0)[0], float(layer));
    EXPECT_EQ(outside.row(1)[500], -1.0f);
    last = now;
  }
}

TEST(CpuOps, DescribesItself) {
  EXPECT_THAT(make(1)->describe(), testing::StartsWith("cpu "));
  EXPECT_THAT(make(3, Precision::exact)->describe(), testing::HasSubstr("3 threads, exact"));
  const auto scalar = *make_cpu_ops({.threads = 1, .isa = "scalar"});
  EXPECT_EQ(scalar->describe(), "cpu scalar, 1 thread");
}

TEST(CpuOps, BadOptionsAreErrors) {
  EXPECT_FALSE(make_cpu_ops({.threads = -1}));
  EXPECT_FALSE(make_cpu_ops({.threads = 1 << 20}));
  EXPECT_FALSE(make_cpu_ops({.isa = "avx9000"}));
}

TEST(CpuOps, KvBlockBytesAreTheCachesOwn) {
  auto o = make(1);
  const KvLayerSpec layers[] = {{0, 3, 64}, {1, 1, 40}, {0, 3, 64}};
  for (KvType t : {KvType::f32, KvType::bf16, KvType::int8}) {
    const int64_t blocks[] = {3, 2};
    const auto kv = *o->make_kv(layers, blocks, 32, t);
    EXPECT_EQ(kv->bytes, 3 * o->kv_block_bytes(layers, 0, 32, t) + 2 * o->kv_block_bytes(layers, 1, 32, t));
  }
}

}  // namespace
}  // namespace isotope::ops
