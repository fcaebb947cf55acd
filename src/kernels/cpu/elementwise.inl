// Bodies of elementwise.h; compiled once for each ISA through all.inl.
#pragma once

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/functions.h"
#include "kernels/cpu/simd.h"

namespace isotope::kernels::cpu {
namespace {

/// Calls f(i, lanes) over [0, n) in sixteens; the last call may have fewer lanes.
template <class F>
inline void for_lanes(int64_t n, F f) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) f(i, 16);
  if (i < n) f(i, int(n - i));
}
inline f32x16 load_some(const float* p, int lanes) { return lanes == 16 ? load(p) : load_n(p, lanes); }
inline void store_some(float* p, f32x16 a, int lanes) { lanes == 16 ? store(p, a) : store_n(p, a, lanes); }

inline f32x16 times_sigmoid(f32x16 x, f32x16 u) { return x / (set1(1.0f) + exp(-u)); }

template <Act A>
inline f32x16 activate(f32x16 x) {
  if constexpr (A == Act::silu) return times_sigmoid(x, x);
  if constexpr (A == Act::gelu_tanh) {  // x/2 (1 + tanh u) = x sigmoid(2u), without the cancellation at negative u
    const f32x16 u = set1(0.7978845608028654f) * fma(set1(0.044715f) * (x * x), x, x);
    return times_sigmoid(x, u + u);
  }
  if constexpr (A == Act::gelu) return set1(0.5f) * x * (set1(1.0f) + erf(x * set1(0.70710678118654752f)));
  const f32x16 r = max(x, zero_f32());
  if constexpr (A == Act::relu) return r;
  return r * r;
}

template <Act A>
void act_mul(float* out, const float* gate, const float* up, int64_t n) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) {
    store_some(out + i, activate<A>(load_some(gate + i, lanes)) * load_some(up + i, lanes), lanes);
  });
}

template <Act A>
void activate_all(float* x, int64_t n) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) { store_some(x + i, activate<A>(load_some(x + i, lanes)), lanes); });
}

/// The sum over a row: step(i, lanes, acc) takes in elements i .. i + lanes - 1.
template <class F>
inline float sum_row(int64_t n, F step) {
  f32x16 acc[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (int j = 0; j < 4; ++j) acc[j] = step(i + 16 * j, 16, acc[j]);
  for (int j = 0; i < n; ++j, i += 16) acc[j] = step(i, n - i < 16 ? int(n - i) : 16, acc[j]);
  return hsum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

float sum_of_squares(const float* x, int64_t n) {
  return sum_row(n, [&](int64_t i, int lanes, f32x16 acc) {
    const f32x16 v = load_some(x + i, lanes);
    return fma(v, v, acc);
  });
}

void layer_norm(float* x, const float* weight, const float* bias, int64_t n, float eps) noexcept {
  const f32x16 mean = set1(sum_row(n, [&](int64_t i, int lanes, f32x16 acc) { return acc + load_some(x + i, lanes); }) / float(n));
  const float squares = sum_row(n, [&](int64_t i, int lanes, f32x16 acc) {
    const f32x16 v = load_some(x + i, lanes) - mean, seen = lanes == 16 ? v : select(first_n(lanes), v, zero_f32());
    return fma(seen, seen, acc);
  });
  const f32x16 factor = set1(1.0f / __builtin_sqrtf(squares / float(n) + eps));
  for_lanes(n, [&](int64_t i, int lanes) {
    store_some(x + i, fma((load_some(x + i, lanes) - mean) * factor, load_some(weight + i, lanes), load_some(bias + i, lanes)), lanes);
  });
}

/// What every element of a row is multiplied by.
float norm_factor(const float* x, int64_t n, float eps) { return 1.0f / __builtin_sqrtf(sum_of_squares(x, n) / float(n) + eps); }

inline f32x16 round_to_bf16(f32x16 a) { return bits_to_f32(shift_left<16>(to_bf16_bits(a))); }

/// Elements i .. i + lanes - 1 of the normed row.
template <bool Rounded>
inline f32x16 normed(const float* x, const float* weight, f32x16 factor, int64_t i, int lanes) {
  f32x16 y = load_some(x + i, lanes) * factor;
  if constexpr (Rounded) y = round_to_bf16(y);
  if (weight) y = load_some(weight + i, lanes) * y;
  if constexpr (Rounded) y = round_to_bf16(y);
  return y;
}

template <bool Rounded>
void rms_norm(float* out, const float* x, const float* weight, int64_t n, float eps) noexcept {
  const f32x16 factor = set1(norm_factor(x, n, eps));
  for_lanes(n, [&](int64_t i, int lanes) { store_some(out + i, normed<Rounded>(x, weight, factor, i, lanes), lanes); });
}

void add_scaled(float* x, const float* y, int64_t n, float scale) noexcept {
  const f32x16 s = set1(scale);
  for_lanes(n, [&](int64_t i, int lanes) { store_some(x + i, load_some(x + i, lanes) + s * load_some(y + i, lanes), lanes); });
}

void scale_by(float* x, int64_t n, float s) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) { store_some(x + i, load_some(x + i, lanes) * set1(s), lanes); });
}

