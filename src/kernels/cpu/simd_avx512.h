// One zmm register holds the sixteen lanes.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

namespace isotope::kernels::cpu {
namespace {

constexpr const char* kSimd = "avx512";
// What the registers allow; see gemm_int.inl and gemm_float.inl.
constexpr int kPanelRows = 16, kSmallPanelRows = 8, kFloatRows = 6, kTilesAtOnce = 2;
constexpr int kRowsAtOnce = 4, kPanelsAtOnce = 2;
constexpr int float_vectors_at_once(int) { return 4; }
struct f32x16 { __m512 v; };
struct i32x16 { __m512i v; };
struct m16 { __mmask16 v; };
struct u8x64 { __m512i v; };

inline __mmask16 mask_n(int n) { return __mmask16((1u << n) - 1u); }  // REQUIRES: 0 <= n <= 16
inline f32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
inline i32x16 set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
inline f32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline i32x16 load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
inline f32x16 load_n(const float* p, int n) { return {_mm512_maskz_loadu_ps(mask_n(n), p)}; }
inline i32x16 load_n(const int32_t* p, int n) { return {_mm512_maskz_loadu_epi32(mask_n(n), p)}; }
inline void store(float* p, f32x16 a) { _mm512_storeu_ps(p, a.v); }
inline void store(int32_t* p, i32x16 a) { _mm512_storeu_si512(p, a.v); }
inline void store_n(float* p, f32x16 a, int n) { _mm512_mask_storeu_ps(p, mask_n(n), a.v); }
inline void store_n(int32_t* p, i32x16 a, int n) { _mm512_mask_storeu_epi32(p, mask_n(n), a.v); }
inline float lane0(f32x16 a) { return _mm512_cvtss_f32(a.v); }
inline i32x16 load_u16(const uint16_t* p) { return {_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p))}; }
inline i32x16 load_u16_n(const uint16_t* p, int n) { return {_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask_n(n), p))}; }
inline void store_u16(uint16_t* p, i32x16 a) { _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(a.v)); }
inline void store_u16_n(uint16_t* p, i32x16 a, int n) { _mm256_mask_storeu_epi16(p, mask_n(n), _mm512_cvtepi32_epi16(a.v)); }
inline i32x16 load_u8(const uint8_t* p) { return {_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p))}; }
inline i32x16 load_s8(const int8_t* p) { return {_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p))}; }
inline void store_s8(int8_t* p, i32x16 a) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(a.v)); }  ///< REQUIRES: lanes in [-128, 127]

