// Layers with a state against plain loops in double precision; and the same bits from every instruction set, thread count and cut of the tokens.
#include "ops/recurrent.h"

#include "ops/cpu/state_walk.h"

namespace isotope::ops {
namespace {

using namespace test;

TEST(Recurrent, ShortConvolution) {
  const int64_t T = 23, C = 300;
  for (int width = 2; width <= kMaxConvWidth; ++width) {
    ShortConv c{.width = width, .weight = random(size_t(width * C), 1), .bias = width % 2 ? random(size_t(C), 2) : std::vector<float>{}, .silu = width % 3 == 0};
    const auto x = random(size_t(T * C), 3);
    std::vector<double> want;
    for (int64_t t = 0; t < T; ++t)
      for (int64_t i = 0; i < C; ++i) {
        double y = c.bias.empty() ? 0 : double(c.bias[size_t(i)]);
        for (int w = 0; w < width; ++w)
          if (t - width + 1 + w >= 0) y += double(c.weight[size_t(w * C + i)]) * double(x[size_t((t - width + 1 + w) * C + i)]);
        want.push_back(c.silu ? y * sigmoid(y) : y);
      }
    expect_all_ways(T, c.state_floats(), [&](Ops& o, const std::vector<int64_t>& at) { return o.short_conv(rows(o, x, at, C), c, {}); }, want);
  }
}

TEST(Recurrent, ShortConvolutionOfTokensApart) {
  const int64_t T = 37, C = 70;
  for (int dilation : {2, 3, 8}) {
    SCOPED_TRACE(dilation);
    const ShortConv c{.width = 4, .dilation = dilation, .weight = random(size_t(4 * C), 1), .silu = true};
    const auto x = random(size_t(T * C), 3);
    std::vector<double> want;
    for (int64_t t = 0; t < T; ++t)
      for (int64_t i = 0; i < C; ++i) {
        double y = 0;
        for (int w = 0; w < 4; ++w)
          if (const int64_t from = t - (3 - w) * dilation; from >= 0) y += double(c.weight[size_t(w * C + i)]) * double(x[size_t(from * C + i)]);
        want.push_back(y * sigmoid(y));
      }
    expect_all_ways(T, c.state_floats(), [&](Ops& o, const std::vector<int64_t>& at) { return o.short_conv(rows(o, x, at, C), c, {}); }, want);
  }
}

struct DeltaCase {
  const char* name;
  float a, b;  ///< centre of the gates: a far up forgets all, far down nothing; b likewise
  int dk, dv;
  bool tiled = false;
};
class Delta : public testing::TestWithParam<DeltaCase> {};
TEST_P(Delta, AsPlainLoops) {
  const auto [name, a0, b0, dk, dv, tiled] = GetParam();
  const int K = 2, V = 4;
  const int64_t T = 45;
  const auto q = random(size_t(T * K * dk), 1, 0.3f), k = random(size_t(T * K * dk), 2, 0.25f), v = random(size_t(T * V * dv), 3);
  const auto a = random(size_t(T * V), 4, 1, a0), b = random(size_t(T * V), 5, 1, b0);
  const std::vector<float> neg_a = {-0.5f, -2, -0.01f, -1}, bias = {0.1f, -0.3f, 0, 0.5f};
  std::vector<double> want(size_t(T * V * dv)), S(size_t(V * dk * dv), 0);
  for (int64_t t = 0; t < T; ++t)
    for (int h = 0; h < V; ++h) {
      const int64_t at = (t * K + (tiled ? h % K : h / 2)) * dk;
      const float *qt = &q[size_t(at)], *kt = &k[size_t(at)];
      const double alpha = std::exp(double(neg_a[size_t(h)]) * softplus(double(a[size_t(t * V + h)]) + double(bias[size_t(h)])));
      const double beta = sigmoid(double(b[size_t(t * V + h)]));
      for (int j = 0; j < dv; ++j) {
        double* s = &S[size_t(h * dv + j) * size_t(dk)];
        double r = 0, out = 0;
        for (int i = 0; i < dk; ++i) r += (s[i] *= alpha) * double(kt[i]);
        const double u = beta * (double(v[size_t((t * V + h) * dv + j)]) - r);
        for (int i = 0; i < dk; ++i) out += (s[i] += double(kt[i]) * u) * double(qt[i]);
        want[size_t((t * V + h) * dv + j)] = out;
      }
    }
  DeltaArgs args{.neg_a = neg_a, .dt_bias = bias, .key_heads = K, .value_heads = V, .dk = dk, .dv = dv, .tiled = tiled};
  expect_all_ways(T, args.state_floats(), [&](Ops& o, const std::vector<int64_t>& at) {
    args.q = rows(o, q, at, K * dk), args.k = rows(o, k, at, K * dk), args.v = rows(o, v, at, V * dv);
    args.a = rows(o, a, at, V), args.b = rows(o, b, at, V);
    return o.gated_delta(args);
  }, want);
}
INSTANTIATE_TEST_SUITE_P(Gates, Delta,
                         testing::Values(DeltaCase{"usual", 0, 0, 16, 24}, DeltaCase{"remembers", -30, 0, 32, 16}, DeltaCase{"forgets", 60, 0, 16, 16},
                                         DeltaCase{"writes_all", -3, 40, 12, 40}, DeltaCase{"writes_nothing", -3, -200, 16, 8}, DeltaCase{"tiled", 0, 0, 16, 24, true}),
                         [](const auto& info) { return std::string(info.param.name); });

class Scan : public testing::TestWithParam<bool> {};
TEST_P(Scan, AsPlainLoops) {
  const bool channels = GetParam();
  const int H = channels ? 1 : 4, P = channels ? 40 : 24, N = 12, G = channels ? 1 : 2, steps = channels ? P : H;
  const int64_t T = 45;
  const auto x = random(size_t(T * H * P), 1), b = random(size_t(T * G * N), 2), c = random(size_t(T * G * N), 3), dt = random(size_t(T * steps), 4, 2, -1);
  const auto bias = random(size_t(steps), 5), d = random(size_t(steps), 6);
  const int64_t panels = (P + 15) / 16;
  std::vector<float> neg_a = random(size_t(channels ? panels * N * 16 : H), 7);
  for (float& v : neg_a) v = -std::exp(v);
  std::vector<double> want(size_t(T * H * P)), S(size_t(H * P * N), 0);
  for (int64_t t = 0; t < T; ++t)
    for (int h = 0; h < H; ++h)
      for (int p = 0; p < P; ++p) {
        const int s = channels ? p : h, g = h / (H / G);
        const double step = std::min(2.0, softplus(double(dt[size_t(t * steps + s)]) + double(bias[size_t(s)]))), in = double(x[size_t((t * H + h) * P + p)]);
        double out = double(d[size_t(s)]) * in;
        for (int n = 0; n < N; ++n) {
          const double rate = double(neg_a[size_t(channels ? (p / 16 * N + n) * 16 + p % 16 : h)]);
          double& state = S[size_t((h * P + p) * N + n)];
          state = std::exp(rate * step) * state + step * in * double(b[size_t((t * G + g) * N + n)]);
          out += state * double(c[size_t((t * G + g) * N + n)]);
        }
        want[size_t((t * H + h) * P + p)] = out;
      }
  ScanArgs args{.dt_bias = bias, .d = d, .neg_a = neg_a, .dt_low = 0, .dt_high = 2, .heads = H, .dim = P, .states = N, .groups = G, .per_channel = channels};
  expect_all_ways(T, args.state_floats(), [&](Ops& o, const std::vector<int64_t>& at) {
    args.x = rows(o, x, at, H * P), args.b = rows(o, b, at, G * N), args.c = rows(o, c, at, G * N), args.dt = rows(o, dt, at, steps);
    return o.scan(args);
  }, want);
}
INSTANTIATE_TEST_SUITE_P(Mamba, Scan, testing::Bool(), [](const auto& info) { return info.param ? "one" : "two"; });

/// The kernels that go token by token are the reference of those that go chunk by chunk.
class Sequential : public testing::TestWithParam<bool> {};
TEST_P(Sequential, StepsComeToWhatChunksCome) {
  using namespace kernels::cpu;
  const bool delta = GetParam();
  constexpr int kDepth = 33, kTokens = 77;
  const auto q = random(kTokens * kDepth, 1, 0.2f), k = random(kTokens * kDepth, 2, 0.15f), x = random(kTokens * 16, 3);
  std::vector<float> alpha = random(kTokens, 4), step = random(kTokens, 5);
  for (float& v : alpha) v = 1 / (1 + std::exp(-v - 2));
  for (float& v : step) v = 1 / (1 + std::exp(-v));
  alpha[20] = 0;  // forgets all
  const float skip = 0.75f;
  for (const auto& isa : isa_candidates()) {
    if (!isa.runnable) continue;
    const RecurrentKernels& kernels = (*pick_isa(isa.isa))->recurrent;
    std::vector<float> one = random(kDepth * 16, 6), two = one, want(kTokens * 16), got(kTokens * 16);
    if (delta) {
      kernels.delta({.state = one.data(), .q = q.data(), .k = k.data(), .v = x.data(), .alpha = alpha.data(), .beta = step.data(), .out = want.data(),
                     .qk_stride = kDepth, .v_stride = 16, .gate_stride = 1, .out_stride = 16, .tokens = kTokens, .dk = kDepth, .lanes = 16});
    } else {
      kernels.ssd({.state = one.data(), .x = x.data(), .b = k.data(), .c = q.data(), .dt = step.data(), .alpha = alpha.data(), .neg_a = nullptr, .d = &skip,
                   .out = want.data(), .x_stride = 16, .bc_stride = kDepth, .dt_stride = 1, .out_stride = 16, .tokens = kTokens, .states = kDepth, .lanes = 16});
    }
    std::vector<StateRow> table(kTokens);
    std::vector<float> keys(kDepth * kStateChunk), decays(kStateChunk), open(16 * kStateChunk);
    kernels.state_rows({.rows = table.data(), .q = q.data(), .k = k.data(), .alpha = alpha.data(), .step = step.data(), .open_keys = keys.data(),
                        .open_alpha = decays.data(), .next_head = 1, .head_rows = kTokens, .qk_stride = kDepth, .gate_stride = 1, .tokens = kTokens, .at = 0, .keep = kStateChunk,
                        .depth = kDepth, .heads = 1});
    (delta ? kernels.delta_chunks : kernels.ssd_chunks)(
        {.state = two.data(), .open = open.data(), .open_keys = keys.data(), .rows = table.data(), .q = q.data(), .k = k.data(), .x = x.data(),
         .skip = delta ? 0 : skip, .out = got.data(), .qk_stride = kDepth, .x_stride = 16, .out_stride = 16, .tokens = kTokens, .at = 0,
         .depth = kDepth, .lanes = 16});
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << isa.isa << ", token " << i / 16;
  }
}
INSTANTIATE_TEST_SUITE_P(Kernels, Sequential, testing::Bool(), [](const auto& info) { return info.param ? "delta" : "ssd"; });

/// Lightning attention (arXiv:2501.08313) as the scan computes it: S = e^-slope S + v kᵀ, out = S q for each head.
TEST(Lightning, IsTheScanWithStepsOfOne) {
  const int H = 3, d = 24;
  const int64_t T = 21;
  const auto q = random(size_t(T * H * d), 1, 0.3f), k = random(size_t(T * H * d), 2, 0.3f), v = random(size_t(T * H * d), 3);
  const std::vector<float> decay = {-0.7f, -0.05f, -0.0002f}, none(H, 0.0f);
  std::vector<double> want(size_t(T * H * d)), S(size_t(H * d * d), 0);
  for (int64_t t = 0; t < T; ++t)
    for (int h = 0; h < H; ++h)
      for (int j = 0; j < d; ++j) {
        const size_t at = size_t((t * H + h) * d);
        double out = 0;
        for (int i = 0; i < d; ++i) {
          double& s = S[size_t((h * d + j) * d + i)];
          s = std::exp(double(decay[size_t(h)])) * s + double(v[at + size_t(j)]) * double(k[at + size_t(i)]);
          out += s * double(q[at + size_t(i)]);
        }
        want[at + size_t(j)] = out;
      }
  ScanArgs args{.d = none, .neg_a = decay, .dt_low = 1, .dt_high = 1, .heads = H, .dim = d, .states = d, .groups = H};
  expect_all_ways(T, args.state_floats(), [&](Ops& o, const std::vector<int64_t>& tokens) {
    args.x = rows(o, v, tokens, H * d), args.b = rows(o, k, tokens, H * d), args.c = rows(o, q, tokens, H * d);
    return o.scan(args);
  }, want);
}

/// Value heads may share key heads by turns instead of by runs.
TEST(TiledDelta, IsTheGroupedOneInAnotherOrder) {
  const int K = 2, V = 4, d = 16;
  const int64_t T = 9;
  const auto q = random(size_t(T * K * d), 1, 0.3f), k = random(size_t(T * K * d), 2, 0.25f), v = random(size_t(T * V * d), 3);
  const auto a = random(size_t(T * V), 4), b = random(size_t(T * V), 5);
  const std::vector<float> neg_a = {-0.5f, -2, -0.01f, -1}, bias = {0.1f, -0.3f, 0, 0.5f};
  const int tiled_of[] = {0, 2, 1, 3};  // head h of a grouped model stands there in a tiled one
  const auto run = [&](bool tiled) {
    const auto placed = [&](const std::vector<float>& x, int each) {
      std::vector<float> out(x.size());
      for (size_t t = 0; t < x.size() / size_t(V * each); ++t)
        for (int h = 0; h < V; ++h)
          std::copy_n(&x[(t * V + size_t(h)) * size_t(each)], each, &out[(t * V + size_t(tiled ? tiled_of[h] : h)) * size_t(each)]);
      return out;
    };
    const auto neg = placed(neg_a, 1), dt = placed(bias, 1), pv = placed(v, d), pa = placed(a, 1), pb = placed(b, 1);
    DeltaArgs args{.neg_a = neg, .dt_bias = dt, .key_heads = K, .value_heads = V, .dk = d, .dv = d, .tiled = tiled};
    Walk walk({.threads = 1, .pin = false}, args.state_floats());
    const auto got = walk.run(T, T, [&](Ops& o, const std::vector<int64_t>& tokens) {
      args.q = rows(o, q, tokens, K * d), args.k = rows(o, k, tokens, K * d), args.v = rows(o, pv, tokens, V * d);
      args.a = rows(o, pa, tokens, V), args.b = rows(o, pb, tokens, V);
      return o.gated_delta(args);
    });
    return got;
  };
  const auto grouped = run(false), tiled = run(true);
  for (int64_t t = 0; t < T; ++t)
    for (int h = 0; h < V; ++h)
      ASSERT_EQ(std::memcmp(&grouped[size_t((t * V + h) * d)], &tiled[size_t((t * V + tiled_of[h]) * d)], size_t(d) * sizeof(float)), 0) << t << " " << h;
}

}  // namespace
}  // namespace isotope::ops
