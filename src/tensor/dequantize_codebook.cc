// The IQ formats: an index into a list of code points gives the magnitudes of 4 or 8 elements, signs and scales lie beside it.
#include <bit>

#include "tensor/block.h"

namespace isotope::tensor {

namespace {

#include "tensor/codebooks.inc"

constexpr float kMagnitude2[4] = {8, 25, 43, 0};                       // IQ2_*: two bits an element
constexpr float kMagnitude3Xxs[16] = {4, 12, 20, 28, 36, 44, 52, 62};  // IQ3_XXS: four bits an element
constexpr float kMagnitude3[16] = {1, 3, 5, 7, 9, 11, 13, 15};         // IQ3_S
constexpr float kTernary[4] = {-1, 0, 1, 0};                           // IQ1_*
constexpr int8_t kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};  // IQ4_*

// Seven stored sign bits; the eighth makes the number of minus signs even.
uint8_t signs7(uint32_t bits) noexcept {
  bits &= 127;
  return uint8_t(bits | (std::popcount(bits) & 1u) << 7);
}

// n elements of one code point of `bits` bits an element.
template <int bits, int n>
void put(uint16_t code, const float* magnitude, uint8_t signs, float scale, float* y) noexcept {
  for (int i = 0; i < n; ++i) {
    const float v = scale * magnitude[(code >> (i * bits)) & ((1 << bits) - 1)];
    y[i] = (signs >> i) & 1 ? -v : v;
  }
}

// {f16 d; 8 x {u8 index[4]; u32 scale:4 signs:4x7}}
void iq2_xxs(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* q = b + 2 + 8 * g;
    const uint32_t s = load_u32(q + 4);
    const float scale = d * (0.5f + float(s >> 28)) * 0.25f;
    for (int j = 0; j < 4; ++j) put<2, 8>(kGridIq2Xxs[q[j]], kMagnitude2, signs7(s >> (7 * j)), scale, y + 32 * g + 8 * j);
  }
}

// {f16 d; u16 (sign:7 index:9)[32]; u8 scales[8]}
void iq2_xs(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b);
  for (int j = 0; j < 32; ++j) {
    const uint16_t q = load_u16(b + 2 + 2 * j);
    const float scale = d * (0.5f + float((b[66 + j / 4] >> (4 * (j / 2 % 2))) & 15)) * 0.25f;
    put<2, 8>(kGridIq2Xs[q & 511], kMagnitude2, signs7(q >> 9), scale, y + 8 * j);
  }
}

// {f16 d; u8 index[32]; u8 signs[32]; u8 high[8]; u8 scales[8]}
void iq2_s(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b);
  for (int j = 0; j < 32; ++j) {
    const int index = b[2 + j] | ((b[66 + j / 4] >> (2 * (j % 4))) & 3) << 8;
    const float scale = d * (0.5f + float((b[74 + j / 4] >> (4 * (j / 2 % 2))) & 15)) * 0.25f;
    put<2, 8>(kGridIq2S[index], kMagnitude2, b[34 + j], scale, y + 8 * j);
  }
}

// {f16 d; u8 index[64]; u32 (scale:4 signs:4x7)[8]}
void iq3_xxs(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b);
  for (int g = 0; g < 8; ++g) {
    const uint32_t s = load_u32(b + 66 + 4 * g);
    const float scale = d * (0.5f + float(s >> 28)) * 0.5f;
    for (int j = 0; j < 8; ++j) {
      const uint8_t signs = uint8_t(signs7(s >> (7 * (j / 2))) >> (4 * (j % 2)));
      put<4, 4>(kGridIq3Xxs[b[2 + 8 * g + j]], kMagnitude3Xxs, signs, scale, y + 32 * g + 4 * j);
    }
  }
}

// {f16 d; u8 index[64]; u8 high[8]; u8 signs[32]; u8 scales[4]}
void iq3_s(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b);
  for (int j = 0; j < 64; ++j) {
    const int index = b[2 + j] | ((b[66 + j / 8] >> (j % 8)) & 1) << 8;
    const float scale = d * float(1 + 2 * ((b[106 + j / 16] >> (4 * (j / 8 % 2))) & 15));
    put<4, 4>(kGridIq3S[index], kMagnitude3, uint8_t(b[74 + j / 2] >> (4 * (j % 2))), scale, y + 4 * j);
  }
}

// Ternary code points are shifted by an eighth up or down.
void put_ternary(uint16_t code, bool down, float scale, float* y) noexcept {
  for (int i = 0; i < 8; ++i) y[i] = scale * (kTernary[(code >> (2 * i)) & 3] + (down ? -0.125f : 0.125f));
}

// {f16 d; u8 index[32]; u16 (down:1 scale:3 high:4x3)[8]}
void iq1_s(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b);
  for (int j = 0; j < 32; ++j) {
    const uint16_t h = load_u16(b + 34 + 2 * (j / 4));
    const float scale = d * float(2 * ((h >> 12) & 7) + 1);
    put_ternary(kGridIq1[b[2 + j] | ((h >> (3 * (j % 4))) & 7) << 8], h & 0x8000, scale, y + 8 * j);
  }
}

// {u8 index[32]; u8 high[16]; u16 scales[4]}: d is spread over the top nibbles of the four scale words
void iq1_m(const uint8_t* b, float* y) noexcept {
  uint16_t w[4], bits = 0;
  for (int i = 0; i < 4; ++i) {
    w[i] = load_u16(b + 48 + 2 * i);
    bits = uint16_t(bits | (w[i] >> 12) << (4 * i));
  }
  const float d = f16_to_f32(bits);
  for (int j = 0; j < 32; ++j) {
    const int h = b[32 + j / 2] >> (4 * (j % 2));
    const float scale = d * float(2 * ((w[j / 8] >> (3 * (j / 2 % 4))) & 7) + 1);
    put_ternary(kGridIq1[b[j] | (h & 7) << 8], h & 8, scale, y + 8 * j);
  }
}

// {f16 d; u8 q[16]}
void iq4_nl(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * float(kNonLinear[b[2 + i] & 15]);
    y[i + 16] = d * float(kNonLinear[b[2 + i] >> 4]);
  }
}

// {f16 d; u16 scales_high; u8 scales_low[4]; u8 q[128]}
void iq4_xs(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b);
  const uint16_t high = load_u16(b + 2);
  for (int g = 0; g < 8; ++g) {
    const int s = ((b[4 + g / 2] >> (4 * (g % 2))) & 15) | ((high >> (2 * g)) & 3) << 4;
    const float scale = d * float(s - 32);
    const uint8_t* q = b + 8 + 16 * g;
    for (int i = 0; i < 16; ++i) {
      y[32 * g + i] = scale * float(kNonLinear[q[i] & 15]);
      y[32 * g + i + 16] = scale * float(kNonLinear[q[i] >> 4]);
    }
  }
}

}  // namespace

DecodeBlock decode_codebook(DType t) noexcept {
  switch (t) {
    case DType::iq1_s: return iq1_s;
    case DType::iq1_m: return iq1_m;
    case DType::iq2_xxs: return iq2_xxs;
    case DType::iq2_xs: return iq2_xs;
    case DType::iq2_s: return iq2_s;
    case DType::iq3_xxs: return iq3_xxs;
    case DType::iq3_s: return iq3_s;
    case DType::iq4_nl: return iq4_nl;
    case DType::iq4_xs: return iq4_xs;
    default: return nullptr;
  }
}

}  // namespace isotope::tensor
