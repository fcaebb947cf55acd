#include "ops/cpu/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/pick.h"
#include "ops/cpu/weight_samples.h"

namespace isotope::ops {
namespace {

using kernels::cpu::KernelTable;
using samples::Sample;
using tensor::DType;

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<const KernelTable*> runnable() {
  std::vector<const KernelTable*> r;
  for (const auto& s : kernels::cpu::isa_candidates())
    if (s.runnable) r.push_back(s.table);
  return r;
}

struct Matrix {
  std::vector<float> data;
  Tensor t;
  Matrix(int64_t rows, int64_t cols, int64_t stride) : data(size_t(rows * stride), -77.0f), t{data.data(), rows, cols, stride} {}
};

Matrix activations(int64_t rows, int64_t k, uint32_t seed) {
  Matrix m(rows, k, k + 3);
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) m.t.row(r)[i] = normal(rng) * (rng() % 97 == 0 ? 20.0f : 1.0f);
  return m;
}

Matrix run(const KernelTable& t, int threads, Tensor x, const Weight& w, std::span<const float> bias = {}) {
  base::Team team(threads, false);
  Matrix out(x.rows, w.n, w.n + 5);
  std::vector<std::byte> scratch(linear_scratch_bytes(x.rows, x.cols));
  const LinearJob job{&w, out.t, bias};
  linear(team, t, x, scratch, {&job, 1});
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t i = w.n; i < w.n + 5; ++i) EXPECT_EQ(out.data[size_t(r * out.t.stride + i)], -77.0f) << "wrote beyond its columns";
  return out;
}

::testing::AssertionResult same_bits(Tensor a, Tensor b) {
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.cols; ++c)
      if (std::bit_cast<uint32_t>(a.row(r)[c]) != std::bit_cast<uint32_t>(b.row(r)[c]))
        return ::testing::AssertionFailure() << "row " << r << " column " << c << ": " << a.row(r)[c] << " and " << b.row(r)[c];
  return ::testing::AssertionSuccess();
}

// The activations as the integer kernels see them: code · scale. Read out of a panel of one row.
std::vector<double> as_quantized(const KernelTable& t, const float* x, int64_t k) {
  std::vector<std::byte> panel(kernels::cpu::quantized_bytes(1, k));
  t.gemm.quantize_panel(x, k, 1, k, panel.data());
  std::vector<double> v(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i) {
    const std::byte* record = panel.data() + size_t(i / 32) * kernels::cpu::kRecordBytes;
    float d;
    std::memcpy(&d, record + 32, 4);
    v[size_t(i)] = double(d) * int8_t(record[i % 32]);
  }
  return v;
}

struct Case {
  DType t;
  int64_t n, k;
  bool grouped = false;  ///< one scale for 128 columns
};
void PrintTo(const Case& c, std::ostream* o) { *o << tensor::format(c.t).name << " n=" << c.n << " k=" << c.k << (c.grouped ? " grouped" : ""); }
Sample sample(const Case& c, uint32_t seed) { return c.grouped ? samples::grouped(c.t, c.n, c.k, seed) : samples::tame(c.t, c.n, c.k, seed); }

std::vector<Case> cases() {
  std::vector<Case> r;
  for (const DType t : samples::kWeightTypes) {
    const int64_t b = tensor::format(t).block;
    const std::vector<int64_t> ks = b == 1 ? std::vector<int64_t>{1, 31, 33, 259} : b == 256 ? std::vector<int64_t>{256, 1280} : std::vector<int64_t>{b, 3 * b, 832};
    for (const int64_t k : ks) r.push_back({t, k == ks.front() ? 1 : k == ks.back() ? 53 : 16, k});
    if (t == DType::i4_g32 || t == DType::i8_g16 || t == DType::f8_g32)
      for (const int64_t k : {128, 832, 1280}) r.push_back({t, 53, k, true});
  }
  return r;
}

class Linears : public testing::TestWithParam<Case> {};

