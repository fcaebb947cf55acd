// Random tensors of every weight format, for tests.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "tensor/tensor.h"

namespace isotope::ops::samples {

using tensor::DType;

constexpr DType kWeightTypes[] = {
    DType::f32,  DType::f16,    DType::bf16,   DType::f8_e4m3, DType::f8_e5m2, DType::q4_0,    DType::q4_1,  DType::q5_0,   DType::q5_1,   DType::q8_0,
    DType::q2_k, DType::q3_k,   DType::q4_k,   DType::q5_k,    DType::q6_k,    DType::iq1_s,   DType::iq1_m, DType::iq2_xxs, DType::iq2_xs, DType::iq2_s,
    DType::iq3_xxs, DType::iq3_s, DType::iq4_nl, DType::iq4_xs, DType::tq1_0,  DType::tq2_0,   DType::mxfp4, DType::nvfp4,
    DType::i8_g16, DType::f8_g32, DType::i4_g32, DType::e2m1_g16};

/// Where the half precision fields of a block lie.
inline std::vector<int> half_fields(DType t) {
  switch (t) {
    case DType::q4_1: case DType::q5_1: case DType::q4_k: case DType::q5_k: return {0, 2};
    case DType::q2_k: return {80, 82};
    case DType::q3_k: return {108};
    case DType::q6_k: return {208};
    case DType::tq1_0: return {52};
    case DType::tq2_0: return {64};
    case DType::f32: case DType::f16: case DType::bf16: case DType::f8_e4m3: case DType::f8_e5m2: case DType::iq1_m: case DType::mxfp4: case DType::nvfp4: case DType::i8_g16: case DType::f8_g32: case DType::i4_g32: case DType::e2m1_g16: return {};
    default: return {0};
  }
}

struct Sample {
  tensor::HostTensor tensor;
  std::vector<uint8_t> bytes;
  std::vector<float> values;  ///< [n, k], dequantized
};

/// Any bytes, scales included: infinities, NaN and denormals come up.
inline Sample wild(DType t, int64_t n, int64_t k, uint32_t seed) {
  Sample s;
  std::mt19937 rng(seed);
  const size_t row = tensor::row_bytes(t, k);
  s.bytes.resize(row * size_t(n));
  for (auto& b : s.bytes) b = uint8_t(rng());
  // Packed as bfloat16, which rounds unless the scale has few bits: here the products fit.
  for (size_t i = 0; t == DType::f8_g32 && i < s.bytes.size(); i += 36) s.bytes[i] = s.bytes[i + 1] = 0, s.bytes[i + 2] &= 0xf0, s.bytes[i + 3] = uint8_t(0x3b + rng() % 4);
  s.tensor = {.dtype = t, .data = s.bytes.data(), .bytes = s.bytes.size(), .shape = {n, k}, .rank = 2};
  return s;
}

inline void decode(Sample& s) {
  s.values.resize(size_t(s.tensor.elements()));
  (void)tensor::dequantize(s.tensor.dtype, s.bytes.data(), s.values);
}

/// Random codes with moderate scales of either sign (a few zero); floats about ±1.
inline Sample tame(DType t, int64_t n, int64_t k, uint32_t seed) {
  Sample s = wild(t, n, k, seed);
  std::mt19937 rng(seed + 1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  const tensor::Format& f = tensor::format(t);
  for (size_t i = 0; i < s.bytes.size(); i += size_t(f.bytes)) {
    uint8_t* b = s.bytes.data() + i;
    const float v = uniform(rng);
    const auto put16 = [&](int at, uint16_t h) { std::memcpy(b + at, &h, 2); };
    for (const int at : half_fields(t)) put16(at, rng() % 50 == 0 ? 0 : tensor::f32_to_f16(uniform(rng) * 0.05f));
    if (t == DType::f32) std::memcpy(b, &v, 4);
    if (t == DType::f16) put16(0, tensor::f32_to_f16(v));
    if (t == DType::bf16) put16(0, tensor::f32_to_bf16(v));
    if (t == DType::f8_e4m3) b[0] = uint8_t((b[0] & 0x80) | (rng() % 0x40));
    if (t == DType::f8_e5m2) b[0] = uint8_t((b[0] & 0x80) | (rng() % 0x40));
    if (t == DType::mxfp4) b[0] = uint8_t(118 + rng() % 12);
    if (t == DType::f8_g32) for (int j = 4; j < 36; ++j) b[j] &= 0xbf;
    if (t == DType::i4_g32) b[4] = uint8_t(b[4] % 17);
    if (t == DType::i8_g16 || t == DType::i4_g32 || t == DType::e2m1_g16)
      for (int g = 0; g < (t == DType::i4_g32 ? 1 : 2); ++g) {
        const float d = uniform(rng) * 0.05f;
        std::memcpy(b + 4 * g, &d, 4);
      }
    if (t == DType::nvfp4) for (int g = 0; g < 4; ++g) b[g] = uint8_t(rng() % 0x40);
    if (t == DType::iq1_m)  // the half is spread over the top nibbles of four words
      for (int w = 0; w < 4; ++w) b[49 + 2 * w] = uint8_t((b[49 + 2 * w] & 0x0f) | ((tensor::f32_to_f16(0.01f) >> (4 * w)) & 15) << 4);
  }
  decode(s);
  return s;
}

/// Scales (and zero points) that hold for 128 columns: what most checkpoints have. REQUIRES: i8_g16, f8_g32 or i4_g32, k % 32 == 0
inline Sample grouped(DType t, int64_t n, int64_t k, uint32_t seed) {
  Sample s = tame(t, n, k, seed);
  const size_t row = tensor::row_bytes(t, k), block = size_t(tensor::format(t).bytes), head = t == DType::i4_g32 ? 5 : t == DType::f8_g32 ? 4 : 8;
  for (size_t i = 0; i < s.bytes.size(); i += block) {
    uint8_t* const b = s.bytes.data() + i;
    if (t == DType::i8_g16) std::memcpy(b + 4, b, 4);
    if (t == DType::f8_g32) for (size_t j = 4; j < 36; ++j) b[j] = uint8_t((b[j] & 0x7f) == 0x7f ? 0 : b[j]);
    std::memcpy(b, b - i % row / block % 4 * block, head);
  }
  decode(s);
  return s;
}

}  // namespace isotope::ops::samples
