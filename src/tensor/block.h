// What the block coders share: unaligned little-endian loads and the table row of one decoder.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/format.h"

namespace isotope::tensor {

inline uint16_t load_u16(const uint8_t* p) noexcept { uint16_t v; std::memcpy(&v, p, 2); return v; }
inline uint32_t load_u32(const uint8_t* p) noexcept { uint32_t v; std::memcpy(&v, p, 4); return v; }
inline float load_f32(const uint8_t* p) noexcept { float v; std::memcpy(&v, p, 4); return v; }
inline float load_f16(const uint8_t* p) noexcept { return f16_to_f32(load_u16(p)); }

/// E2M1 values, doubled so that they are integers; whoever multiplies halves the scale instead.
inline constexpr int8_t kE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline void store_u16(uint8_t* p, uint16_t v) noexcept { std::memcpy(p, &v, 2); }

/// The code of the nearest E2M1 value; ties go to the even code, what is above 6 becomes 6.
uint8_t f32_to_e2m1(float) noexcept;

/// Encodes format(dtype).block floats as one block.
using EncodeBlock = void (*)(const float* x, uint8_t* block) noexcept;
EncodeBlock encode_k(DType) noexcept;  ///< Q4_K, Q5_K, Q6_K; null for others

/// Decodes one block into format(dtype).block floats.
using DecodeBlock = void (*)(const uint8_t* block, float* out) noexcept;

DecodeBlock decode_simple(DType) noexcept;    ///< floats, Q4_0 … Q8_1, MXFP4, NVFP4; null for others
DecodeBlock decode_k(DType) noexcept;         ///< Q2_K … Q8_K, TQ1_0, TQ2_0
DecodeBlock decode_codebook(DType) noexcept;  ///< IQ*

}  // namespace isotope::tensor
