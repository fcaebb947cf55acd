// Sixteen lanes for every instruction set. One kernel body is written against this file and compiled once for each ISA:
// scalar (loops over 16), avx2 (two ymm), avx512_vnni (one zmm). Every operation gives the same bits on all of them; that is why fusing is
// explicit (fma), rounding is to nearest even, max/min have x86's rule for NaN, and reductions name their order.
// Included by all.inl only. All of it lives in an anonymous namespace: code built with AVX-512 flags must never be linked into a caller that has
// to run anywhere (test no_weak_ISA).
//
//   f32x16, i32x16   sixteen lanes           load store load_n store_n (first n lanes; the others read as 0) set1 + - * / & | ^ fma max min abs
//   m16              one bit a lane          lt le gt ge eq unordered select(m, a, b) first_n(n) any(m) & | ~
//   u8x64            64 codes: byte 4*i + j belongs to lane i, j-th of its four consecutive k
//   dots             int32 lanes += four products each, exact: see Dot
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)
#include "kernels/cpu/simd_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "kernels/cpu/simd_avx2.h"
#else
#include "kernels/cpu/simd_scalar.h"
#endif

namespace isotope::kernels::cpu {
namespace {

inline f32x16 operator-(f32x16 a) { return bits_to_f32(f32_to_bits(a) ^ set1(int32_t(0x80000000u))); }
inline f32x16 abs(f32x16 a) { return bits_to_f32(f32_to_bits(a) & set1(int32_t(0x7fffffff))); }
inline f32x16& operator+=(f32x16& a, f32x16 b) { return a = a + b; }
inline f32x16& operator*=(f32x16& a, f32x16 b) { return a = a * b; }
inline i32x16& operator+=(i32x16& a, i32x16 b) { return a = a + b; }
inline f32x16 zero_f32() { return set1(0.0f); }
inline i32x16 zero_i32() { return set1(int32_t{0}); }

/// Sixteen bfloat16 to float32, exact.
inline f32x16 load_bf16(const uint16_t* p) { return bits_to_f32(shift_left<16>(load_u16(p))); }
inline f32x16 load_bf16_n(const uint16_t* p, int n) { return bits_to_f32(shift_left<16>(load_u16_n(p, n))); }

/// float32 to bfloat16 in the low halves of the lanes: round to nearest even; NaN stays NaN, made quiet.
inline i32x16 to_bf16_bits(f32x16 a) {
  const i32x16 u = f32_to_bits(a);
  const i32x16 rounded = shift_right_logical<16>(u + set1(int32_t{0x7fff}) + (shift_right_logical<16>(u) & set1(int32_t{1})));
  return select(unordered(a, a), shift_right_logical<16>(u) | set1(int32_t{0x40}), rounded);
}
inline void store_bf16(uint16_t* p, f32x16 a) { store_u16(p, to_bf16_bits(a)); }
inline void store_bf16_n(uint16_t* p, f32x16 a, int n) { store_u16_n(p, to_bf16_bits(a), n); }

// Pairs of bfloat16, the operands of AVX-512 BF16 (vdpbf16ps):
//   bf16x32      sixteen lanes of an even and an odd element           load_pairs keep_halves (the other half reads as 0)
//   PairScalar   one pair for all lanes, as this ISA wants it in memory
//   turn_pairs   n vectors of sixteen tokens with two dimensions each become eight of sixteen dimensions with two tokens each, `stride` elements apart;
//                dimensions from 2 n on are 0
//   dot2         acc + odd · odd, rounded, then + even · even, rounded: what vdpbf16ps computes. That instruction takes denormals as zero and makes none;
//                for the same bits everywhere the others run without_denormals().
#if !defined(__AVX512F__)
inline void turn_pairs(const uint16_t* from, int n, uint16_t* to, int stride) {
  for (int t = 0; t < 16; ++t)
    for (int i = 0; i < 16; ++i) to[t / 2 * stride + 2 * i + t % 2] = i < 2 * n ? from[i / 2 * 32 + 2 * t + i % 2] : uint16_t{0};
}
/// Number j of row i becomes number i of row j.
inline void transpose(f32x16 (&a)[16]) {
  float rows[16][16];
  for (int i = 0; i < 16; ++i) store(rows[i], a[i]);
  for (int i = 0; i < 16; ++i) {
    float column[16];
    for (int j = 0; j < 16; ++j) column[j] = rows[j][i];
    a[i] = load(column);
  }
}
/// x · 2^n for whole n from -126 to 127; results are normal numbers or, without_denormals(), 0.
inline f32x16 times_power_of_two(f32x16 x, f32x16 n) { return x * bits_to_f32(shift_left<23>(to_i32(n) + set1(int32_t{127}))); }
#endif
#if !defined(__AVX512BF16__)
/// Sixteen numbers, rounded, as eight pairs.
inline void store_pair_scalars(PairScalar* p, f32x16 a) { store(reinterpret_cast<float*>(p), bits_to_f32(shift_left<16>(to_bf16_bits(a)))); }
#endif

/// From here on this thread's float32 arithmetic takes denormals as zero and makes none, until what is returned is given back.
inline unsigned without_denormals() {
#if defined(__x86_64__)
  const unsigned saved = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(saved | 0x8040u);
  return saved;
#else
  return 0;
#endif
}
inline void restore_denormals([[maybe_unused]] unsigned saved) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(saved);
#endif
}

#if !defined(__AVX512F__)  // which shuffles all rows at once
/// Lane r: the sum, or the largest, of the lanes of a[r].
inline f32x16 hsums(const f32x16 (&a)[16]) {
  float v[16];
  for (int r = 0; r < 16; ++r) v[r] = hsum(a[r]);
  return load(v);
}
inline f32x16 hmaxes(const f32x16 (&a)[16]) {
  float v[16];
  for (int r = 0; r < 16; ++r) v[r] = hmax(a[r]);
  return load(v);
}
#endif

/// e^x within 1.2e-7 relative over the whole range: 0 below -104, inf above 88.73, NaN stays NaN. The same bits on every ISA.
/// x = n·ln 2 + r with |r| <= ln 2 / 2; e^r by the minimax polynomial of Cephes' expf (S. Moshier); 2^n in two exact factors, so that results down
/// to the smallest denormal are rounded once more at most.
inline f32x16 exp(f32x16 x) {
  x = max(set1(-105.0f), min(set1(90.0f), x));
  const i32x16 n = to_i32(x * set1(1.44269504088896341f));
  const f32x16 nf = to_f32(n);
  f32x16 r = fma(nf, set1(-0.693359375f), x);
  r = fma(nf, set1(2.12194440e-4f), r);
  f32x16 p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  p = fma(p, r * r, r) + set1(1.0f);
  const i32x16 n1 = shift_right<1>(n), n2 = n - n1;
  p = p * bits_to_f32(shift_left<23>(n1 + set1(int32_t{127})));
  return p * bits_to_f32(shift_left<23>(n2 + set1(int32_t{127})));
}

/// A list of whole numbers as a type, for unrolling over constants.
template <int... I>
struct Indices {};
template <int N, int... I>
constexpr auto indices_() {
  if constexpr (N == 0) return Indices<I...>{};
  else return indices_<N - 1, N - 1, I...>();
}
template <int N>
constexpr auto indices() { return indices_<N>(); }

/// One lane's scalar results with the vector's bits: lane 0 of the vector form.
inline float exp1(float x) { return lane0(exp(set1(x))); }

}  // namespace
}  // namespace isotope::kernels::cpu