inline f32x16 operator+(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline f32x16 operator-(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline f32x16 operator*(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline f32x16 operator/(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline f32x16 max(f32x16 a, f32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }  ///< a > b ? a : b, so b if either is NaN
inline f32x16 min(f32x16 a, f32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }  ///< a * b + c, rounded once
inline f32x16 sqrt(f32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
inline f32x16 round_even(f32x16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
inline f32x16 floor(f32x16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }

inline i32x16 operator+(i32x16 a, i32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline i32x16 operator-(i32x16 a, i32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline i32x16 operator*(i32x16 a, i32x16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
inline i32x16 operator&(i32x16 a, i32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline i32x16 operator|(i32x16 a, i32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
inline i32x16 operator^(i32x16 a, i32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline i32x16 max(i32x16 a, i32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline i32x16 min(i32x16 a, i32x16 b) { return {_mm512_min_epi32(a.v, b.v)}; }
template <int S> inline i32x16 shift_left(i32x16 a) { return {_mm512_slli_epi32(a.v, S)}; }
template <int S> inline i32x16 shift_right(i32x16 a) { return {_mm512_srai_epi32(a.v, S)}; }
template <int S> inline i32x16 shift_right_logical(i32x16 a) { return {_mm512_srli_epi32(a.v, S)}; }
/// To nearest even; what does not fit (and NaN) becomes INT32_MIN.
inline i32x16 to_i32(f32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }
inline f32x16 to_f32(i32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline i32x16 f32_to_bits(f32x16 a) { return {_mm512_castps_si512(a.v)}; }
inline f32x16 bits_to_f32(i32x16 a) { return {_mm512_castsi512_ps(a.v)}; }

inline m16 lt(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline m16 le(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
inline m16 gt(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
inline m16 ge(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
inline m16 eq(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline m16 unordered(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_UNORD_Q)}; }
inline m16 gt(i32x16 a, i32x16 b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
inline m16 eq(i32x16 a, i32x16 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
inline m16 operator&(m16 a, m16 b) { return {__mmask16(a.v & b.v)}; }
inline m16 operator|(m16 a, m16 b) { return {__mmask16(a.v | b.v)}; }
inline m16 operator~(m16 a) { return {__mmask16(~a.v)}; }
inline m16 first_n(int n) { return {mask_n(n)}; }
inline bool any(m16 m) { return m.v != 0; }
inline f32x16 select(m16 m, f32x16 a, f32x16 b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
inline i32x16 select(m16 m, i32x16 a, i32x16 b) { return {_mm512_mask_blend_epi32(m.v, b.v, a.v)}; }

/// Sums and maxima over the lanes as a tree: lane i with i + 8, then + 4, + 2, + 1.
inline float hsum(f32x16 a) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
inline float hmax(f32x16 a) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
/// Lane r: `op` over the lanes of a[r], in the tree of hsum and hmax; sixteen of them at the price of three.
template <class Op>
inline f32x16 across(const f32x16 (&a)[16], Op op) {
  f32x16 b[8], c[4], d[2];
  for (int i = 0; i < 8; ++i) {
    const __m512 x = a[2 * i].v, y = a[2 * i + 1].v;
    b[i] = op(f32x16{_mm512_shuffle_f32x4(x, y, 0x44)}, f32x16{_mm512_shuffle_f32x4(x, y, 0xee)});
  }
  for (int i = 0; i < 4; ++i) {
    const __m512 x = b[2 * i].v, y = b[2 * i + 1].v;
    c[i] = op(f32x16{_mm512_shuffle_f32x4(x, y, 0x88)}, f32x16{_mm512_shuffle_f32x4(x, y, 0xdd)});
  }
  for (int i = 0; i < 2; ++i) {
    const __m512 x = c[2 * i].v, y = c[2 * i + 1].v;
    d[i] = op(f32x16{_mm512_shuffle_ps(x, y, 0x44)}, f32x16{_mm512_shuffle_ps(x, y, 0xee)});
  }
  const f32x16 e = op(f32x16{_mm512_shuffle_ps(d[0].v, d[1].v, 0x88)}, f32x16{_mm512_shuffle_ps(d[0].v, d[1].v, 0xdd)});
  return {_mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), e.v)};
}
inline f32x16 hsums(const f32x16 (&a)[16]) { return across(a, [](f32x16 x, f32x16 y) { return x + y; }); }
inline f32x16 hmaxes(const f32x16 (&a)[16]) { return across(a, [](f32x16 x, f32x16 y) { return max(x, y); }); }
/// The largest of the lanes' bits as integers.
inline i32x16 hmaxes_of_bits(const f32x16 (&a)[16]) {
  return {_mm512_castps_si512(across(a, [](f32x16 x, f32x16 y) { return f32x16{_mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(x.v), _mm512_castps_si512(y.v)))}; }).v)};
}
inline int32_t hsum(i32x16 a) { return _mm512_reduce_add_epi32(a.v); }
inline int32_t hmax(i32x16 a) { return _mm512_reduce_max_epi32(a.v); }

/// Number j of row i becomes number i of row j.
inline void transpose(__m512i (&q)[8]) {  // 64-bit numbers
  __m512i a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm512_unpacklo_epi64(q[2 * i], q[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi64(q[2 * i], q[2 * i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int odd = 0; odd < 2; ++odd) {
      b[i + odd] = _mm512_shuffle_i64x2(a[i + odd], a[i + odd + 2], 0x88);
      b[i + odd + 2] = _mm512_shuffle_i64x2(a[i + odd], a[i + odd + 2], 0xdd);
    }
  }
  for (int i = 0; i < 4; ++i) {
    q[i] = _mm512_shuffle_i64x2(b[i], b[i + 4], 0x88);
    q[i + 4] = _mm512_shuffle_i64x2(b[i], b[i + 4], 0xdd);
  }
}
inline void transpose(f32x16 (&a)[16]) {
  __m512i low[8], high[8];
  for (int i = 0; i < 8; ++i) {
    low[i] = _mm512_castps_si512(_mm512_unpacklo_ps(a[2 * i].v, a[2 * i + 1].v));
    high[i] = _mm512_castps_si512(_mm512_unpackhi_ps(a[2 * i].v, a[2 * i + 1].v));
  }
  transpose(low);
  transpose(high);
  for (int i = 0; i < 8; ++i) {
    a[i / 2 * 4 + i % 2].v = _mm512_castsi512_ps(low[i]);
    a[i / 2 * 4 + 2 + i % 2].v = _mm512_castsi512_ps(high[i]);
  }
}

inline f32x16 load_f16(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))}; }
inline f32x16 load_f16_n(const uint16_t* p, int n) { return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask_n(n), p))}; }
inline void store_f16(uint16_t* p, f32x16 a) { _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT)); }
inline void store_f16_n(uint16_t* p, f32x16 a, int n) { _mm256_mask_storeu_epi16(p, mask_n(n), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT)); }

// ---- codes ------------------------------------------------------------------------------------------------------------------
inline u8x64 load64(const void* p) { return {_mm512_loadu_si512(p)}; }
inline void store64(void* p, u8x64 a) { _mm512_storeu_si512(p, a.v); }
/// (a >> S) & mask and (a << S) & mask, byte by byte.
template <int S> inline u8x64 shr_and(u8x64 a, uint8_t mask) {
  return {_mm512_and_si512(S ? _mm512_srli_epi16(a.v, S) : a.v, _mm512_set1_epi8(char(mask & (0xff >> S))))};
}
template <int S> inline u8x64 shl_and(u8x64 a, uint8_t mask) {
  return {_mm512_and_si512(S ? _mm512_slli_epi16(a.v, S) : a.v, _mm512_set1_epi8(char(mask & (0xff << S))))};
}
inline u8x64 operator|(u8x64 a, u8x64 b) { return {_mm512_or_si512(a.v, b.v)}; }
/// table[a & 15], byte by byte. REQUIRES: a <= 15.
struct Table16 { __m512i v; };
inline Table16 load_table(const uint8_t* p) { return {_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)p))}; }
inline u8x64 lookup(Table16 t, u8x64 a) { return {_mm512_shuffle_epi8(t.v, a.v)}; }

inline __m512i broadcast4(const int8_t* a) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  return _mm512_set1_epi32(x);
}

/// Exact int32 dot products; see simd_scalar.h.
template <int Bits>
struct Dot {
  static constexpr int kRun = 8;
  __m512i acc;
  static Dot symmetric(const int32_t* neg_sum) { return {_mm512_slli_epi32(_mm512_set1_epi32(*neg_sum), Bits - 1)}; }
  static Dot plain() { static_assert(Bits <= 7); return {_mm512_setzero_si512()}; }
  void add(u8x64 w, const int8_t* a) { acc = _mm512_dpbusd_epi32(acc, w.v, broadcast4(a)); }
  void flush() {}
  i32x16 result() const { return {acc}; }
};

/// One signed dot product of n bytes; b >= -127, n <= 2^16. Exact.
inline int32_t dot_s8(const int8_t* a, const int8_t* b, int n) {
  __m512i s = _mm512_setzero_si512();
  for (int i = 0; i < n; i += 64) {
    const __mmask64 m = n - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - i)) - 1;
    const __m512i x = _mm512_maskz_loadu_epi8(m, a + i), y = _mm512_maskz_loadu_epi8(m, b + i);
    s = _mm512_dpbusd_epi32(s, _mm512_abs_epi8(x), _mm512_mask_sub_epi8(y, _mm512_movepi8_mask(x), _mm512_setzero_si512(), y));
  }
  return _mm512_reduce_add_epi32(s);
}

/// Stores 32 codes, returns the sums of the two halves. REQUIRES: lanes in [-128, 127].
struct Sums { int32_t a, b; };
inline Sums store_codes(int8_t* p, i32x16 a, i32x16 b) {
  const __m256i q = _mm256_set_m128i(_mm512_cvtepi32_epi8(b.v), _mm512_cvtepi32_epi8(a.v));
  _mm256_storeu_si256((__m256i*)p, q);
  __m256i v = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), q), _mm256_set1_epi16(1));
  v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0x4e));
  v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0xb1));
  return {_mm256_cvtsi256_si32(v), _mm_cvtsi128_si32(_mm256_extracti128_si256(v, 1))};
}