void softcap_all(float* x, int64_t n, float cap) noexcept {
  const f32x16 c = set1(cap);
  for_lanes(n, [&](int64_t i, int lanes) { store_some(x + i, c * tanh(load_some(x + i, lanes) / c), lanes); });
}

void clamped_swiglu(float* out, const float* gate, const float* up, int64_t n, float alpha, float limit) noexcept {
  const f32x16 top = set1(limit), one = set1(1.0f);
  for_lanes(n, [&](int64_t i, int lanes) {
    const f32x16 g = min(top, load_some(gate + i, lanes)), u = max(-top, min(top, load_some(up + i, lanes)));
    store_some(out + i, times_sigmoid(g, set1(alpha) * g) * (u + one), lanes);
  });
}

void exp_shifted(float* x, int64_t n, float shift) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) { store_some(x + i, exp(load_some(x + i, lanes) - set1(shift)), lanes); });
}

void sigmoid_all(float* x, int64_t n) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) { store_some(x + i, times_sigmoid(set1(1.0f), load_some(x + i, lanes)), lanes); });
}

void rope_halves(float* x, const float* cos, const float* sin, int heads, int d, int rot) noexcept {
  const int half = rot / 2;
  for (int h = 0; h < heads; ++h, x += d) {
    for_lanes(half, [&](int64_t i, int lanes) {
      const f32x16 a = load_some(x + i, lanes), b = load_some(x + half + i, lanes), c = load_some(cos + i, lanes), s = load_some(sin + i, lanes);
      store_some(x + i, a * c - b * s, lanes);
      store_some(x + half + i, b * c + a * s, lanes);
    });
  }
}

void rope_pairs(float* x, const float* cos, const float* sin, int heads, int d, int rot) noexcept {
  for (int h = 0; h < heads; ++h, x += d) {
    for (int i = 0; i < rot / 2; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      x[2 * i] = a * cos[i] - b * sin[i];
      x[2 * i + 1] = b * cos[i] + a * sin[i];
    }
  }
}

constexpr ElementwiseKernels kElementwise = {
    .rms_norm = rms_norm<false>,
    .rms_norm_bf16 = rms_norm<true>,
    .layer_norm = layer_norm,
    .activate = {activate_all<Act::silu>, activate_all<Act::gelu_tanh>, activate_all<Act::gelu>, activate_all<Act::relu>, activate_all<Act::relu2>},
    .act_mul = {act_mul<Act::silu>, act_mul<Act::gelu_tanh>, act_mul<Act::gelu>, act_mul<Act::relu>, act_mul<Act::relu2>},
    .add = add_scaled,
    .scale = scale_by,
    .softcap = softcap_all,
    .clamped_swiglu = clamped_swiglu,
    .exp = exp_shifted,
    .sigmoid = sigmoid_all,
    .rope = rope_halves,
    .rope_interleaved = rope_pairs,
};

}  // namespace
}  // namespace isotope::kernels::cpu
