// Quantization by one simple rule for each format; the K formats are in quantize_k.cc.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/block.h"

namespace isotope::tensor {

namespace {

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

// {e8m0 d; u8 q[16]}: the largest value lies in the topmost binade of E2M1, as OCP's MX formats say; what is above 6 becomes 6, ties go to the even code.
void mxfp4(const float* x, uint8_t* b) noexcept {
  const float top = std::fabs(peak(x, 32));
  const int exponent = top > 0 && std::isfinite(top) ? std::clamp(std::ilogb(top) - 2, -127, 127) : -127;
  b[0] = uint8_t(exponent + 127);
  const float inv = std::ldexp(1.0f, -exponent);
  std::memset(b + 1, 0, 16);
  for (int i = 0; i < 32; ++i) b[1 + i % 16] = uint8_t(b[1 + i % 16] | f32_to_e2m1(x[i] * inv) << (4 * (i / 16)));
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
    case DType::mxfp4: return mxfp4;
    default: return encode_k(t);
  }
}

}  // namespace

uint8_t f32_to_e2m1(float x) noexcept {
  const float a = std::fabs(x);
  const int code = a <= 0.25f ? 0 : a < 0.75f ? 1 : a <= 1.25f ? 2 : a < 1.75f ? 3 : a <= 2.5f ? 4 : a < 3.5f ? 5 : a <= 5.0f ? 6 : 7;
  return uint8_t(code && std::signbit(x) ? code | 8 : code);
}

Result<void> quantize(DType t, std::span<const float> in, void* dst) {
  const Format& f = format(t);
  const EncodeBlock encode = encoder(t);
  if (!encode)
    return fail(Code::unsupported, "no quantization rule for format " + std::string(f.name), "quantize",
                "choose one of F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K MXFP4");
  if (in.size() % size_t(f.block) != 0)
    return fail(Code::invalid_argument, std::to_string(in.size()) + " elements do not fill blocks of " + std::to_string(f.block),
                "quantize to " + std::string(f.name), "pad the row to whole blocks");
  auto* b = static_cast<uint8_t*>(dst);
  for (size_t i = 0; i < in.size(); i += size_t(f.block), b += f.bytes) encode(in.data() + i, b);
  return {};
}

}  // namespace isotope::tensor
