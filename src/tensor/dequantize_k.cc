// Super-blocks of 256: the K formats and the ternary ones.
#include "tensor/block.h"

namespace isotope::tensor {

namespace {

// {u8 scale_min[16]; u8 q[64]; f16 d, dmin}. Each half of 128 elements: 32 bytes hold four runs of 32, two bits each.
void q2_k(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b + 80), dmin = load_f16(b + 82);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * float(b[g] & 15), min = dmin * float(b[g] >> 4);
    const uint8_t* q = b + 16 + 32 * (g / 8) + 16 * (g % 2);
    const int shift = 2 * (g % 8 / 2);
    for (int i = 0; i < 16; ++i) y[16 * g + i] = scale * float((q[i] >> shift) & 3) - min;
  }
}

// Scale g of Q3_K: low nibble in bytes 0-7 (low halves first), upper two bits in bytes 8-11.
int q3_scale(const uint8_t* s, int g) noexcept {
  const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
  return (low | ((s[8 + g % 4] >> (2 * (g / 4))) & 3) << 4) - 32;
}

// {u8 high[32]; u8 q[64]; u8 scales[12]; f16 d}. A cleared high bit means minus four.
void q3_k(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b + 108);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * float(q3_scale(b + 96, g));
    const uint8_t *q = b + 32 + 32 * (g / 8) + 16 * (g % 2), *high = b + 16 * (g % 2);
    const int shift = 2 * (g % 8 / 2), bit = g / 2;
    for (int i = 0; i < 16; ++i) y[16 * g + i] = scale * float(((q[i] >> shift) & 3) - ((high[i] >> bit) & 1 ? 0 : 4));
  }
}

struct ScaleMin {
  int scale, min;
};

// Eight pairs of six-bit numbers in 12 bytes: the first four whole, the last four split into nibbles and the spare upper bits of
// the first eight.
ScaleMin scale_min(const uint8_t* s, int g) noexcept {
  if (g < 4) return {s[g] & 63, s[g + 4] & 63};
  return {(s[g + 4] & 15) | (s[g - 4] >> 6) << 4, (s[g + 4] >> 4) | (s[g] >> 6) << 4};
}

// {f16 d, dmin; u8 scales[12]; u8 q[128]}: 32 bytes hold two runs of 32
void q4_k(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b), dmin = load_f16(b + 2);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin s = scale_min(b + 4, g);
    const float scale = d * float(s.scale), min = dmin * float(s.min);
    const uint8_t* q = b + 16 + 32 * (g / 2);
    for (int i = 0; i < 32; ++i) y[32 * g + i] = scale * float((q[i] >> (4 * (g % 2))) & 15) - min;
  }
}

// {f16 d, dmin; u8 scales[12]; u8 high[32]; u8 q[128]}
void q5_k(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b), dmin = load_f16(b + 2);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin s = scale_min(b + 4, g);
    const float scale = d * float(s.scale), min = dmin * float(s.min);
    const uint8_t *q = b + 48 + 32 * (g / 2), *high = b + 16;
    for (int i = 0; i < 32; ++i) y[32 * g + i] = scale * float(((q[i] >> (4 * (g % 2))) & 15) | ((high[i] >> g) & 1) << 4) - min;
  }
}

// {u8 low[128]; u8 high[64]; i8 scales[16]; f16 d}
void q6_k(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b + 208);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * float(int8_t(b[192 + g]));
    const int half = g / 8, run = g % 8 / 2;  // 128 elements = four runs of 32
    const uint8_t *low = b + 64 * half + 32 * (run % 2) + 16 * (g % 2), *high = b + 128 + 32 * half + 16 * (g % 2);
    for (int i = 0; i < 16; ++i) {
      const int q = ((low[i] >> (4 * (run / 2))) & 15) | ((high[i] >> (2 * run)) & 3) << 4;
      y[16 * g + i] = scale * float(q - 32);
    }
  }
}

// {f32 d; i8 q[256]; i16 sums[16]}
void q8_k(const uint8_t* b, float* y) noexcept {
  const float d = load_f32(b);
  for (int i = 0; i < 256; ++i) y[i] = d * float(int8_t(b[4 + i]));
}

// A byte is a fixed-point fraction of 256: times 3^n, modulo one, times three gives base-3 digit n.
int trit(uint8_t byte, int pow3) noexcept { return (uint8_t(byte * pow3) * 3) >> 8; }

// {u8 q[48]; u8 last[4]; f16 d}: five digits a byte in runs of 32 and 16, then four digits a byte
void tq1_0(const uint8_t* b, float* y) noexcept {
  constexpr int kPow3[5] = {1, 3, 9, 27, 81};
  const float d = load_f16(b + 52);
  const auto run = [&](const uint8_t* q, int bytes, int digits) {
    for (int n = 0; n < digits; ++n)
      for (int i = 0; i < bytes; ++i) *y++ = d * float(trit(q[i], kPow3[n]) - 1);
  };
  run(b, 32, 5);
  run(b + 32, 16, 5);
  run(b + 48, 4, 4);
}

// {u8 q[64]; f16 d}
void tq2_0(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b + 64);
  for (int g = 0; g < 8; ++g)
    for (int i = 0; i < 32; ++i) y[32 * g + i] = d * float(((b[32 * (g / 4) + i] >> (2 * (g % 4))) & 3) - 1);
}

}  // namespace

DecodeBlock decode_k(DType t) noexcept {
  switch (t) {
    case DType::q2_k: return q2_k;
    case DType::q3_k: return q3_k;
    case DType::q4_k: return q4_k;
    case DType::q5_k: return q5_k;
    case DType::q6_k: return q6_k;
    case DType::q8_k: return q8_k;
    case DType::tq1_0: return tq1_0;
    case DType::tq2_0: return tq2_0;
    default: return nullptr;
  }
}

}  // namespace isotope::tensor