/// Two rows of 32 codes from lanes in [-128, 127], and the sums of each sixteen as four int32 parts.
struct CodePair {
  __m512i codes, parts;
};
inline CodePair code_pair(i32x16 a0, i32x16 a1, i32x16 b0, i32x16 b1) {
  const __m512i mixed = _mm512_packs_epi16(_mm512_packs_epi32(a0.v, a1.v), _mm512_packs_epi32(b0.v, b1.v));
  const __m512i q = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), mixed);
  return {q, _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), q)};
}
/// From the parts of eight pairs: the sums of the first and of the second sixteen of each row.
struct HalfSums {
  i32x16 first, second;
};
inline HalfSums half_sums(const CodePair (&p)[8]) {
  const auto add = [](__m512i x, __m512i y, auto low, auto high) {
    const __m512 a = _mm512_castsi512_ps(x), b = _mm512_castsi512_ps(y);
    return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(a, b, low())), _mm512_castps_si512(_mm512_shuffle_ps(a, b, high())));
  };
  using std::integral_constant;
  __m512i sums[2];  // quarter k of sums[i]: half k % 2 of the rows 8 i + k / 2 + {0, 2, 4, 6}
  for (int i = 0; i < 2; ++i) {
    const CodePair* q = p + 4 * i;
    const __m512i x = add(q[0].parts, q[1].parts, integral_constant<int, 0x44>{}, integral_constant<int, 0xee>{});
    const __m512i y = add(q[2].parts, q[3].parts, integral_constant<int, 0x44>{}, integral_constant<int, 0xee>{});
    sums[i] = add(x, y, integral_constant<int, 0x88>{}, integral_constant<int, 0xdd>{});
  }
  const __m512i first = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
  return {{_mm512_permutex2var_epi32(sums[0], first, sums[1])}, {_mm512_permutex2var_epi32(sums[0], _mm512_add_epi32(first, _mm512_set1_epi32(4)), sums[1])}};
}

