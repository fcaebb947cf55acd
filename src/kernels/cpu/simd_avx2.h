// Two ymm registers hold the sixteen lanes: lo = lanes 0-7, hi = 8-15.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

namespace isotope::kernels::cpu {
namespace {

constexpr const char* kSimd = "avx2";
// What the registers allow; see gemm_int.inl and gemm_float.inl.
constexpr int kPanelRows = 6, kSmallPanelRows = 6, kFloatRows = 6, kTilesAtOnce = 1;
constexpr int kRowsAtOnce = 1, kPanelsAtOnce = 1;
constexpr int float_vectors_at_once(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
struct f32x16 { __m256 lo, hi; };
struct i32x16 { __m256i lo, hi; };
struct m16 { __m256 lo, hi; };  // all ones or all zeros a lane
struct u8x64 { __m256i lo, hi; };

#define ISO_BOTH(R, name, A, B, f) inline R name(A a, B b) { return {f(a.lo, b.lo), f(a.hi, b.hi)}; }
#define ISO_EACH(R, name, A, f) inline R name(A a) { return {f(a.lo), f(a.hi)}; }

inline f32x16 set1(float x) { const __m256 v = _mm256_set1_ps(x); return {v, v}; }
inline i32x16 set1(int32_t x) { const __m256i v = _mm256_set1_epi32(x); return {v, v}; }
inline __m256i iota8() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
inline m16 first_n(int n) {
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), iota8())),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), iota8()))};
}
inline f32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline i32x16 load(const int32_t* p) { return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 8))}; }
inline f32x16 load_n(const float* p, int n) {
  const m16 m = first_n(n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.lo)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.hi))};
}
inline i32x16 load_n(const int32_t* p, int n) {
  const m16 m = first_n(n);
  return {_mm256_maskload_epi32(p, _mm256_castps_si256(m.lo)), _mm256_maskload_epi32(p + 8, _mm256_castps_si256(m.hi))};
}
inline void store(float* p, f32x16 a) { _mm256_storeu_ps(p, a.lo); _mm256_storeu_ps(p + 8, a.hi); }
inline void store(int32_t* p, i32x16 a) { _mm256_storeu_si256((__m256i*)p, a.lo); _mm256_storeu_si256((__m256i*)(p + 8), a.hi); }
inline void store_n(float* p, f32x16 a, int n) {
  const m16 m = first_n(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), a.lo);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), a.hi);
}
inline void store_n(int32_t* p, i32x16 a, int n) {
  const m16 m = first_n(n);
  _mm256_maskstore_epi32(p, _mm256_castps_si256(m.lo), a.lo);
  _mm256_maskstore_epi32(p + 8, _mm256_castps_si256(m.hi), a.hi);
}
inline float lane0(f32x16 a) { return _mm256_cvtss_f32(a.lo); }
inline i32x16 load_u16(const uint16_t* p) {
  return {_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
inline i32x16 load_u16_n(const uint16_t* p, int n) {
  uint16_t t[16] = {};
  __builtin_memcpy(t, p, size_t(n) * 2);
  return load_u16(t);
}
inline __m128i narrow16(__m256i a) {  // low halves of eight lanes
  const __m256i s = _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1)));
  return _mm_unpacklo_epi64(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
}
inline void store_u16(uint16_t* p, i32x16 a) {
  _mm_storeu_si128((__m128i*)p, narrow16(a.lo));
  _mm_storeu_si128((__m128i*)(p + 8), narrow16(a.hi));
}
inline void store_u16_n(uint16_t* p, i32x16 a, int n) {
  uint16_t t[16];
  store_u16(t, a);
  __builtin_memcpy(p, t, size_t(n) * 2);
}
inline i32x16 load_u8(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)), _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)))};
}
inline i32x16 load_s8(const int8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)), _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)))};
}
inline void store_s8(int8_t* p, i32x16 a) {  ///< REQUIRES: lanes in [-128, 127]
  _mm_storeu_si128((__m128i*)p, _mm_packs_epi16(narrow16(a.lo), narrow16(a.hi)));
}

