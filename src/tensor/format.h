// Number formats as rows. Loader, sizes, `doctor` and the kernel picker read this table; nothing else knows a block size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "isotope/result.h"

namespace isotope::tensor {

enum class DType : uint8_t {
  f32, f16, bf16, f64, i8, i16, i32, i64, u8, boolean,
  q4_0, q4_1, q5_0, q5_1, q8_0, q8_1,
  q2_k, q3_k, q4_k, q5_k, q6_k, q8_k,
  iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, iq4_nl, iq4_xs,
  tq1_0, tq2_0, mxfp4, nvfp4,
  f8_e4m3, f8_e5m2, f8_e8m0,
  i8_g16, f8_g32, i4_g32, e2m1_g16,  ///< of no file: what quantized matrices of several tensors become (weights/quantized.h)
  count_
};

struct Format {
  DType dtype;
  std::string_view name;       ///< GGUF's spelling: "Q4_K", "F16"
  std::string_view safetensors;///< safetensors' spelling, or ""
  int ggml_type;               ///< id in GGUF files, or -1
  int block;                   ///< elements of one block
  int bytes;                   ///< bytes of one block
  bool weights;                ///< usable as a matrix weight
};

const Format& format(DType);
const Format* format_by_ggml(uint32_t ggml_type);        ///< null if unknown
const Format* format_by_safetensors(std::string_view);   ///< null if unknown
const Format* format_by_name(std::string_view);          ///< any case; null if unknown

/// Bytes of a row of n elements. REQUIRES n % block == 0.
inline size_t row_bytes(DType t, int64_t n) { const Format& f = format(t); return size_t(n / f.block) * size_t(f.bytes); }

/// Reference dequantization of n elements (n % block == 0); the specification of each format. Fails for formats without one, by name.
Result<void> dequantize(DType, const void* src, std::span<float> out);
/// Reference quantization by a simple rule (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, MXFP4).
/// The K formats search the step of each run.
Result<void> quantize(DType, std::span<const float> in, void* dst);

float f16_to_f32(uint16_t) noexcept;
uint16_t f32_to_f16(float) noexcept;   ///< round to nearest even
inline float bf16_to_f32(uint16_t h) noexcept { uint32_t u = uint32_t(h) << 16; float f; __builtin_memcpy(&f, &u, 4); return f; }
uint16_t f32_to_bf16(float) noexcept;  ///< round to nearest even, NaN stays NaN
float f8_e4m3_to_f32(uint8_t) noexcept;  ///< OCP E4M3: no infinity, 0x7f and 0xff are NaN, largest 448
uint8_t f32_to_f8_e4m3(float) noexcept;  ///< round to nearest even; above 448 (infinity too) becomes 448, NaN stays NaN
float f8_e5m2_to_f32(uint8_t) noexcept;  ///< OCP E5M2: the upper half of an IEEE half
float f8_e8m0_to_f32(uint8_t) noexcept;  ///< OCP MX scale: 2^(b-127), 0xff is NaN

}  // namespace isotope::tensor
