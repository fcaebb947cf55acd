// What one instruction set offers: plain functions over pointers and explicit shapes. No threads, no allocation, no settings, no errors; the op
// above has checked the shapes. Every function gives the same bits in every table.
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/channel_delta.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/limits.h"
#include "kernels/cpu/recurrent.h"
#include "kernels/cpu/sparse.h"

namespace isotope::kernels::cpu {

/// Sixteen lanes through one operation of simd.h; exists so that tests can compare the instruction sets operation by operation.
enum class Probe {
  add, sub, mul, div, fma, max, min, sqrt, round_even, floor, neg, abs, exp, to_i32, f16, bf16, less, hsum, hmax, load_n, load_f16_n, load_bf16_n,
  store_n, store_f16_n, store_bf16_n, count_
};
using ProbeFn = void (*)(Probe, const float* a, const float* b, const float* c, float* out) noexcept;  ///< [16] each

struct KernelTable {
  const char* isa;
  GemmKernels gemm;
  AttentionKernels attention;
  ElementwiseKernels elementwise;
  ProbeFn probe;
  LimitKernels limits;
  RecurrentKernels recurrent;
  ChannelDeltaKernels channel_delta;
  SparseKernels sparse;
};

// One strong symbol for each ISA, defined by all.inl. Reach them through pick.h: calling a table that the CPU cannot run is undefined.
extern const KernelTable table_scalar;
extern const KernelTable table_avx2;
extern const KernelTable table_avx512_vnni;
extern const KernelTable table_avx512_bf16;

/// Integer kernels through AMX tiles; null for floating packs.
struct AmxGemms {
  GemmKernels::Gemm gemm[size_t(Pack::count_)];
};
extern const AmxGemms gemms_avx512_amx;

}  // namespace isotope::kernels::cpu
