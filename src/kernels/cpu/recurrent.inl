// Bodies of recurrent.h; compiled once for each ISA through all.inl.
#pragma once

#include "kernels/cpu/elementwise.inl"
#include "kernels/cpu/recurrent.h"

namespace isotope::kernels::cpu {
namespace {

/// ln(1 + e^x) = max(x, 0) + ln(1 + y), y = e^-|x|. ln(1 + y) = 2 artanh(s) with s = y / (2 + y), at most 1/3, as its series.
inline f32x16 softplus(f32x16 x) {
  constexpr float kOdd[] = {1.0f / 17, 1.0f / 15, 1.0f / 13, 1.0f / 11, 1.0f / 9, 1.0f / 7, 1.0f / 5, 1.0f / 3, 1.0f};
  const f32x16 y = exp(-abs(x)), s = y / (set1(2.0f) + y);
  return fma(set1(2.0f) * s, polynomial(s * s, kOdd), max(x, zero_f32()));
}

template <int Width>
void conv_panel(const ConvJob& j, int64_t c, int lanes) {
  f32x16 w[Width], window[Width];
  for (int i = 0; i < Width; ++i) w[i] = load_some(j.weight + i * j.channels + c, lanes);
  for (int i = 0; i + 1 < Width; ++i) window[i] = load_some(j.state + i * j.channels + c, lanes);
  const f32x16 bias = j.bias ? load_some(j.bias + c, lanes) : zero_f32();
  for (int64_t t = 0; t < j.tokens; ++t) {
    window[Width - 1] = load_some(j.in + t * j.in_stride + c, lanes);
    f32x16 y = bias;
    for (int i = 0; i < Width; ++i) y = fma(w[i], window[i], y);
    store_some(j.out + t * j.out_stride + c, j.silu ? activate<Act::silu>(y) : y, lanes);
    for (int i = 0; i + 1 < Width; ++i) window[i] = window[i + 1];
  }
  for (int i = 0; i + 1 < Width; ++i) store_some(j.state + i * j.channels + c, window[i], lanes);
}

template <int Width>
void conv_channels(const ConvJob& j) {
  for_lanes(j.end - j.begin, [&](int64_t i, int lanes) { conv_panel<Width>(j, j.begin + i, lanes); });
}

void conv(const ConvJob& j) noexcept {
  constexpr void (*kByWidth[])(const ConvJob&) = {conv_channels<2>, conv_channels<3>, conv_channels<4>, conv_channels<5>,
                                                  conv_channels<6>, conv_channels<7>, conv_channels<8>};
  static_assert(sizeof(kByWidth) / sizeof(kByWidth[0]) == kMaxConvWidth - 1);
  kByWidth[j.width - 2](j);
}

/// Sums over dk: four chains, element i in chain i % 4, added as a tree.
struct Chains {
  f32x16 s[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  f32x16 sum() const { return (s[0] + s[1]) + (s[2] + s[3]); }
};

float dot_of(const float* a, const float* b, int n) {
  f32x16 s = zero_f32();
  for (int i = 0; i < n; i += 16) {
    const int lanes = n - i < 16 ? n - i : 16;
    s = fma(load_some(a + i, lanes), load_some(b + i, lanes), s);
  }
  return hsum(s);
}

/// One pass over the panel a token: it is changed by the last token while Sᵀk and Sᵀq of the next one are summed up.
void delta(const DeltaJob& j) noexcept {
  float* const S = j.state;
  Chains r, p;
  const auto meet = [&](f32x16 s, int i, const float* k, const float* q) {
    r.s[i % 4] = fma(s, set1(k[i]), r.s[i % 4]);
    p.s[i % 4] = fma(s, set1(q[i]), p.s[i % 4]);
  };
  if (j.tokens > 0)
    for (int i = 0; i < j.dk; ++i) meet(load(S + 16 * i), i, j.k, j.q);
  for (int64_t t = 0; t < j.tokens; ++t) {
    const float *k = j.k + t * j.qk_stride, *q = j.q + t * j.qk_stride;
    const f32x16 alpha = set1(j.alpha[t * j.gate_stride]), beta = set1(j.beta[t * j.gate_stride]);
    const f32x16 v = load_some(j.v + t * j.v_stride, j.lanes);
    const f32x16 u = beta * (v - alpha * r.sum());
    store_some(j.out + t * j.out_stride, fma(set1(dot_of(k, q, j.dk)), u, alpha * p.sum()), j.lanes);
    r = p = {};
    const bool more = t + 1 < j.tokens;
    const float *k2 = k + j.qk_stride, *q2 = q + j.qk_stride;
    for (int i = 0; i < j.dk; ++i) {
      const f32x16 s = fma(set1(k[i]), u, alpha * load(S + 16 * i));
      store(S + 16 * i, s);
      if (more) meet(s, i, k2, q2);
    }
  }
}

template <bool Channels>
void scan(const ScanJob& j) noexcept {
  float* const H = j.state;
  const f32x16 d = Channels ? load_some(j.d, j.lanes) : set1(*j.d);
  for (int64_t t = 0; t < j.tokens; ++t) {
    const float *b = j.b + t * j.bc_stride, *c = j.c + t * j.bc_stride, *dt_at = j.dt + t * j.dt_stride;
    const f32x16 x = load_some(j.x + t * j.x_stride, j.lanes), dt = Channels ? load_some(dt_at, j.lanes) : set1(*dt_at);
    const f32x16 alpha = Channels ? zero_f32() : set1(j.alpha[t * j.dt_stride]), step = dt * x;
    Chains y;
    for (int n = 0; n < j.states; ++n) {
      const f32x16 decay = Channels ? exp(dt * load(j.neg_a + 16 * n)) : alpha;
      const f32x16 h = fma(set1(b[n]), step, decay * load(H + 16 * n));
      store(H + 16 * n, h);
      y.s[n % 4] = fma(h, set1(c[n]), y.s[n % 4]);
    }
    store_some(j.out + t * j.out_stride, fma(d, x, y.sum()), j.lanes);
  }
}

void gates(float* dt, float* alpha, const float* x, const float* bias, const float* neg_a, int64_t n, float low, float high) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) {
    const f32x16 in = load_some(x + i, lanes), raw = bias ? in + load_some(bias + i, lanes) : in;
    const f32x16 step = max(set1(low), min(set1(high), softplus(raw)));
    if (neg_a) store_some(alpha + i, exp(load_some(neg_a + i, lanes) * step), lanes);
    store_some(dt + i, step, lanes);
  });
}

void sigmoid_mul(float* x, const float* gate, int64_t n) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) { store_some(x + i, times_sigmoid(load_some(x + i, lanes), load_some(gate + i, lanes)), lanes); });
}

void mul_rows(float* x, const float* y, int64_t n) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) { store_some(x + i, load_some(x + i, lanes) * load_some(y + i, lanes), lanes); });
}

constexpr RecurrentKernels kRecurrent = {conv, delta, scan<false>, scan<true>, gates, sigmoid_mul, mul_rows};

}  // namespace
}  // namespace isotope::kernels::cpu