// Gate, up and activation in one pass: the bits of three calls, for full panels, small ones and both together, on every instruction set.
TEST_P(Linears, GatedEqualsTheComposedForm) {
  const auto [type, n, k, grouped] = GetParam();
  const Sample a = sample(GetParam(), 7), b = sample(GetParam(), 8);
  const auto gate = pack_weight(a.tensor, {}, Precision::fast), up = pack_weight(b.tensor, {}, Precision::fast);
  ASSERT_TRUE(gate && up);
  const bool integer = static_cast<const PackedWeight&>(**gate).row().integer();
  ASSERT_EQ(can_gate(**gate, **up), integer);
  if (!integer) return;  // composed
  std::vector<float> bias(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) bias[size_t(i)] = float(i % 7) - 3.0f;
  for (const KernelTable* t : runnable()) {
    for (const int64_t rows : {1, 5, 16, 43}) {
      const Matrix x = activations(rows, k, 3), g = run(*t, 1, x.t, **gate, bias), u = run(*t, 1, x.t, **up);
      for (const auto act : {kernels::cpu::Act::silu, kernels::cpu::Act::gelu}) {
        Matrix composed(rows, n, n), fused(rows, n, n + 5);
        for (int64_t r = 0; r < rows; ++r) t->elementwise.act_mul[int(act)](composed.t.row(r), g.t.row(r), u.t.row(r), n);
        std::vector<std::byte> scratch(linear_scratch_bytes(rows, k));
        base::Team team(2, false);
        const LinearJob job{.w = gate->get(), .out = fused.t, .bias = bias, .up = up->get(), .act = act};
        linear(team, *t, x.t, scratch, {&job, 1});
        EXPECT_TRUE(same_bits(fused.t, composed.t)) << t->isa << ", " << rows << " rows";
        EXPECT_EQ(fused.data[size_t(n)], -77.0f) << "wrote beyond its columns";
      }
    }
  }
}

// Against float64, with the activations that the kernel multiplies by: what remains is float32 rounding.
// Each term may be off by 2^-24 of the largest partial sum, a block has three roundings, and minima and codes may cancel (factor 4).
TEST_P(Linears, MatchesTheReference) {
  const auto [type, n, k, grouped] = GetParam();
  const Sample s = sample(GetParam(), 42);
  const Matrix x = activations(3, k, 1);
  for (const Precision precision : {Precision::fast, Precision::exact}) {
    const auto w = pack_weight(s.tensor, {}, precision);
    ASSERT_TRUE(w);
    const bool integer = static_cast<const PackedWeight&>(**w).row().integer();
    std::vector<float> bias(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) bias[size_t(i)] = float(i % 5) - 2.0f;
    const Matrix y = run(*runnable().front(), 1, x.t, **w, bias);
    for (int64_t r = 0; r < 3; ++r) {
      const auto xq = as_quantized(*runnable().front(), x.t.row(r), k);
      for (int64_t i = 0; i < n; ++i) {
        double want = bias[size_t(i)], size = std::fabs(want), top = 0;
        for (int64_t j = 0; j < k; ++j) top = std::max(top, std::fabs(double(s.values[size_t(i * k + j)])));
        for (int64_t j = 0; j < k; ++j) {
          const double v = integer ? xq[size_t(j)] : double(x.t.row(r)[j]);
          want += v * s.values[size_t(i * k + j)];
          size += std::fabs(v) * top;
        }
        ASSERT_NEAR(y.t.row(r)[i], want, 4 * 0x1p-24 * size * std::sqrt(double(k)) + 1e-30) << "row " << r << " n " << i;
      }
    }
  }
}

// Contract 1: alone, among others, at any place in the batch, on any number of threads, on any ISA, with or without other projections beside it.
TEST_P(Linears, SameBitsEverywhere) {
  const auto [type, n, k, grouped] = GetParam();
  const Sample s = sample(GetParam(), 7);
  const auto w = pack_weight(s.tensor, {}, Precision::fast);
  ASSERT_TRUE(w);
  const Matrix x = activations(35, k, 2);
  Matrix alone(35, n, n);
  for (int64_t r = 0; r < 35; ++r) {
    const Matrix y = run(kernels::cpu::table_scalar, 1, {x.t.row(r), 1, k, k + 3}, **w);
    std::copy_n(y.t.row(0), n, alone.t.row(r));
  }
  for (const KernelTable* t : runnable())
    for (const int64_t m : {1, 2, 3, 4, 5, 7, 8, 16, 17, 33})
      for (const int threads : {1, 3}) {
        if (threads > 1 && m != 5 && m != 33) continue;
        const int64_t first = 35 - m;
        const Matrix y = run(*t, threads, {x.t.row(first), m, k, x.t.stride}, **w);
        ASSERT_TRUE(same_bits(y.t, {alone.t.row(first), m, n, n})) << t->isa << " rows " << m << " threads " << threads;
      }
}
INSTANTIATE_TEST_SUITE_P(All, Linears, testing::ValuesIn(cases()));

