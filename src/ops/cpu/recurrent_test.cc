// Layers with a state against plain loops in double precision; and the same bits from every instruction set, thread count and cut of the tokens.
#include "ops/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "kernels/cpu/pick.h"
#include "ops/ops.h"

namespace isotope::ops {
namespace {

std::vector<float> random(size_t n, uint32_t seed, float scale = 1, float centre = 0) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> d(centre, scale);
  std::vector<float> v(n);
  for (float& x : v) x = d(gen);
  return v;
}

/// Runs the op over rows that hold the numbers of these tokens.
using Step = std::function<Tensor(Ops&, const std::vector<int64_t>& tokens)>;

/// Sequences that all consist of the same tokens, in slots that were full of another's numbers.
class Walk {
 public:
  static constexpr int32_t kSlots = 4;
  /// Tokens [first, first + n) of the sequence in a slot.
  struct Part {
    int32_t slot;
    int64_t first, n;
  };

  Walk(const CpuOpsOptions& o, int64_t state_floats) : ops_(*make_cpu_ops(o)) {
    const KvLayerSpec spec{.group = 0, .state_floats = state_floats};
    const int64_t slots[] = {kSlots};
    kv_ = *ops_->make_kv({&spec, 1}, slots, 16, KvType::f32);
    for (int slot = 0; slot < kSlots; ++slot) spoil(slot);
  }

  std::vector<float> step(const std::vector<Part>& parts, const Step& f) {
    std::vector<int32_t> tokens, positions, start{0}, context, slots;
    std::vector<int64_t> at;
    for (const Part& p : parts) {
      for (int64_t i = p.first; i < p.first + p.n; ++i) at.push_back(i), positions.push_back(int32_t(i));
      start.push_back(int32_t(at.size()));
      context.push_back(int32_t(p.first + p.n));
      slots.push_back(p.slot);
    }
    tokens.resize(at.size());
    const Batch::Group group{slots.data(), 1, {}};
    ops_->begin({tokens, positions, start, context, {}, {&group, 1}}, kv_.get());
    const Tensor t = f(*ops_, at);
    std::vector<float> out;
    for (int64_t r = 0; r < t.rows; ++r) out.insert(out.end(), t.row(r), t.row(r) + t.cols);
    return out;
  }

  /// T tokens in steps of `chunk`. Moves: each step finds the state in another slot, as after a checkpoint.
  std::vector<float> run(int64_t T, int64_t chunk, const Step& f, bool moves = false) {
    std::vector<float> out;
    int32_t slot = 1;
    for (int64_t at = 0; at < T; at += chunk) {
      const auto part = step({{slot, at, std::min(chunk, T - at)}}, f);
      out.insert(out.end(), part.begin(), part.end());
      if (!moves) continue;
      kv_->copy_block(0, slot, (slot + 1) % kSlots);
      spoil(slot);
      slot = (slot + 1) % kSlots;
    }
    return out;
  }

 private:
  void spoil(int slot) {
    const auto bytes = kv_->block_bytes(0, slot);
    std::fill_n(reinterpret_cast<float*>(bytes.data()), bytes.size() / 4, 1e6f);
  }
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<KvCache> kv_;
};

Tensor rows(Ops& o, const std::vector<float>& all, const std::vector<int64_t>& tokens, int64_t cols) {
  const Tensor t = o.empty(int64_t(tokens.size()), cols);
  for (int64_t r = 0; r < t.rows; ++r) std::copy_n(all.data() + tokens[size_t(r)] * cols, cols, t.row(r));
  return t;
}

double softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Three sequences in the same steps, which they enter and leave at different places.
void expect_together(int64_t T, int64_t state_floats, const Step& step, const std::vector<float>& want) {
  Walk walk({.threads = 2, .pin = false}, state_floats);
  int64_t done[3] = {};
  std::mt19937 gen(3);
  const size_t cols = want.size() / size_t(T);
  while (*std::min_element(done, done + 3) < T) {
    std::vector<Walk::Part> parts;
    for (int s = 0; s < 3; ++s)
      if (done[s] < T && gen() % 4) parts.push_back({s + 1, done[s], std::min<int64_t>(T - done[s], 1 + int64_t(gen() % (gen() % 3 ? 3 : 19)))});
    if (parts.empty()) continue;
    const auto got = walk.step(parts, step);
    size_t row = 0;
    for (const auto& p : parts) {
      ASSERT_EQ(std::memcmp(&got[row * cols], &want[size_t(p.first) * cols], size_t(p.n) * cols * sizeof(float)), 0) << "slot " << p.slot << ", token " << p.first;
      row += size_t(p.n);
      done[p.slot - 1] += p.n;
    }
  }
}

/// Every way to run it gives the bits of the first; those are near `want`.
void expect_all_ways(int64_t T, int64_t state_floats, const Step& step, const std::vector<double>& want) {
  std::vector<float> first;
  for (const auto& isa : kernels::cpu::isa_candidates()) {
    if (!isa.runnable) continue;
    for (const int64_t chunk : {T, int64_t{1}, int64_t{7}}) {
      SCOPED_TRACE(testing::Message() << isa.isa << ", steps of " << chunk);
      Walk walk({.threads = chunk == 7 ? 3 : 1, .isa = std::string(isa.isa), .pin = false}, state_floats);
      const auto got = walk.run(T, chunk, step);
      if (first.empty()) first = got;
      ASSERT_EQ(got.size(), want.size());
      ASSERT_EQ(std::memcmp(got.data(), first.data(), got.size() * sizeof(float)), 0);
    }
  }
  for (const int64_t chunk : {1, 3, 8, 11}) {
    SCOPED_TRACE(testing::Message() << "slots that move, steps of " << chunk);
    Walk walk({.threads = 2, .pin = false}, state_floats);
    const auto got = walk.run(T, chunk, step, true);
    ASSERT_EQ(std::memcmp(got.data(), first.data(), got.size() * sizeof(float)), 0);
  }
  expect_together(T, state_floats, step, first);
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(first[i], want[i], 2e-5 * (1 + std::abs(want[i]))) << i;
}

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

}  // namespace
}  // namespace isotope::ops
