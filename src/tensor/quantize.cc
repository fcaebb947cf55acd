// Reference quantization: one simple rule for each format, for tests and tools. Published files come from search procedures that
// are not repeated here.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/format.h"

namespace isotope::tensor {

namespace {

using EncodeBlock = void (*)(const float* x, uint8_t* b) noexcept;

void store_u16(uint8_t* p, uint16_t v) noexcept { std::memcpy(p, &v, 2); }

// Truncates to [0, top]; NaN becomes 0.
int clamp_trunc(float v, int top) noexcept { return v >= float(top) ? top : v > 0 ? int(v) : 0; }
int clamp_round(float v, int low, int top) noexcept { return v >= float(top) ? top : v > float(low) ? int(std::round(v)) : low; }
float inverse(float d) noexcept { return d == 0 ? 0.0f : 1.0f / d; }

// The element of largest magnitude, with its sign; the first of equals.
float peak(const float* x, int n) noexcept {
  float best = 0, size = -1;
  for (int i = 0; i < n; ++i)
    if (std::fabs(x[i]) > size) size = std::fabs(x[i]), best = x[i];
  return best;
}

void f32(const float* x, uint8_t* b) noexcept { std::memcpy(b, x, 4); }
void f16(const float* x, uint8_t* b) noexcept { store_u16(b, f32_to_f16(*x)); }
void bf16(const float* x, uint8_t* b) noexcept { store_u16(b, f32_to_bf16(*x)); }

// Symmetric with the peak on the lowest code, which has no positive twin.
template <int bits>
void symmetric(const float* x, uint8_t* b) noexcept {
  constexpr int kHalf = 1 << (bits - 1);
  const float d = peak(x, 32) / float(-kHalf), inv = inverse(d);
  uint32_t high = 0;
  uint8_t* q = b + (bits == 5 ? 6 : 2);
  std::memset(q, 0, 16);
  for (int i = 0; i < 32; ++i) {
    const int v = clamp_trunc(x[i] * inv + (float(kHalf) + 0.5f), 2 * kHalf - 1);
    q[i % 16] = uint8_t(q[i % 16] | (v & 15) << (4 * (i / 16)));
    high |= uint32_t(v >> 4) << i;
  }
  store_u16(b, f32_to_f16(d));
  if (bits == 5) std::memcpy(b + 2, &high, 4);
}

template <int bits>
void affine(const float* x, uint8_t* b) noexcept {
  constexpr int kTop = (1 << bits) - 1;
  const auto [lo, hi] = std::minmax_element(x, x + 32);
  const float min = *lo, d = (*hi - min) / float(kTop), inv = inverse(d);
  uint32_t high = 0;
  uint8_t* q = b + (bits == 5 ? 8 : 4);
  std::memset(q, 0, 16);
  for (int i = 0; i < 32; ++i) {
    const int v = clamp_trunc((x[i] - min) * inv + 0.5f, kTop);
    q[i % 16] = uint8_t(q[i % 16] | (v & 15) << (4 * (i / 16)));
    high |= uint32_t(v >> 4) << i;
  }
  store_u16(b, f32_to_f16(d));
  store_u16(b + 2, f32_to_f16(min));
  if (bits == 5) std::memcpy(b + 4, &high, 4);
}

void q8_0(const float* x, uint8_t* b) noexcept {
  const float d = std::fabs(peak(x, 32)) / 127.0f, inv = inverse(d);
  store_u16(b, f32_to_f16(d));
  for (int i = 0; i < 32; ++i) b[2 + i] = uint8_t(int8_t(clamp_round(x[i] * inv, -127, 127)));
}

// Each run of 32 spans [min(0, smallest), largest]; its step and offset are rounded to six bits of the block's largest.
void q4_k(const float* x, uint8_t* b) noexcept {
  float step[8], low[8], top_step = 0, top_low = 0;
  for (int g = 0; g < 8; ++g) {
    const auto [lo, hi] = std::minmax_element(x + 32 * g, x + 32 * g + 32);
    low[g] = std::max(0.0f, -*lo);
    step[g] = std::max(0.0f, (*hi + low[g]) / 15.0f);
    top_step = std::max(top_step, step[g]);
    top_low = std::max(top_low, low[g]);
  }
  const uint16_t d16 = f32_to_f16(top_step / 63.0f), m16 = f32_to_f16(top_low / 63.0f);
  const float d = f16_to_f32(d16), dmin = f16_to_f32(m16);
  store_u16(b, d16);
  store_u16(b + 2, m16);
  uint8_t *s = b + 4, *q = b + 16;
  std::memset(s, 0, 140);
  for (int g = 0; g < 8; ++g) {
    const int scale = clamp_round(step[g] * inverse(d), 0, 63), min = clamp_round(low[g] * inverse(dmin), 0, 63);
    if (g < 4) {
      s[g] = uint8_t(s[g] | scale);
      s[g + 4] = uint8_t(s[g + 4] | min);
    } else {
      s[g + 4] = uint8_t((scale & 15) | (min & 15) << 4);
      s[g - 4] = uint8_t(s[g - 4] | (scale >> 4) << 6);
      s[g] = uint8_t(s[g] | (min >> 4) << 6);
    }
    const float inv = inverse(d * float(scale)), offset = dmin * float(min);
    for (int i = 0; i < 32; ++i) {
      const int v = clamp_round((x[32 * g + i] + offset) * inv, 0, 15);
      q[32 * (g / 2) + i] = uint8_t(q[32 * (g / 2) + i] | v << (4 * (g % 2)));
    }
  }
}

// Each run of 16 puts its peak on code -32; the runs' scales are rounded to eight bits of the largest.
void q6_k(const float* x, uint8_t* b) noexcept {
  float step[16];
  for (int g = 0; g < 16; ++g) step[g] = peak(x + 16 * g, 16) / -32.0f;
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

EncodeBlock encoder(DType t) noexcept {
  switch (t) {
    case DType::f32: return f32;
    case DType::f16: return f16;
    case DType::bf16: return bf16;
    case DType::q4_0: return symmetric<4>;
    case DType::q4_1: return affine<4>;
    case DType::q5_0: return symmetric<5>;
    case DType::q5_1: return affine<5>;
    case DType::q8_0: return q8_0;
    case DType::q4_k: return q4_k;
    case DType::q6_k: return q6_k;
    default: return nullptr;
  }
}

}  // namespace

Result<void> quantize(DType t, std::span<const float> in, void* dst) {
  const Format& f = format(t);
  const EncodeBlock encode = encoder(t);
  if (!encode)
    return fail(Code::unsupported, "no quantization rule for format " + std::string(f.name), "quantize",
                "choose one of F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q6_K");
  if (in.size() % size_t(f.block) != 0)
    return fail(Code::invalid_argument, std::to_string(in.size()) + " elements do not fill blocks of " + std::to_string(f.block),
                "quantize to " + std::string(f.name), "pad the row to whole blocks");
  auto* b = static_cast<uint8_t*>(dst);
  for (size_t i = 0; i < in.size(); i += size_t(f.block), b += f.bytes) encode(in.data() + i, b);
  return {};
}

}  // namespace isotope::tensor
