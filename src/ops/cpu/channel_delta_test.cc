// The delta rule with a decay for each channel against plain loops in double precision; and the same bits from every instruction set, thread count and cut of
// the tokens.
#include "ops/channel_delta.h"

#include "ops/cpu/state_walk.h"

namespace isotope::ops {
namespace {

using namespace test;

struct Case {
  const char* name;
  float f, b;    ///< centre of the gates: f far up forgets all, far down nothing (with a bound: at most); b likewise
  int dk, dv;
  float floor;
};
class ChannelDeltaCases : public testing::TestWithParam<Case> {};

TEST_P(ChannelDeltaCases, AsPlainLoops) {
  const auto [name, f0, b0, dk, dv, floor] = GetParam();
  const int H = 3;
  const int64_t T = 77;
  const auto q = random(size_t(T * H * dk), 1, 0.3f), k = random(size_t(T * H * dk), 2, 0.25f), v = random(size_t(T * H * dv), 3);
  const auto f = random(size_t(T * H * dk), 4, 1, f0), b = random(size_t(T * H), 5, 1, b0), bias = random(size_t(H * dk), 6, 0.5f);
  auto rate = random(size_t(H * dk), 7);
  for (float& x : rate) x = std::exp(x);
  std::vector<double> want(size_t(T * H * dv)), S(size_t(H * dk * dv), 0);
  for (int64_t t = 0; t < T; ++t)
    for (int h = 0; h < H; ++h) {
      const size_t at = size_t((t * H + h) * dk);
      const double beta = sigmoid(double(b[size_t(t * H + h)]));
      std::vector<double> alpha;
      for (int i = 0; i < dk; ++i) {
        const double raw = double(f[at + size_t(i)]) + double(bias[size_t(h * dk + i)]), r = double(rate[size_t(h * dk + i)]);
        alpha.push_back(std::exp(floor < 0 ? double(floor) * sigmoid(r * raw) : -r * softplus(raw)));
      }
      for (int j = 0; j < dv; ++j) {
        double* s = &S[size_t(h * dv + j) * size_t(dk)];
        double held = 0, out = 0;
        for (int i = 0; i < dk; ++i) held += (s[i] *= alpha[size_t(i)]) * double(k[at + size_t(i)]);
        const double u = beta * (double(v[size_t((t * H + h) * dv + j)]) - held);
        for (int i = 0; i < dk; ++i) out += (s[i] += double(k[at + size_t(i)]) * u) * double(q[at + size_t(i)]);
        want[size_t((t * H + h) * dv + j)] = out;
      }
    }
  ChannelDeltaArgs args{.rate = rate, .dt_bias = bias, .floor = floor, .heads = H, .dk = dk, .dv = dv};
  expect_all_ways(T, args.state_floats(), [&](Ops& o, const std::vector<int64_t>& tokens) {
    args.q = rows(o, q, tokens, H * dk), args.k = rows(o, k, tokens, H * dk), args.v = rows(o, v, tokens, H * dv);
    args.f = rows(o, f, tokens, H * dk), args.b = rows(o, b, tokens, H);
    return o.channel_delta(args);
  }, want);
}
INSTANTIATE_TEST_SUITE_P(Gates, ChannelDeltaCases,
                         testing::Values(Case{"usual", 0, 0, 16, 24, 0}, Case{"remembers", -30, 0, 32, 16, 0}, Case{"forgets", 60, 0, 16, 16, 0},
                                         Case{"writes_all", -3, 40, 12, 40, 0}, Case{"writes_nothing", -3, -200, 16, 8, 0},
                                         Case{"bounded", 0, 0, 24, 24, -5}, Case{"bounded_remembers", -200, 0, 16, 16, -5},
                                         Case{"bounded_forgets", 200, 0, 16, 16, -5}),
                         [](const auto& info) { return std::string(info.param.name); });

/// The kernel that goes token by token is the reference of the one that goes chunk by chunk.
TEST(ChannelDelta, StepsComeToWhatChunksCome) {
  using namespace kernels::cpu;
  constexpr int kDepth = 37, kTokens = 61;
  const auto q = random(kTokens * kDepth, 1, 0.2f), k = random(kTokens * kDepth, 2, 0.15f), v = random(kTokens * 16, 3);
  std::vector<float> alpha = random(kTokens * kDepth, 4, 3), beta = random(kTokens, 5);
  for (float& x : alpha) x = 1 / (1 + std::exp(-x - 2));
  for (float& x : beta) x = 1 / (1 + std::exp(-x));
  for (int i = 0; i < kDepth; ++i) alpha[20 * kDepth + size_t(i)] = 0;  // forgets all
  for (const auto& isa : isa_candidates()) {
    if (!isa.runnable) continue;
    const ChannelDeltaKernels& kernels = (*pick_isa(isa.isa))->channel_delta;
    std::vector<float> one = random(kDepth * 16, 6), two = one, want(kTokens * 16), got(kTokens * 16);
    kernels.delta({.state = one.data(), .q = q.data(), .k = k.data(), .alpha = alpha.data(), .v = v.data(), .beta = beta.data(), .out = want.data(), .q_stride = kDepth,
                   .k_stride = kDepth, .alpha_stride = kDepth, .v_stride = 16, .beta_stride = 1, .out_stride = 16, .tokens = kTokens, .dk = kDepth, .lanes = 16});
    auto qs = q, ks = k;
    std::vector<StateRow> table(kTokens);
    std::vector<float> chunks(size_t(kTokens / kStateChunk + 1) * (1 + kStateChunk) * kDepth), open(16 * kStateChunk);
    float* const next = chunks.data() + (1 + kStateChunk) * kDepth;
    kernels.rows({.rows = table.data(), .q = qs.data(), .k = ks.data(), .alpha = alpha.data(), .beta = beta.data(), .qk_stride = kDepth, .alpha_stride = kDepth,
                  .beta_stride = 1, .tokens = kTokens, .carried = chunks.data(), .next = next, .at = 0, .dk = kDepth});
    kernels.chunks({.walk = {.state = two.data(), .open = open.data(), .open_keys = nullptr, .rows = table.data(), .q = qs.data(), .k = ks.data(), .x = v.data(), .skip = 0,
                             .out = got.data(), .qk_stride = kDepth, .x_stride = 16, .out_stride = 16, .tokens = kTokens, .at = 0, .depth = kDepth, .lanes = 16},
                    .carried = chunks.data(), .next = next});
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5 * (1 + std::abs(want[i]))) << isa.isa << ", token " << i / 16;
  }
}

}  // namespace
}  // namespace isotope::ops