ISO_BOTH(f32x16, operator+, f32x16, f32x16, _mm256_add_ps)
ISO_BOTH(f32x16, operator-, f32x16, f32x16, _mm256_sub_ps)
ISO_BOTH(f32x16, operator*, f32x16, f32x16, _mm256_mul_ps)
ISO_BOTH(f32x16, operator/, f32x16, f32x16, _mm256_div_ps)
ISO_BOTH(f32x16, max, f32x16, f32x16, _mm256_max_ps)
ISO_BOTH(f32x16, min, f32x16, f32x16, _mm256_min_ps)
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
ISO_EACH(f32x16, sqrt, f32x16, _mm256_sqrt_ps)
inline __m256 round_even8(__m256 a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline __m256 floor8(__m256 a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
ISO_EACH(f32x16, round_even, f32x16, round_even8)
ISO_EACH(f32x16, floor, f32x16, floor8)

ISO_BOTH(i32x16, operator+, i32x16, i32x16, _mm256_add_epi32)
ISO_BOTH(i32x16, operator-, i32x16, i32x16, _mm256_sub_epi32)
ISO_BOTH(i32x16, operator*, i32x16, i32x16, _mm256_mullo_epi32)
ISO_BOTH(i32x16, operator&, i32x16, i32x16, _mm256_and_si256)
ISO_BOTH(i32x16, operator|, i32x16, i32x16, _mm256_or_si256)
ISO_BOTH(i32x16, operator^, i32x16, i32x16, _mm256_xor_si256)
ISO_BOTH(i32x16, max, i32x16, i32x16, _mm256_max_epi32)
ISO_BOTH(i32x16, min, i32x16, i32x16, _mm256_min_epi32)
template <int S> inline i32x16 shift_left(i32x16 a) { return {_mm256_slli_epi32(a.lo, S), _mm256_slli_epi32(a.hi, S)}; }
template <int S> inline i32x16 shift_right(i32x16 a) { return {_mm256_srai_epi32(a.lo, S), _mm256_srai_epi32(a.hi, S)}; }
template <int S> inline i32x16 shift_right_logical(i32x16 a) { return {_mm256_srli_epi32(a.lo, S), _mm256_srli_epi32(a.hi, S)}; }
ISO_EACH(i32x16, to_i32, f32x16, _mm256_cvtps_epi32)
ISO_EACH(f32x16, to_f32, i32x16, _mm256_cvtepi32_ps)
ISO_EACH(i32x16, f32_to_bits, f32x16, _mm256_castps_si256)
ISO_EACH(f32x16, bits_to_f32, i32x16, _mm256_castsi256_ps)

template <int P> inline m16 compare(f32x16 a, f32x16 b) { return {_mm256_cmp_ps(a.lo, b.lo, P), _mm256_cmp_ps(a.hi, b.hi, P)}; }
inline m16 lt(f32x16 a, f32x16 b) { return compare<_CMP_LT_OQ>(a, b); }
inline m16 le(f32x16 a, f32x16 b) { return compare<_CMP_LE_OQ>(a, b); }
inline m16 gt(f32x16 a, f32x16 b) { return compare<_CMP_GT_OQ>(a, b); }
inline m16 ge(f32x16 a, f32x16 b) { return compare<_CMP_GE_OQ>(a, b); }
inline m16 eq(f32x16 a, f32x16 b) { return compare<_CMP_EQ_OQ>(a, b); }
inline m16 unordered(f32x16 a, f32x16 b) { return compare<_CMP_UNORD_Q>(a, b); }
inline __m256 gt8(__m256i a, __m256i b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)); }
inline __m256 eq8(__m256i a, __m256i b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
ISO_BOTH(m16, gt, i32x16, i32x16, gt8)
ISO_BOTH(m16, eq, i32x16, i32x16, eq8)
ISO_BOTH(m16, operator&, m16, m16, _mm256_and_ps)
ISO_BOTH(m16, operator|, m16, m16, _mm256_or_ps)
inline __m256 not8(__m256 a) { return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1))); }
ISO_EACH(m16, operator~, m16, not8)
inline bool any(m16 m) { return _mm256_movemask_ps(_mm256_or_ps(m.lo, m.hi)) != 0; }
inline f32x16 select(m16 m, f32x16 a, f32x16 b) { return {_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)}; }
inline i32x16 select(m16 m, i32x16 a, i32x16 b) { return f32_to_bits(select(m, bits_to_f32(a), bits_to_f32(b))); }

