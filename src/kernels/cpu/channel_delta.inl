// Bodies of channel_delta.h; compiled once for each ISA through all.inl.
#include "kernels/cpu/channel_delta.h"
#include "kernels/cpu/recurrent.inl"

namespace isotope::kernels::cpu {
namespace {

/// Token by token: the sum over dk that the value is compared with must be complete before the state takes up that token.
void channel_delta(const ChannelDeltaJob& j) noexcept {
  float* const S = j.state;
  for (int64_t t = 0; t < j.tokens; ++t) {
    const float *q = j.q + t * j.q_stride, *k = j.k + t * j.k_stride, *alpha = j.alpha + t * j.alpha_stride;
    Chains r, out;
    for (int i = 0; i < j.dk; ++i) {
      const f32x16 s = set1(alpha[i]) * load(S + 16 * i);
      store(S + 16 * i, s);
      r.s[i % 4] = fma(s, set1(k[i]), r.s[i % 4]);
    }
    const f32x16 u = set1(j.beta[t * j.beta_stride]) * (load_some(j.v + t * j.v_stride, j.lanes) - r.sum());
    for (int i = 0; i < j.dk; ++i) {
      const f32x16 s = fma(set1(k[i]), u, load(S + 16 * i));
      store(S + 16 * i, s);
      out.s[i % 4] = fma(s, set1(q[i]), out.s[i % 4]);
    }
    store_some(j.out + t * j.out_stride, out.sum(), j.lanes);
  }
}

void channel_decays(float* x, const float* rate, const float* bias, int64_t n, float floor) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) {
    const f32x16 a = load_some(rate + i, lanes), raw = load_some(x + i, lanes) + load_some(bias + i, lanes);
    const f32x16 g = floor < 0 ? times_sigmoid(set1(floor), a * raw) : -(a * softplus(raw));
    store_some(x + i, exp(g), lanes);
  });
}

constexpr ChannelDeltaKernels kChannelDelta = {channel_delta, channel_decays};

}  // namespace
}  // namespace isotope::kernels::cpu