// ---- pairs of bfloat16: see simd.h ------------------------------------------------------------------------------------------
struct bf16x32 { __m512i v; };
inline f32x16 times_power_of_two(f32x16 x, f32x16 n) { return {_mm512_scalef_ps(x.v, n.v)}; }
inline bf16x32 load_pairs(const uint16_t* p) { return {_mm512_loadu_si512(p)}; }
inline bf16x32 keep_halves(bf16x32 a, bool even, bool odd) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi32(int32_t((even ? 0xffffu : 0u) | (odd ? 0xffff0000u : 0u))))};
}
inline void turn_pairs(const uint16_t* from, int n, uint16_t* to, int stride) {
  const __m512i halves = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  __m512i q[8];
  for (int i = 0; i < 8; ++i) q[i] = i < n ? _mm512_shuffle_epi8(_mm512_loadu_si512(from + 32 * i), halves) : _mm512_setzero_si512();
  transpose(q);
  for (int i = 0; i < 8; ++i) _mm512_storeu_si512(to + i * stride, q[i]);
}
#if defined(__AVX512BF16__)
using PairScalar = uint32_t;
inline f32x16 dot2(f32x16 acc, bf16x32 a, const PairScalar* b) {
  return {_mm512_dpbf16_ps(acc.v, (__m512bh)a.v, (__m512bh)_mm512_set1_epi32(int32_t(*b)))};
}
inline void store_pair_scalars(PairScalar* p, f32x16 a) { _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(a.v)); }
#else
struct PairScalar { float even, odd; };
inline f32x16 dot2(f32x16 acc, bf16x32 a, const PairScalar* b) {
  acc.v = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(a.v, _mm512_set1_epi32(int32_t(0xffff0000u)))), _mm512_set1_ps(b->odd), acc.v);
  acc.v = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a.v, 16)), _mm512_set1_ps(b->even), acc.v);
  return acc;
}
#endif

inline void prefetch_to_write(void* p) { __builtin_prefetch(p, 1, 3); }
inline void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }
inline void prefetch_l2(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T1); }

}  // namespace
}  // namespace isotope::kernels::cpu