/// Sums and maxima over the lanes as a tree: lane i with i + 8, then + 4, + 2, + 1.
inline float hsum(f32x16 a) {
  const __m256 h = _mm256_add_ps(a.lo, a.hi);
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
inline float hmax(f32x16 a) {
  const __m256 h = _mm256_max_ps(a.lo, a.hi);
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
inline int32_t hsum8(__m256i h) {
  __m128i q = _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
inline int32_t hsum(i32x16 a) { return hsum8(_mm256_add_epi32(a.lo, a.hi)); }
inline int32_t hmax(i32x16 a) {
  const __m256i h = _mm256_max_epi32(a.lo, a.hi);
  __m128i q = _mm_max_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  q = _mm_max_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}

inline f32x16 load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
inline f32x16 load_f16_n(const uint16_t* p, int n) {
  uint16_t t[16] = {};
  __builtin_memcpy(t, p, size_t(n) * 2);
  return load_f16(t);
}
inline void store_f16(uint16_t* p, f32x16 a) {
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128((__m128i*)(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
inline void store_f16_n(uint16_t* p, f32x16 a, int n) {
  uint16_t t[16];
  store_f16(t, a);
  __builtin_memcpy(p, t, size_t(n) * 2);
}

// ---- codes ------------------------------------------------------------------------------------------------------------------
inline u8x64 load64(const void* p) { return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)p + 1)}; }
inline void store64(void* p, u8x64 a) { _mm256_storeu_si256((__m256i*)p, a.lo); _mm256_storeu_si256((__m256i*)p + 1, a.hi); }
/// (a >> S) & mask and (a << S) & mask, byte by byte.
template <int S> inline u8x64 shr_and(u8x64 a, uint8_t mask) {
  const __m256i m = _mm256_set1_epi8(char(mask & (0xff >> S)));
  return {_mm256_and_si256(_mm256_srli_epi16(a.lo, S), m), _mm256_and_si256(_mm256_srli_epi16(a.hi, S), m)};
}
template <int S> inline u8x64 shl_and(u8x64 a, uint8_t mask) {
  const __m256i m = _mm256_set1_epi8(char(mask & (0xff << S)));
  return {_mm256_and_si256(_mm256_slli_epi16(a.lo, S), m), _mm256_and_si256(_mm256_slli_epi16(a.hi, S), m)};
}
ISO_BOTH(u8x64, operator|, u8x64, u8x64, _mm256_or_si256)
/// table[a & 15], byte by byte. REQUIRES: a <= 15.
struct Table16 { __m256i v; };
inline Table16 load_table(const uint8_t* p) { return {_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)p))}; }
inline u8x64 lookup(Table16 t, u8x64 a) { return {_mm256_shuffle_epi8(t.v, a.lo), _mm256_shuffle_epi8(t.v, a.hi)}; }

inline __m256i broadcast4(const int8_t* a) {
  int32_t x;
  __builtin_memcpy(&x, a, 4);
  return _mm256_set1_epi32(x);
}
inline i32x16 widen_pairs(__m256i lo, __m256i hi) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {_mm256_madd_epi16(lo, ones), _mm256_madd_epi16(hi, ones)};
}