// What `isotope tune` may choose decides who computes what, never a bit.
TEST(Linear, TuningChangesNoBit) {
  const int64_t k = 512, m = 70;
  const Sample s = samples::tame(DType::q4_k, 130, k, 3);
  const auto w = pack_weight(s.tensor, {}, Precision::fast);
  const Matrix x = activations(m, k, 5);
  base::Team team(3, false);
  for (const KernelTable* t : runnable()) {
    const Matrix want = run(*t, 1, x.t, **w);
    for (const int64_t alone : {int64_t{0}, int64_t{1} << 40})
      for (const int64_t pass : {int64_t{1}, int64_t{40'000}, int64_t{1} << 30}) {
        Matrix out(m, 130, 130);
        std::vector<std::byte> scratch(linear_scratch_bytes(m, k));
        const LinearJob job{w->get(), out.t, {}};
        linear(team, *t, x.t, scratch, {&job, 1}, {.linear_alone = alone, .pass_bytes = pass});
        EXPECT_TRUE(same_bits(out.t, want.t)) << t->isa << " alone " << alone << " pass " << pass;
      }
  }
}

TEST(Linear, SeveralProjectionsOfOneInput) {
  const int64_t k = 512;
  std::vector<Sample> s;
  std::vector<std::unique_ptr<Weight>> w;
  const std::pair<DType, int64_t> shapes[] = {{DType::q5_0, 70}, {DType::f16, 33}, {DType::q6_k, 200}, {DType::q8_0, 1}, {DType::f32, 16}};
  for (const auto& [t, n] : shapes) {
    s.push_back(samples::tame(t, n, k, uint32_t(n)));
    w.push_back(std::move(*pack_weight(s.back().tensor, {}, Precision::fast)));
  }
  for (const KernelTable* t : runnable())
    for (const int threads : {1, 2, 5})
      for (const int64_t m : {1, 3, 40}) {
        const Matrix x = activations(m, k, 4);
        base::Team team(threads, false);
        std::vector<Matrix> out;
        std::vector<LinearJob> jobs;
        for (const auto& weight : w) out.emplace_back(m, weight->n, weight->n + 1);
        for (size_t i = 0; i < w.size(); ++i) jobs.push_back({w[i].get(), out[i].t, {}});
        std::vector<std::byte> scratch(linear_scratch_bytes(m, k));
        linear(team, *t, x.t, scratch, jobs);
        for (size_t i = 0; i < w.size(); ++i) ASSERT_TRUE(same_bits(out[i].t, run(*t, 1, x.t, *w[i]).t)) << t->isa << " job " << i << " rows " << m;
      }
}

// Few output tiles and many rows on many threads: the rows are cut too.
TEST(Linear, CutsRowsWhenTilesAreFew) {
  const Sample s = samples::tame(DType::q4_1, 20, 160, 6);
  const auto w = std::move(*pack_weight(s.tensor, {}, Precision::fast));
  const Matrix x = activations(301, 160, 8);
  for (const KernelTable* t : runnable()) {
    const Matrix one = run(*t, 1, x.t, *w);
    for (const int threads : {2, 3, 7, 16}) ASSERT_TRUE(same_bits(run(*t, threads, x.t, *w).t, one.t)) << t->isa << threads;
  }
}

TEST(Linear, ActivationsKeepHalfAStep) {
  const Matrix x = activations(1, 640, 3);
  for (const KernelTable* t : runnable()) {
    const auto q = as_quantized(*t, x.t.row(0), 640);
    for (int64_t b = 0; b < 640; b += 32) {
      float amax = 0;
      for (int64_t i = b; i < b + 32; ++i) amax = std::max(amax, std::fabs(x.t.row(0)[i]));
      for (int64_t i = b; i < b + 32; ++i) EXPECT_NEAR(q[size_t(i)], x.t.row(0)[i], amax / 254 * 1.0001);
    }
  }
}

// Zeros, denormals, huge values, NaN and infinity in some rows: those rows get what arithmetic gives, the others do not notice.
TEST(Linear, OddActivationsStayInTheirRow) {
  for (const DType type : {DType::q4_0, DType::q4_1, DType::q8_0, DType::q4_k, DType::q6_k, DType::q2_k, DType::nvfp4, DType::f16, DType::f32}) {
    const int64_t k = 512, n = 40;
    const Sample s = samples::tame(type, n, k, 13);
    const auto w = std::move(*pack_weight(s.tensor, {}, Precision::fast));
    Matrix x = activations(20, k, 5);
    const Matrix before = run(kernels::cpu::table_scalar, 1, x.t, *w);
    std::fill_n(x.t.row(0), k, 0.0f);
    x.t.row(2)[77] = NAN;
    x.t.row(4)[0] = kInf;
    x.t.row(6)[511] = -kInf;
    std::fill_n(x.t.row(8), k, 1e-42f);
    std::fill_n(x.t.row(10), k, 3e38f);
    std::fill_n(x.t.row(12), k, -0.0f);
    std::fill_n(x.t.row(14), k, NAN);
    for (const KernelTable* t : runnable()) {
      const Matrix y = run(*t, 2, x.t, *w);
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(y.t.row(0)[i], 0.0f);
        EXPECT_EQ(y.t.row(12)[i], 0.0f);
        EXPECT_TRUE(std::isnan(y.t.row(2)[i]));
        EXPECT_TRUE(std::isnan(y.t.row(14)[i]));
        EXPECT_FALSE(std::isfinite(y.t.row(4)[i]));
        EXPECT_FALSE(std::isfinite(y.t.row(6)[i]));
        EXPECT_NEAR(y.t.row(8)[i], 0.0f, 1e-35f);
      }
      for (const int64_t r : {1, 3, 5, 7, 9, 11, 13, 15, 16, 17, 18, 19})
        EXPECT_TRUE(same_bits({y.t.row(r), 1, n, n}, {before.t.row(r), 1, n, n})) << t->isa << " row " << r << " " << tensor::format(type).name;
    }
  }
}

// Scales at the ends of half precision; a bad block spoils its own output column only.
TEST(Linear, ExtremeScales) {
  const int64_t k = 256, n = 24;
  for (const DType type : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::iq4_nl, DType::q4_k, DType::q5_k, DType::q6_k}) {
    Sample s = samples::tame(type, n, k, 17);
    const uint16_t scales[] = {0x7bff, 0xfbff, 0x0001, 0x8001, 0x0000, 0x8000, 0x7c00, 0x7e00};
    const size_t row = tensor::row_bytes(type, k);
    for (size_t r = 0; r < 8; ++r)
      for (const int at : samples::half_fields(type)) std::memcpy(s.bytes.data() + r * row + size_t(at), &scales[r], 2);
    samples::decode(s);
    const auto w = std::move(*pack_weight(s.tensor, {}, Precision::fast));
    const Matrix x = activations(5, k, 9);
    const Matrix want = run(kernels::cpu::table_scalar, 1, x.t, *w);
    for (const KernelTable* t : runnable()) {
      const Matrix y = run(*t, 1, x.t, *w);
      for (int64_t r = 0; r < 5; ++r)
        for (int64_t i = 0; i < n; ++i) {
          const float a = y.t.row(r)[i], b = want.t.row(r)[i];
          EXPECT_TRUE(std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b))) << t->isa << " " << a << " " << b;
          if (i < 6 || i >= 8) EXPECT_TRUE(std::isfinite(a)) << i;
        }
    }
  }
}

TEST(Linear, NothingToDo) {
  const Sample s = samples::tame(DType::q8_0, 8, 32, 1);
  const auto w = std::move(*pack_weight(s.tensor, {}, Precision::fast));
  base::Team team(2, false);
  const LinearJob job{w.get(), Tensor{nullptr, 0, 8, 8}, {}};
  linear(team, *runnable().front(), Tensor{nullptr, 0, 32, 32}, {}, {&job, 1});
  linear(team, *runnable().front(), Tensor{nullptr, 4, 32, 32}, {}, {});
}

}  // namespace
}  // namespace isotope::ops
