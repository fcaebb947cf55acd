// K formats: super-blocks of 256 whose runs have scales of their own, rounded to a few bits of one float16. The step of each run is searched: of
// several tried ones that with the least squared error, large values counting more, after the step itself was fitted to the codes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tensor/block.h"

namespace isotope::tensor {

namespace {

float inverse(float d) noexcept { return d == 0 ? 0.0f : 1.0f / d; }
int clamp_round(float v, int low, int top) noexcept { return v >= float(top) ? top : v > float(low) ? int(std::lrintf(v)) : low; }

/// value = step * code - low, codes 0 … top
struct Affine {
  float step = 0, low = 0;
};

constexpr int kRun = 32;
using Weights = std::array<float, kRun>;

/// How much an error counts at each value.
void weigh(const float* x, int n, float* w) noexcept {
  float mean = 0;
  for (int i = 0; i < n; ++i) mean += x[i] * x[i];
  mean /= float(n);
  for (int i = 0; i < n; ++i) w[i] = mean + x[i] * x[i];
}

/// The step and offset that fit codes best, and the error that is left.
struct Fit {
  Affine at;
  float error = INFINITY;
};
Fit fit(const float* x, const Weights& w, const std::array<float, kRun>& q) noexcept {
  float sw = 0, sq = 0, sqq = 0, sx = 0, sxq = 0;
  for (int i = 0; i < kRun; ++i) {
    sw += w[size_t(i)], sq += w[size_t(i)] * q[size_t(i)], sqq += w[size_t(i)] * q[size_t(i)] * q[size_t(i)];
    sx += w[size_t(i)] * x[i], sxq += w[size_t(i)] * x[i] * q[size_t(i)];
  }
  const float det = sw * sqq - sq * sq;
  Fit f;
  if (det > 0) f.at = {(sw * sxq - sq * sx) / det, -(sx * sqq - sq * sxq) / det};
  if (!(f.at.low > 0)) f.at = {sqq > 0 ? sxq / sqq : 0, 0};  // the format only subtracts
  if (!(f.at.step >= 0)) f.at.step = 0;
  f.error = 0;
  for (int i = 0; i < kRun; ++i) {
    const float e = f.at.step * q[size_t(i)] - f.at.low - x[i];
    f.error += w[size_t(i)] * e * e;
  }
  return f;
}

Affine best_affine(const float* x, int top) noexcept {
  const auto [lo, hi] = std::minmax_element(x, x + kRun);
  const float low = std::max(0.0f, -*lo), span = *hi + low;
  if (!(span > 0)) return {0, low};
  Weights w;
  weigh(x, kRun, w.data());
  Fit best;
  std::array<float, kRun> q;
  for (int t = -5; t <= 5; ++t) {
    const float inv = (float(top) + 0.15f * float(t)) / span;
    for (int i = 0; i < kRun; ++i) q[size_t(i)] = float(clamp_round((x[i] + low) * inv, 0, top));
    if (const Fit f = fit(x, w, q); f.error < best.error) best = f;
  }
  // Values without an end leave no error to compare.
  return best.error < INFINITY ? best.at : Affine{span / float(top), low};
}

/// Six-bit scales and minima of eight runs in 12 bytes: the first four whole, the others split into nibbles and the spare bits of the first.
void put_scale_min(uint8_t* s, int g, int scale, int min) noexcept {
  if (g < 4) {
    s[g] = uint8_t(s[g] | scale);
    s[g + 4] = uint8_t(s[g + 4] | min);
    return;
  }
  s[g + 4] = uint8_t((scale & 15) | (min & 15) << 4);
  s[g - 4] = uint8_t(s[g - 4] | (scale >> 4) << 6);
  s[g] = uint8_t(s[g] | (min >> 4) << 6);
}

/// {f16 d, dmin; u8 scales[12]; (Q5_K: u8 high[32];) u8 q[128]}
template <int bits>
void affine_runs(const float* x, uint8_t* b) noexcept {
  constexpr int kTop = (1 << bits) - 1, kCodes = bits == 5 ? 48 : 16;
  std::array<Affine, 8> run;
  float top_step = 0, top_low = 0;
  for (size_t g = 0; g < 8; ++g) {
    run[g] = best_affine(x + 32 * g, kTop);
    top_step = std::max(top_step, run[g].step);
    top_low = std::max(top_low, run[g].low);
  }
  const uint16_t d16 = f32_to_f16(top_step / 63.0f), m16 = f32_to_f16(top_low / 63.0f);
  const float d = f16_to_f32(d16), dmin = f16_to_f32(m16);
  store_u16(b, d16);
  store_u16(b + 2, m16);
  std::memset(b + 4, 0, size_t(kCodes + 128 - 4));
  for (int g = 0; g < 8; ++g) {
    const int scale = clamp_round(run[size_t(g)].step * inverse(d), 0, 63), min = clamp_round(run[size_t(g)].low * inverse(dmin), 0, 63);
    put_scale_min(b + 4, g, scale, min);
    const float inv = inverse(d * float(scale)), offset = dmin * float(min);
    uint8_t *q = b + kCodes + 32 * (g / 2), *high = b + 16;
    for (int i = 0; i < 32; ++i) {
      const int v = clamp_round((x[32 * g + i] + offset) * inv, 0, kTop);
      q[i] = uint8_t(q[i] | (v & 15) << (4 * (g % 2)));
      if constexpr (bits == 5) high[i] = uint8_t(high[i] | (v >> 4) << g);
    }
  }
}

/// The element of largest magnitude, with its sign; the first of equals.
float peak(const float* x, int n) noexcept {
  float best = 0, size = -1;
  for (int i = 0; i < n; ++i)
    if (std::fabs(x[i]) > size) size = std::fabs(x[i]), best = x[i];
  return best;
}

/// value = step * code, codes -32 … 31
float best_step(const float* x) noexcept {
  constexpr int n = 16;
  const float top = peak(x, n);
  if (top == 0) return 0;
  float w[n], best = top / -32.0f, gain = -1;
  weigh(x, n, w);
  for (int t = -6; t <= 6; ++t) {
    const float inv = -(32.0f + 0.25f * float(t)) / top;
    float xq = 0, qq = 0;
    for (int i = 0; i < n; ++i) {
      const float q = float(clamp_round(x[i] * inv, -32, 31));
      xq += w[i] * x[i] * q, qq += w[i] * q * q;
    }
    // What the fitted step xq / qq takes away from the error.
    if (qq > 0 && xq * xq / qq > gain) gain = xq * xq / qq, best = xq / qq;
  }
  return best;
}

/// {u8 low[128]; u8 high[64]; i8 scales[16]; f16 d}
void q6_k(const float* x, uint8_t* b) noexcept {
  float step[16];
  for (int g = 0; g < 16; ++g) step[g] = best_step(x + 16 * g);
  const uint16_t d16 = f32_to_f16(peak(step, 16) / -128.0f);
  const float d = f16_to_f32(d16);
  std::memset(b, 0, 192);
  store_u16(b + 208, d16);
  for (int g = 0; g < 16; ++g) {
    const int scale = clamp_round(step[g] * inverse(d), -128, 127), half = g / 8, run = g % 8 / 2;
    b[192 + g] = uint8_t(int8_t(scale));
    const float inv = inverse(d * float(scale));
    uint8_t *low = b + 64 * half + 32 * (run % 2) + 16 * (g % 2), *high = b + 128 + 32 * half + 16 * (g % 2);
    for (int i = 0; i < 16; ++i) {
      const int v = clamp_round(x[16 * g + i] * inv, -32, 31) + 32;
      low[i] = uint8_t(low[i] | (v & 15) << (4 * (run / 2)));
      high[i] = uint8_t(high[i] | (v >> 4) << (2 * run));
    }
  }
}

}  // namespace

EncodeBlock encode_k(DType t) noexcept {
  switch (t) {
    case DType::q4_k:
      return affine_runs<4>;
    case DType::q5_k:
      return affine_runs<5>;
    case DType::q6_k:
      return q6_k;
    default:
      return nullptr;
  }
}

}  // namespace isotope::tensor