/// Exact int32 dot products; see simd_scalar.h. vpmaddubsw adds two products in 16 bits. Up to 6 bits, kRun groups fit there before they are widened
/// (8·2·15·127, 4·2·31·127 and 2·2·63·127 are below 2^15). 8-bit codes overflow at once (2·255·127): those go through |w| · sign(w)·a, at most
/// 2·128·127, without the bias.
template <int Bits>
struct Dot {
  static constexpr int kRun = Bits <= 4 ? 8 : Bits == 5 ? 4 : Bits == 6 ? 2 : 1;
  i32x16 acc;
  __m256i lo, hi;  // 16-bit sums of a run
  static Dot symmetric(const int32_t* neg_sum) {
    if constexpr (Bits == 8) return start(set1(int32_t{0}));
    else return start(shift_left<Bits - 1>(set1(*neg_sum)));
  }
  static Dot plain() { static_assert(Bits <= 7); return start(set1(int32_t{0})); }
  static Dot start(i32x16 acc) { return {acc, _mm256_setzero_si256(), _mm256_setzero_si256()}; }
  void add(u8x64 w, const int8_t* a) {
    const __m256i x = broadcast4(a);
    if constexpr (Bits == 8) {
      const __m256i bias = _mm256_set1_epi8(char(0x80)), l = _mm256_xor_si256(w.lo, bias), h = _mm256_xor_si256(w.hi, bias);
      lo = _mm256_maddubs_epi16(_mm256_abs_epi8(l), _mm256_sign_epi8(x, l));
      hi = _mm256_maddubs_epi16(_mm256_abs_epi8(h), _mm256_sign_epi8(x, h));
    } else {
      lo = _mm256_add_epi16(lo, _mm256_maddubs_epi16(w.lo, x));
      hi = _mm256_add_epi16(hi, _mm256_maddubs_epi16(w.hi, x));
    }
  }
  void flush() {
    acc = acc + widen_pairs(lo, hi);
    lo = hi = _mm256_setzero_si256();
  }
  i32x16 result() const { return acc; }
};

/// One signed dot product of n bytes; b >= -127, n <= 2^16. Exact.
inline int32_t dot_s8(const int8_t* a, const int8_t* b, int n) {
  __m256i s = _mm256_setzero_si256();
  const __m256i ones = _mm256_set1_epi16(1);
  int i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i x = _mm256_loadu_si256((const __m256i*)(a + i)), y = _mm256_loadu_si256((const __m256i*)(b + i));
    s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(y, x)), ones));
  }
  int32_t r = hsum8(s);
  for (; i < n; ++i) r += int32_t(a[i]) * b[i];
  return r;
}

/// Stores 32 codes, returns the sums of the two halves. REQUIRES: lanes in [-128, 127].
struct Sums { int32_t a, b; };
inline Sums store_codes(int8_t* p, i32x16 a, i32x16 b) {
  const __m256i q = _mm256_set_m128i(_mm_packs_epi16(narrow16(b.lo), narrow16(b.hi)), _mm_packs_epi16(narrow16(a.lo), narrow16(a.hi)));
  _mm256_storeu_si256((__m256i*)p, q);
  __m256i v = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), q), _mm256_set1_epi16(1));
  v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0x4e));
  v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0xb1));
  return {_mm256_cvtsi256_si32(v), _mm_cvtsi128_si32(_mm256_extracti128_si256(v, 1))};
}

// ---- pairs of bfloat16: see simd.h ------------------------------------------------------------------------------------------
struct bf16x32 { __m256i lo, hi; };
inline bf16x32 load_pairs(const uint16_t* p) { return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 16))}; }
inline bf16x32 keep_halves(bf16x32 a, bool even, bool odd) {
  const __m256i m = _mm256_set1_epi32(int32_t((even ? 0xffffu : 0u) | (odd ? 0xffff0000u : 0u)));
  return {_mm256_and_si256(a.lo, m), _mm256_and_si256(a.hi, m)};
}
struct PairScalar { float even, odd; };
inline f32x16 dot2(f32x16 acc, bf16x32 a, const PairScalar* b) {
  const __m256i m = _mm256_set1_epi32(int32_t(0xffff0000u));
  const __m256 odd = _mm256_set1_ps(b->odd), even = _mm256_set1_ps(b->even);
  acc.lo = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(a.lo, m)), odd, acc.lo);
  acc.hi = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(a.hi, m)), odd, acc.hi);
  acc.lo = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(a.lo, 16)), even, acc.lo);
  acc.hi = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(a.hi, 16)), even, acc.hi);
  return acc;
}

inline void prefetch_to_write(void* p) { __builtin_prefetch(p, 1, 3); }
inline void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }
inline void prefetch_l2(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T1); }

}  // namespace
}  // namespace isotope::kernels::cpu
