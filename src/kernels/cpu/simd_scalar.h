// The reference lanes: plain loops. Slow where the compiler finds no vector form; always right.
#pragma once

#include <cstdint>
#include <type_traits>

namespace isotope::kernels::cpu {
namespace {

constexpr const char* kSimd = "scalar";
// What the registers allow; see gemm_int.inl and gemm_float.inl.
constexpr int kPanelRows = 1, kSmallPanelRows = 1, kFloatRows = 1, kTilesAtOnce = 1;
constexpr int kRowsAtOnce = 1, kPanelsAtOnce = 1;
constexpr int float_vectors_at_once(int) { return 4; }
struct f32x16 { float v[16]; };
struct i32x16 { int32_t v[16]; };
struct m16 { bool v[16]; };
struct u8x64 { uint8_t v[64]; };

#define ISO_LANES for (int i = 0; i < 16; ++i)
#define ISO_UNARY(R, name, A, expr) inline R name(A a) { R r; ISO_LANES r.v[i] = expr; return r; }
#define ISO_BINARY(R, name, A, B, expr) inline R name(A a, B b) { R r; ISO_LANES r.v[i] = expr; return r; }

inline f32x16 set1(float x) { f32x16 r; ISO_LANES r.v[i] = x; return r; }
inline i32x16 set1(int32_t x) { i32x16 r; ISO_LANES r.v[i] = x; return r; }
inline f32x16 load(const float* p) { f32x16 r; __builtin_memcpy(r.v, p, 64); return r; }
inline i32x16 load(const int32_t* p) { i32x16 r; __builtin_memcpy(r.v, p, 64); return r; }
inline f32x16 load_n(const float* p, int n) { f32x16 r; ISO_LANES r.v[i] = i < n ? p[i] : 0.0f; return r; }
inline i32x16 load_n(const int32_t* p, int n) { i32x16 r; ISO_LANES r.v[i] = i < n ? p[i] : 0; return r; }
inline void store(float* p, f32x16 a) { __builtin_memcpy(p, a.v, 64); }
inline void store(int32_t* p, i32x16 a) { __builtin_memcpy(p, a.v, 64); }
inline void store_n(float* p, f32x16 a, int n) { for (int i = 0; i < n; ++i) p[i] = a.v[i]; }
inline void store_n(int32_t* p, i32x16 a, int n) { for (int i = 0; i < n; ++i) p[i] = a.v[i]; }
inline float lane0(f32x16 a) { return a.v[0]; }
inline i32x16 load_u16(const uint16_t* p) { i32x16 r; ISO_LANES r.v[i] = p[i]; return r; }
inline i32x16 load_u16_n(const uint16_t* p, int n) { i32x16 r; ISO_LANES r.v[i] = i < n ? p[i] : 0; return r; }
inline void store_u16(uint16_t* p, i32x16 a) { ISO_LANES p[i] = uint16_t(a.v[i]); }
inline void store_u16_n(uint16_t* p, i32x16 a, int n) { for (int i = 0; i < n; ++i) p[i] = uint16_t(a.v[i]); }
inline i32x16 load_u8(const uint8_t* p) { i32x16 r; ISO_LANES r.v[i] = p[i]; return r; }
inline i32x16 load_s8(const int8_t* p) { i32x16 r; ISO_LANES r.v[i] = p[i]; return r; }
inline void store_s8(int8_t* p, i32x16 a) { ISO_LANES p[i] = int8_t(a.v[i]); }  ///< REQUIRES: lanes in [-128, 127]

ISO_BINARY(f32x16, operator+, f32x16, f32x16, a.v[i] + b.v[i])
ISO_BINARY(f32x16, operator-, f32x16, f32x16, a.v[i] - b.v[i])
ISO_BINARY(f32x16, operator*, f32x16, f32x16, a.v[i] * b.v[i])
ISO_BINARY(f32x16, operator/, f32x16, f32x16, a.v[i] / b.v[i])
ISO_BINARY(f32x16, max, f32x16, f32x16, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
ISO_BINARY(f32x16, min, f32x16, f32x16, a.v[i] < b.v[i] ? a.v[i] : b.v[i])
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { f32x16 r; ISO_LANES r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]); return r; }
ISO_UNARY(f32x16, sqrt, f32x16, __builtin_sqrtf(a.v[i]))
ISO_UNARY(f32x16, round_even, f32x16, __builtin_rintf(a.v[i]))
ISO_UNARY(f32x16, floor, f32x16, __builtin_floorf(a.v[i]))

inline int32_t wrap_i32(uint32_t x) { return int32_t(x); }
ISO_BINARY(i32x16, operator+, i32x16, i32x16, wrap_i32(uint32_t(a.v[i]) + uint32_t(b.v[i])))
ISO_BINARY(i32x16, operator-, i32x16, i32x16, wrap_i32(uint32_t(a.v[i]) - uint32_t(b.v[i])))
ISO_BINARY(i32x16, operator*, i32x16, i32x16, wrap_i32(uint32_t(a.v[i]) * uint32_t(b.v[i])))
ISO_BINARY(i32x16, operator&, i32x16, i32x16, a.v[i] & b.v[i])
ISO_BINARY(i32x16, operator|, i32x16, i32x16, a.v[i] | b.v[i])
ISO_BINARY(i32x16, operator^, i32x16, i32x16, a.v[i] ^ b.v[i])
ISO_BINARY(i32x16, max, i32x16, i32x16, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
ISO_BINARY(i32x16, min, i32x16, i32x16, a.v[i] < b.v[i] ? a.v[i] : b.v[i])
template <int S> ISO_UNARY(i32x16, shift_left, i32x16, wrap_i32(uint32_t(a.v[i]) << S))
template <int S> ISO_UNARY(i32x16, shift_right, i32x16, a.v[i] >> S)
template <int S> ISO_UNARY(i32x16, shift_right_logical, i32x16, wrap_i32(uint32_t(a.v[i]) >> S))

/// To nearest even; what does not fit (and NaN) becomes INT32_MIN, as the vector instructions do.
inline int32_t to_i32_1(float x) { return x >= -2147483648.0f && x < 2147483648.0f ? int32_t(__builtin_lrintf(x)) : INT32_MIN; }
ISO_UNARY(i32x16, to_i32, f32x16, to_i32_1(a.v[i]))
ISO_UNARY(f32x16, to_f32, i32x16, float(a.v[i]))
inline i32x16 f32_to_bits(f32x16 a) { i32x16 r; __builtin_memcpy(r.v, a.v, 64); return r; }
inline f32x16 bits_to_f32(i32x16 a) { f32x16 r; __builtin_memcpy(r.v, a.v, 64); return r; }

ISO_BINARY(m16, lt, f32x16, f32x16, a.v[i] < b.v[i])
ISO_BINARY(m16, le, f32x16, f32x16, a.v[i] <= b.v[i])
ISO_BINARY(m16, gt, f32x16, f32x16, a.v[i] > b.v[i])
ISO_BINARY(m16, ge, f32x16, f32x16, a.v[i] >= b.v[i])
ISO_BINARY(m16, eq, f32x16, f32x16, a.v[i] == b.v[i])
ISO_BINARY(m16, unordered, f32x16, f32x16, a.v[i] != a.v[i] || b.v[i] != b.v[i])
ISO_BINARY(m16, gt, i32x16, i32x16, a.v[i] > b.v[i])
ISO_BINARY(m16, eq, i32x16, i32x16, a.v[i] == b.v[i])
ISO_BINARY(m16, operator&, m16, m16, a.v[i] && b.v[i])
ISO_BINARY(m16, operator|, m16, m16, a.v[i] || b.v[i])
ISO_UNARY(m16, operator~, m16, !a.v[i])
inline m16 first_n(int n) { m16 r; ISO_LANES r.v[i] = i < n; return r; }
inline bool any(m16 m) { bool r = false; ISO_LANES r = r || m.v[i]; return r; }
inline f32x16 select(m16 m, f32x16 a, f32x16 b) { f32x16 r; ISO_LANES r.v[i] = m.v[i] ? a.v[i] : b.v[i]; return r; }
inline i32x16 select(m16 m, i32x16 a, i32x16 b) { i32x16 r; ISO_LANES r.v[i] = m.v[i] ? a.v[i] : b.v[i]; return r; }

/// Sums and maxima over the lanes as a tree: lane i with i + 8, then + 4, + 2, + 1.
inline float hsum(f32x16 a) {
  for (int s = 8; s; s >>= 1) for (int i = 0; i < s; ++i) a.v[i] = a.v[i] + a.v[i + s];
  return a.v[0];
}
inline float hmax(f32x16 a) {
  for (int s = 8; s; s >>= 1) for (int i = 0; i < s; ++i) a.v[i] = a.v[i] > a.v[i + s] ? a.v[i] : a.v[i + s];
  return a.v[0];
}
inline int32_t hsum(i32x16 a) { uint32_t s = 0; ISO_LANES s += uint32_t(a.v[i]); return int32_t(s); }
inline int32_t hmax(i32x16 a) { int32_t m = a.v[0]; ISO_LANES m = a.v[i] > m ? a.v[i] : m; return m; }

// ---- half precision: what vcvtph2ps and vcvtps2ph do, in integers ------------------------------------------------------------
inline float f16_to_f32_1(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
  uint32_t u;
  if (e == 31) u = sign | 0x7f800000u | (m << 13) | (m ? 0x400000u : 0);
  else if (e) u = sign | ((e + 112) << 23) | (m << 13);
  else {
    const float f = float(m) * 5.9604644775390625e-08f;  // 2^-24
    __builtin_memcpy(&u, &f, 4);
    u |= sign;
  }
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
inline uint16_t f32_to_f16_1(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  const uint32_t sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000u) return uint16_t(sign | 0x7e00 | ((a >> 13) & 0x3ff));
  if (a >= 0x477ff000u) return uint16_t(sign | 0x7c00);  // rounds to 65536 or more
  if (a < 0x38800000u) {                                 // below 2^-14: the sum rounds to a multiple of 2^-24
    float f;
    __builtin_memcpy(&f, &a, 4);
    f += 0.5f;
    __builtin_memcpy(&u, &f, 4);
    return uint16_t(sign | (u - 0x3f000000u));
  }
  return uint16_t(sign | ((a + 0xfff + ((a >> 13) & 1) - 0x38000000u) >> 13));
}
inline f32x16 load_f16(const uint16_t* p) { f32x16 r; ISO_LANES r.v[i] = f16_to_f32_1(p[i]); return r; }
inline f32x16 load_f16_n(const uint16_t* p, int n) { f32x16 r; ISO_LANES r.v[i] = i < n ? f16_to_f32_1(p[i]) : 0.0f; return r; }
inline void store_f16(uint16_t* p, f32x16 a) { ISO_LANES p[i] = f32_to_f16_1(a.v[i]); }
inline void store_f16_n(uint16_t* p, f32x16 a, int n) { for (int i = 0; i < n; ++i) p[i] = f32_to_f16_1(a.v[i]); }

// ---- codes ------------------------------------------------------------------------------------------------------------------
inline u8x64 load64(const void* p) { u8x64 r; __builtin_memcpy(r.v, p, 64); return r; }
inline void store64(void* p, u8x64 a) { __builtin_memcpy(p, a.v, 64); }
/// (a >> S) & mask and (a << S) & mask, byte by byte.
template <int S> inline u8x64 shr_and(u8x64 a, uint8_t mask) { for (auto& x : a.v) x = uint8_t(x >> S) & mask; return a; }
template <int S> inline u8x64 shl_and(u8x64 a, uint8_t mask) { for (auto& x : a.v) x = uint8_t(x << S) & mask; return a; }
inline u8x64 operator|(u8x64 a, u8x64 b) { for (int i = 0; i < 64; ++i) a.v[i] |= b.v[i]; return a; }
/// table[a & 15], byte by byte.
struct Table16 { uint8_t v[16]; };
inline Table16 load_table(const uint8_t* p) { Table16 t; __builtin_memcpy(t.v, p, 16); return t; }
inline u8x64 lookup(Table16 t, u8x64 a) { for (auto& x : a.v) x = t.v[x & 15]; return a; }

/// Exact int32 dot products, lane by lane: codes(lane, 0..3) · a[0..3] for each group added. |a| <= 127. REQUIRES: flush() after every kRun groups
/// and before result().
/// Codes are below 2^Bits. `symmetric`: the code stands for code - 2^(Bits-1); neg_sum is minus the sum of every a that will be added.
/// `plain` (Bits <= 7 only): the code itself.
template <int Bits>
struct Dot {
  static constexpr int kRun = 8;
  i32x16 acc;
  static Dot symmetric(const int32_t* neg_sum) { return {set1(wrap_i32(uint32_t(*neg_sum) << (Bits - 1)))}; }
  static Dot plain() { static_assert(Bits <= 7); return {set1(int32_t{0})}; }
  void add(u8x64 w, const int8_t* a) {
    ISO_LANES for (int j = 0; j < 4; ++j) acc.v[i] += int32_t(w.v[4 * i + j]) * a[j];
  }
  void flush() {}
  i32x16 result() const { return acc; }
};

/// One signed dot product of n bytes; b >= -127, n <= 2^16. Exact.
inline int32_t dot_s8(const int8_t* a, const int8_t* b, int n) {
  int32_t s = 0;
  for (int i = 0; i < n; ++i) s += int32_t(a[i]) * b[i];
  return s;
}

/// Stores 32 codes, returns the sums of the two halves. REQUIRES: lanes in [-128, 127].
struct Sums { int32_t a, b; };
inline Sums store_codes(int8_t* p, i32x16 a, i32x16 b) {
  Sums s{};
  for (int i = 0; i < 16; ++i) {
    p[i] = int8_t(a.v[i]);
    p[i + 16] = int8_t(b.v[i]);
    s.a += a.v[i];
    s.b += b.v[i];
  }
  return s;
}

// ---- pairs of bfloat16: see simd.h ------------------------------------------------------------------------------------------
struct bf16x32 { uint32_t v[16]; };
inline bf16x32 load_pairs(const uint16_t* p) {
  bf16x32 r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
inline bf16x32 keep_halves(bf16x32 a, bool even, bool odd) {
  ISO_LANES a.v[i] &= (even ? 0xffffu : 0u) | (odd ? 0xffff0000u : 0u);
  return a;
}
struct PairScalar { float even, odd; };
inline float bits_as_float(uint32_t u) {
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
inline f32x16 dot2(f32x16 acc, bf16x32 a, const PairScalar* b) {
  ISO_LANES acc.v[i] = __builtin_fmaf(bits_as_float(a.v[i] & 0xffff0000u), b->odd, acc.v[i]);
  ISO_LANES acc.v[i] = __builtin_fmaf(bits_as_float(a.v[i] << 16), b->even, acc.v[i]);
  return acc;
}

inline void prefetch_to_write(void* p) { __builtin_prefetch(p, 1, 3); }
inline void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
inline void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

}  // namespace
}  // namespace isotope::kernels::cpu
