// What this CPU can do at best: loops that do nothing but one thing. `isotope doctor` and the benchmarks put achieved speeds beside them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isotope::kernels::cpu {

struct LimitKernels {
  /// Dot products of codes [128] (below 16) with a [12]; returns the operations done (a multiply and an add count two). `sink` [16] keeps the
  /// result alive.
  int64_t (*int8_dots)(int64_t rounds, const uint8_t* codes, const int8_t* a, int32_t* sink) noexcept;
  /// Fused multiply-adds in registers; returns the operations done (two each). `sink` [16] keeps the result alive.
  int64_t (*float_fmas)(int64_t rounds, const float* a, float* sink) noexcept;
  /// Dot products of pairs of bfloat16 in registers, see dot2 of simd.h; operations done (four each).
  int64_t (*bf16_dots)(int64_t rounds, const uint16_t* a, float* sink) noexcept;
  /// Reads n bytes (a multiple of 256) in order; returns a value that depends on all of them.
  uint64_t (*read)(const void* data, size_t n) noexcept;
};

}  // namespace isotope::kernels::cpu
