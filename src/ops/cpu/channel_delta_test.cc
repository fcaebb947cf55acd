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
class ChannelDelta : public testing::TestWithParam<Case> {};

TEST_P(ChannelDelta, AsPlainLoops) {
  const auto [name, f0, b0, dk, dv, floor] = GetParam();
  const int H = 3;
  const int64_t T = 21;
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
INSTANTIATE_TEST_SUITE_P(Gates, ChannelDelta,
                         testing::Values(Case{"usual", 0, 0, 16, 24, 0}, Case{"remembers", -30, 0, 32, 16, 0}, Case{"forgets", 60, 0, 16, 16, 0},
                                         Case{"writes_all", -3, 40, 12, 40, 0}, Case{"writes_nothing", -3, -200, 16, 8, 0},
                                         Case{"bounded", 0, 0, 24, 24, -5}, Case{"bounded_remembers", -200, 0, 16, 16, -5},
                                         Case{"bounded_forgets", 200, 0, 16, 16, -5}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace isotope::ops
