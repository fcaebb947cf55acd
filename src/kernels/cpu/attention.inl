// Bodies of attention.h; compiled once for each ISA through all.inl.
#include <type_traits>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/functions.h"
#include "kernels/cpu/simd.h"

namespace isotope::kernels::cpu {
namespace {

// ---- storage formats ----------------------------------------------------------------------------------------------------------
struct KvF32 {
  using T = float;
  static constexpr bool kPairs = false;
  static constexpr bool kScaled = false;
  static f32x16 load16(const T* p) { return load(p); }
  static void store16(T* p, f32x16 x) { store(p, x); }
};
struct KvF16 {
  using T = uint16_t;
  static constexpr bool kPairs = false;
  static constexpr bool kScaled = false;
  static f32x16 load16(const T* p) { return load_f16(p); }
  static void store16(T* p, f32x16 x) { store_f16(p, x); }
};
struct KvBf16 {
  using T = uint16_t;
  static constexpr bool kPairs = true;  ///< two elements side by side, for vdpbf16ps
  static constexpr bool kScaled = false;
  static f32x16 load16(const T* p) { return load_bf16(p); }
  static void store16(T* p, f32x16 x) { store_bf16(p, x); }
};
struct KvInt8 {
  using T = int8_t;
  static constexpr bool kPairs = false;
  static constexpr bool kScaled = true;
  static constexpr float kLargest = 127.0f;
  static f32x16 load16(const T* p) { return to_f32(load_s8(p)); }
  static void store16(T* p, f32x16 x) { store_s8(p, to_i32(x)); }
};
/// E4M3: the seven magnitude bits moved into a float32 are the value times 2^-120, denormals included. Rounded to nearest even; no infinities.
struct KvFp8 {
  using T = uint8_t;
  static constexpr bool kPairs = false;
  static constexpr bool kScaled = true;
  static constexpr float kLargest = 448.0f;
  static f32x16 load16(const T* p) {
    const i32x16 u = load_u8(p);
    const i32x16 bits = shift_left<24>(u & set1(int32_t{0x80})) | shift_left<20>(u & set1(int32_t{0x7f}));
    return bits_to_f32(bits) * set1(0x1p120f);
  }
  static void store16(T* p, f32x16 x) {
    const i32x16 sign = shift_right_logical<24>(f32_to_bits(x)) & set1(int32_t{0x80});
    const f32x16 a = abs(x);
    // Normal numbers: round the 23-bit mantissa to 3 bits. Below 2^-6: adding 2^14 leaves multiples of 2^-9 in the last bits.
    const i32x16 u = f32_to_bits(a);
    const i32x16 normal = shift_right_logical<20>(u + set1(int32_t{0x7ffff}) + (shift_right_logical<20>(u) & set1(int32_t{1}))) - set1(int32_t{120 << 3});
    const i32x16 tiny = f32_to_bits(a + set1(16384.0f)) - f32_to_bits(set1(16384.0f));
    const i32x16 code = select(lt(a, set1(0x1p-6f)), tiny, normal) | sign;
    int32_t lanes[16];
    store(lanes, code);
    for (int i = 0; i < 16; ++i) p[i] = uint8_t(lanes[i]);
  }
};

// ---- scores and weighted sums -------------------------------------------------------------------------------------------------
inline m16 seen_lanes(int lo, int hi, int tile) {
  const int a = lo - tile, b = hi - tile;
  return first_n(b < 0 ? 0 : b > 16 ? 16 : b) & ~first_n(a < 0 ? 0 : a > 16 ? 16 : a);
}

/// With few rows the arithmetic waits for memory: beside K that of the next chunk is fetched, beside V that of the next chunk. A chunk is too large for the
/// first-level cache to hold it that long, so it waits in the second. (Zen 4, 3 rows of 64 from memory: 14 GB/s a core into the first, 20 into the second.)
constexpr int kFetchAheadRows = 8;

/// What a query's element, or pair of elements, and a weight, or pair of weights, are to the kernels.
template <class F>
using Factor = std::conditional_t<F::kPairs, PairScalar, float>;
/// Tokens, or elements, that a factor stands for.
template <class F>
constexpr int kStep = F::kPairs ? 2 : 1;

/// Factors from one row of the queries to the next: constant, so that rows need no registers of their own; no power of two, which would crowd a few sets of the
/// first-level cache.
template <class F>
constexpr int kQueryStride = kMaxHeadDim / kStep<F> + 16;
static_assert(kMaxRows * kQueryStride<KvF32> * sizeof(Factor<KvF32>) <= kQueryBytes && kMaxRows * kQueryStride<KvBf16> * sizeof(Factor<KvBf16>) <= kQueryBytes);

template <class F>
inline auto load_operand(const typename F::T* p) {
  if constexpr (F::kPairs) return load_pairs(p);
  else return F::load16(p);
}
template <class F>
inline f32x16 multiply_add(f32x16 acc, const decltype(load_operand<F>(nullptr))& a, const Factor<F>* b) {
  if constexpr (F::kPairs) return dot2(acc, a, b);
  else return fma(set1(*b), a, acc);
}

/// s[r][16 j + lane] = scale * q_r · K for R rows and N tiles; q rows are kQueryStride apart, s rows kChunk. Ahead: the tiles `next` are fetched beside.
template <class F, int R, int N, bool Ahead>
inline void scores(const Factor<F>* q, const KvTile* tiles, const KvTile* next, int d, float scale, float* s) {
  f32x16 acc[R][N];
  const typename F::T *k[N], *ahead[N];
  for (int j = 0; j < N; ++j) {
    k[j] = static_cast<const typename F::T*>(tiles[j].k);
    ahead[j] = static_cast<const typename F::T*>(next[j].k);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) acc[r][j] = zero_f32();
  }
  for (int i = 0; i < d; i += kStep<F>, ++q) {
    decltype(load_operand<F>(nullptr)) kv[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      kv[j] = load_operand<F>(k[j] + 16 * i);
      if constexpr (Ahead) prefetch_l2(ahead[j] + 16 * i);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) acc[r][j] = multiply_add<F>(acc[r][j], kv[j], q + r * kQueryStride<F>);
    }
  }
  for (int j = 0; j < N; ++j) {
    for (int r = 0; r < R; ++r) {
      f32x16 v = acc[r][j];
      if constexpr (F::kScaled) v = v * load(tiles[j].k_scale);
      store(s + r * kChunk + 16 * j, v * set1(scale));
    }
  }
}

/// Where a sum over tokens starts.
enum class Sum {
  further,  ///< goes on from what was there
  scaled,   ///< goes on from what was there times the row's factor
};

/// Values as the cache stores them.
template <class F>
struct CacheValues {
  static constexpr int kMost = 8;  ///< vectors of the head at once
  static constexpr bool kAhead = true;
  const KvTile *tiles, *next;
  int dp;
  int vectors() const { return dp / 16; }
  const typename F::T* at(int t, int column) const { return in(tiles, t, column); }
  const typename F::T* ahead(int t, int column) const { return in(next, t, column); }
  static auto get(const typename F::T* p) { return load_operand<F>(p); }

 private:
  const typename F::T* in(const KvTile* from, int t, int column) const {
    return static_cast<const typename F::T*>(from[t / kTile].v) + t % kTile * dp + kStep<F> * column;
  }
};

/// Values that are the last numbers of keys, turned into the order in which they are added: a panel is some dimensions of a whole chunk, for many rows.
constexpr int kPanelDims = 32;
template <class F>
struct PanelValues {
  using T = std::conditional_t<F::kPairs, uint16_t, float>;
  static constexpr int kMost = kPanelDims / 16;
  static constexpr bool kAhead = false;
  const T* panel;  ///< [kChunk / kStep][kPanelDims][kStep]
  int dims;
  int vectors() const { return (dims + 15) / 16; }
  const T* at(int t, int column) const { return panel + t * kPanelDims + kStep<F> * column; }
  static auto get(const T* p) {
    if constexpr (F::kPairs) return load_pairs(p);
    else return load(p);
  }
};

/// Dimensions [from, from + dims) of tiles [first, last).
template <class F>
[[gnu::noinline]] void turn_panel(const KvTile* tiles, int first, int last, int from, int dims, typename PanelValues<F>::T* panel) {
  for (int t = first; t < last; ++t) {
    for (int c = 0; c < dims; c += 16) {
      const int n = dims - c < 16 ? dims - c : 16;
      const typename F::T* k = static_cast<const typename F::T*>(tiles[t].k) + 16 * (from + c);
      auto* const to = panel + t * kTile * kPanelDims + kStep<F> * c;
      if constexpr (F::kPairs) {
        turn_pairs(k, n / 2, to, 2 * kPanelDims);
      } else {
        f32x16 x[16];
        for (int i = 0; i < 16; ++i) x[i] = i < n ? F::load16(k + 16 * i) : zero_f32();
        transpose(x);
        for (int i = 0; i < 16; ++i) store(to + i * kPanelDims, x[i]);
      }
    }
  }
}

/// o[r][16 j …] = sum over t in [t0, t1) of p[r][t] * V[t] for R rows, `stride` apart, and N vectors of the values, see Sum.
/// Pairs: only one row at a time may begin or end within a pair.
template <class F, int R, int N, Sum S, class Values>
inline void weigh(const Factor<F>* p, const Values& values, int t0, int t1, int stride, int column, float* o, const float* factor) {
  f32x16 acc[R][N];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      acc[r][j] = load(o + r * stride + column + 16 * j);
      if constexpr (S == Sum::scaled) acc[r][j] = acc[r][j] * set1(factor[r]);
    }
  }
  constexpr int kPer = kStep<F>;
  constexpr bool kAhead = Values::kAhead && R <= kFetchAheadRows;
  for (int t = t0 / kPer * kPer; t < t1; t += kPer) {
    const auto *v = values.at(t, column), *next = v;
    if constexpr (kAhead) next = values.ahead(t, column);
    decltype(load_operand<F>(nullptr)) vv[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      vv[j] = Values::get(v + 16 * kPer * j);
      if constexpr (F::kPairs && R == 1) {  // what the row does not see may be anything, also NaN
        if (t < t0 || t + 1 >= t1) vv[j] = keep_halves(vv[j], t >= t0, t + 1 < t1);
      }
      if constexpr (kAhead) prefetch_l2(next + 16 * kPer * j);
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) acc[r][j] = multiply_add<F>(acc[r][j], vv[j], p + (r * kChunk + t) / kPer);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) store(o + r * stride + column + 16 * j, acc[r][j]);
  }
}

// Register blocking: R rows by as many vectors as leave room for the operands. It decides speed only.
#if defined(__AVX512F__)
constexpr int kRegisters = 24;
#else
constexpr int kRegisters = 6;  // sixteen lanes are two registers of sixteen
#endif
template <int R, int Most>
constexpr int blocking() { return R * Most <= kRegisters ? Most : Most == 1 ? 1 : blocking<R, Most / 2>(); }

/// Calls f.template operator()<N>(i) for groups of N that make up [begin, end): the largest first.
template <int N, class F>
inline void for_groups(int begin, int end, F f) {
  for (; begin + N <= end; begin += N) f.template operator()<N>(begin);
  if constexpr (N > 1) for_groups<N / 2>(begin, end, f);
}

// Functions of their own: inlined into attend(), their accumulators were spilled. Two tiles at once, as many streams as the caches' ways put up with.
template <class F, int R, bool Ahead>
[[gnu::noinline]] void score_rows(const ChunkArgs& a, int row, int first_tile, int last_tile, float* s) {
  for_groups<blocking<R, R == 1 ? 4 : 2>()>(first_tile, last_tile, [&]<int N>(int j) {
    scores<F, R, N, Ahead>(static_cast<const Factor<F>*>(a.q) + row * kQueryStride<F>, a.tiles + j, a.next + j, a.d, a.scale, s + row * kChunk + 16 * j);
  });
}

/// Where weighted sums go: o[r * stride + j] for row r.
struct Target {
  float* o;
  int stride;  ///< from one row to the next
};

template <class F, int R, Sum S, class Values>
[[gnu::noinline]] void weigh_rows(const Values& values, int row, int t0, int t1, const Factor<F>* p, Target to, const float* factors = nullptr) {
  for_groups<blocking<R, Values::kMost>()>(0, values.vectors(), [&]<int N>(int j) {
    weigh<F, R, N, S>(p + row * kChunk / kStep<F>, values, t0, t1, to.stride, 16 * j, to.o + row * to.stride, S == Sum::scaled ? factors + row : nullptr);
  });
}

/// Calls f.template operator()<R>(row) for row groups that make up `rows`.
template <class F>
inline void for_row_groups(int rows, F f) {
  int r = 0;
#if defined(__AVX512F__)
  for (; r + 12 <= rows; r += 12) f.template operator()<12>(r);
  for (; r + 8 <= rows; r += 8) f.template operator()<8>(r);
#endif
  for (; r + 6 <= rows; r += 6) f.template operator()<6>(r);
  for (; r + 4 <= rows; r += 4) f.template operator()<4>(r);
  for (; r + 3 <= rows; r += 3) f.template operator()<3>(r);
  for (; r + 2 <= rows; r += 2) f.template operator()<2>(r);
  for (; r < rows; ++r) f.template operator()<1>(r);
}

struct Range {
  int lo, hi;
};

/// e^x for x <= 0, as exp() but for its ends: what would be below 2^-126 stays there, and no input is large. Such weights vanish beside the largest, 1.
inline f32x16 exp_below(f32x16 x) {
  x = max(set1(-87.0f), x);
  const f32x16 nf = round_even(x * set1(1.44269504088896341f));
  f32x16 r = fma(nf, set1(-0.693359375f), x);
  r = fma(nf, set1(2.12194440e-4f), r);
  constexpr float kCoefficients[] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f};
  return polynomial(r, kCoefficients) * bits_to_f32(shift_left<23>(to_i32(nf) + set1(int32_t{127})));
}

/// The same for weights that are rounded to bfloat16 (2^-9) afterwards: within 3e-6 relative, 1 at 0. Polynomial: least largest relative error over
/// |r| <= ln 2 / 2 with constant 1, fitted for this purpose. REQUIRES without_denormals(): what leaves the range of normal numbers is 0.
inline f32x16 exp_below_coarse(f32x16 x) {
  x = max(set1(-87.0f), x);
  const f32x16 nf = round_even(x * set1(1.44269504088896341f));
  const f32x16 r = fma(nf, set1(-0.693147180559945f), x);
  constexpr float kCoefficients[] = {4.151368514e-2f, 1.678759158e-1f, 5.000302196e-1f, 9.999668002e-1f, 1.0f};
  return times_power_of_two(polynomial(r, kCoefficients), nf);
}

/// What a row sees of [seen.lo, seen.hi). Whole: all of it, and these are whole tiles.
template <class F, bool Whole>
inline f32x16 largest_scores(const ChunkArgs& a, int r, Range seen, float* s) {
  const f32x16 lowest = set1(-__builtin_inff());
  f32x16 top = lowest;
  for (int t = seen.lo / 16 * 16; t < seen.hi; t += 16) {
    f32x16 v = load(s + t);
    if (a.softcap > 0) {
      v = set1(a.softcap) * tanh(v / set1(a.softcap));
      store(s + t, v);
    }
    top = max(top, Whole ? v : select(seen_lanes(a.lo[r], a.hi[r], t), v, lowest));
  }
  return top;
}

/// A row's scores s become weights p, in the same memory unless they are pairs. Returns their sums lane by lane.
template <class F, bool Whole>
inline f32x16 weights(const ChunkArgs& a, int r, Range seen, f32x16 m, const float* s, Factor<F>* p_out) {
  f32x16 sum = zero_f32();
  for (int t = seen.lo / 16 * 16; t < seen.hi; t += 16) {
    f32x16 p;
    if constexpr (F::kPairs) p = exp_below_coarse(load(s + t) - m);
    else p = exp_below(load(s + t) - m);
    if constexpr (!Whole) p = select(seen_lanes(a.lo[r], a.hi[r], t), p, zero_f32());
    sum += p;
    if constexpr (F::kScaled) p = p * load(a.tiles[t / 16].v_scale);
    if constexpr (F::kPairs) store_pair_scalars(p_out + t / 2, p);
    else store(p_out + t, p);
  }
  return sum;
}

/// Rows from which on all of them are reduced together.
constexpr int kFewRows = 4;

/// Over the lanes of each row: `one` for a row, `all` for sixteen. The same bits.
template <class One, class All>
inline void reduce_rows(const f32x16 (&lanes)[16], int rows, float* out, One one, All all) {
  if (rows > kFewRows) return store(out, all(lanes));
  // Stored whole: what joins the chunks loads it whole, and would wait for single values to leave the store buffer.
  f32x16 v = set1(one(lanes[0]));
  for (int r = 1; r < rows; ++r) v = select(first_n(r), v, set1(one(lanes[r])));
  store(out, v);
}

/// m of the running result rises to the rows' new maxima. Returns the factors of what there was: 1 where nothing rose.
inline f32x16 raise(Partial& run, f32x16 tops) {
  const f32x16 m0 = load(run.m), m1 = max(m0, tops);
  store(run.m, m1);
  return select(eq(m0, m1), set1(1.0f), exp(m0 - m1));
}

/// Scores of all rows become weights, with their maxima and sums. Maxima come first, so that no row waits for another's. All: each row sees the whole chunk.
template <class F, bool All>
void soften(const ChunkArgs& a, Range seen, float* s, Factor<F>* p, Partial& run, float* factors) {
  alignas(64) float tops[16], sums[16];
  f32x16 lanes[16];
  bool whole[kMaxRows];
  if constexpr (All) seen = {0, kChunk};
#pragma GCC unroll 4
  for (int r = kMaxRows; r < 16; ++r) lanes[r] = zero_f32();  // rows that nobody asks for: only that they are initialised
  for (int r = 0; r < a.rows; ++r) {
    whole[r] = All || (a.lo[r] <= seen.lo && a.hi[r] >= seen.hi && seen.lo % 16 == 0 && seen.hi % 16 == 0);
    lanes[r] = whole[r] ? largest_scores<F, true>(a, r, seen, s + r * kChunk) : largest_scores<F, false>(a, r, seen, s + r * kChunk);
  }
  for (int r = a.rows; r < kMaxRows; ++r) lanes[r] = lanes[0];
  reduce_rows(lanes, a.rows, tops, [](f32x16 v) { return hmax(v); }, [](const f32x16 (&v)[16]) { return hmaxes(v); });
  const f32x16 f = raise(run, load(tops));
  store(factors, f);
  for (int r = 0; r < a.rows; ++r) {
    Factor<F>* pr = p + r * kChunk / kStep<F>;
    const f32x16 m = set1(run.m[r]);
    lanes[r] = whole[r] ? weights<F, true>(a, r, seen, m, s + r * kChunk, pr) : weights<F, false>(a, r, seen, m, s + r * kChunk, pr);
  }
  reduce_rows(lanes, a.rows, sums, [](f32x16 v) { return hsum(v); }, [](const f32x16 (&v)[16]) { return hsums(v); });
  store(run.l, fma(load(run.l), f, load(sums)));
}

/// What the rows of a call see of the chunk, and by what their sums so far are multiplied.
struct Seen {
  Range any{kChunk, 0}, both{0, kChunk};  ///< what one of them sees, what all do
  bool alike = true;                      ///< all see the same tokens, whole pairs of them
  alignas(64) float factors[16];
};

template <class F>
void look(const ChunkArgs& a, Seen& seen) {
  Range &any = seen.any, &both = seen.both;
  for (int r = 0; r < a.rows; ++r) {
    both.lo = a.lo[r] > both.lo ? a.lo[r] : both.lo;
    both.hi = a.hi[r] < both.hi ? a.hi[r] : both.hi;
    if (a.hi[r] <= a.lo[r]) continue;
    any.lo = a.lo[r] < any.lo ? a.lo[r] : any.lo;
    any.hi = a.hi[r] > any.hi ? a.hi[r] : any.hi;
  }
  seen.alike = both.lo < both.hi && both.lo % kStep<F> == 0 && both.hi % kStep<F> == 0;
  for (int r = 0; r < a.rows; ++r) seen.alike &= a.lo[r] == both.lo && a.hi[r] == both.hi;
}

inline int first_tile(Range r) { return r.lo / kTile; }
inline int end_tile(Range r) { return (r.hi + kTile - 1) / kTile; }

/// The rows' weights p, whose maxima and sums go to `run`. s is room for the scores: p's own memory unless those are pairs.
template <class F, bool Ahead>
void weights_of(const ChunkArgs& a, float* s, Factor<F>* p, Partial& run, Seen& seen) {
  look<F>(a, seen);
  for_row_groups(a.rows, [&]<int R>(int row) {
    score_rows<F, R, (Ahead || R <= kFetchAheadRows)>(a, row, first_tile(seen.any), end_tile(seen.any), s);
  });
  if (seen.both.lo == 0 && seen.both.hi == kChunk) soften<F, true>(a, seen.any, s, p, run, seen.factors);
  else soften<F, false>(a, seen.any, s, p, run, seen.factors);
}

/// All rows see [both.lo, both.hi); what single rows see before and after it is added row by row, so that each row's order is ascending.
template <class F, class Values>
void weigh_apart(const ChunkArgs& a, Range both, const Factor<F>* p, const Values& values, Target to) {
  if constexpr (F::kPairs) both = {(both.lo + 1) / 2 * 2, both.hi / 2 * 2};
  for (int r = 0; r < a.rows; ++r)
    if (a.lo[r] < both.lo) weigh_rows<F, 1, Sum::further>(values, r, a.lo[r], a.hi[r] < both.lo ? a.hi[r] : both.lo, p, to);
  if (both.lo < both.hi) for_row_groups(a.rows, [&]<int R>(int row) { weigh_rows<F, R, Sum::further>(values, row, both.lo, both.hi, p, to); });
  const int rest = both.lo < both.hi ? both.hi : both.lo;
  for (int r = 0; r < a.rows; ++r)
    if (a.hi[r] > rest) weigh_rows<F, 1, Sum::further>(values, r, a.lo[r] > rest ? a.lo[r] : rest, a.hi[r], p, to);
}

inline void scale_rows(Target to, const float* factors, int rows, int columns) {
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < columns; j += 16) store(to.o + r * to.stride + j, load(to.o + r * to.stride + j) * set1(factors[r]));
}

/// The rows' sums, times their factors, and the weighted values of the chunk.
template <class F, class Values>
void add_values(const ChunkArgs& a, const Seen& seen, const Factor<F>* p, const Values& values, Target to) {
  if (seen.alike) {
    for_row_groups(a.rows, [&]<int R>(int row) { weigh_rows<F, R, Sum::scaled>(values, row, seen.both.lo, seen.both.hi, p, to, seen.factors); });
  } else {
    scale_rows(to, seen.factors, a.rows, 16 * values.vectors());
    weigh_apart<F>(a, seen.both, p, values, to);
  }
}

/// Factors of a merge, for each row: of what was there and of what comes.
struct Join {
  alignas(64) float old_factor[16], new_factor[16];
};

/// The running m and l of a merge, and the factors of its sums.
inline void join_weights(Partial& run, const Partial& part, int rows, Join& join) {
  const m16 live = first_n(rows);
  const f32x16 m0 = load(run.m), l0 = load(run.l), m1 = load_n(part.m, rows), l1 = load_n(part.l, rows);
  const m16 keep = ~live | eq(l1, zero_f32());
  const f32x16 m = max(m0, m1);
  // exp(m0 - m) and exp(m1 - m), of which one is exp(0) = 1.
  const f32x16 e = exp(-abs(m0 - m1)), one = set1(1.0f), wa = select(ge(m0, m1), one, e), wb = select(ge(m1, m0), one, e);
  store(run.m, select(keep, m0, m));
  store(run.l, select(keep, l0, fma(l0, wa, l1 * wb)));
  store(join.old_factor, wa);
  store(join.new_factor, wb);
}

/// With run empty (m = -inf, l = 0, o = 0) the sums below are the part itself.
void merge_partial(Partial& run, const Partial& part, int rows, int d) noexcept {
  Join join;
  join_weights(run, part, rows, join);
  const int dp = padded_dim(d);
  for (int r = 0; r < rows; ++r) {
    if (part.l[r] == 0.0f) continue;
    const f32x16 ar = set1(join.old_factor[r]), br = set1(join.new_factor[r]);
    float* o = run.o + r * dp;
    const float* c = part.o + r * dp;
    for (int j = 0; j < dp; j += 16) store(o + j, fma(load(o + j), ar, load(c + j) * br));
  }
}

/// `run`, a running result, goes on with a chunk.
template <class F>
[[gnu::noinline]] void attend(const ChunkArgs& a, Partial& run) noexcept {
  alignas(64) float s[kMaxRows * kChunk];
  const auto go = [&](Factor<F>* p) {
    Seen seen;
    weights_of<F, false>(a, s, p, run, seen);
    const int dp = padded_dim(a.d);
    add_values<F>(a, seen, p, CacheValues<F>{a.tiles, a.next, dp}, {run.o, dp});
  };
  if constexpr (F::kPairs) {
    alignas(64) PairScalar p[kMaxRows * kChunk / 2];
    go(p);
  } else {
    go(s);
  }
}

/// Weights of one group of rows, and all of it before the panel.
template <class F>
constexpr int kGroupWeights = kMaxRows * kChunk / kStep<F>;
static_assert(kMaxGroups * kGroupWeights<KvF32> * sizeof(float) + kChunk * kPanelDims * sizeof(float) <= kLatentBytes);
static_assert(kMaxGroups * kGroupWeights<KvBf16> * sizeof(PairScalar) + kChunk * kPanelDims * sizeof(uint16_t) <= kLatentBytes);

/// First the weights of all rows, then panel by panel the values: each key is turned once for all rows, and a panel stays in the first-level cache.
template <class F>
[[gnu::noinline]] void attend_latent(const ChunkArgs* groups, int n, int value_dim, void* scratch, Partial* segments) noexcept {
  auto* const p = static_cast<Factor<F>*>(scratch);
  auto* const panel = reinterpret_cast<typename PanelValues<F>::T*>(p + kMaxGroups * kGroupWeights<F>);
  Seen seen[kMaxGroups];
  Range any{kChunk, 0};
  for (int g = 0; g < n; ++g) {
    Factor<F>* const pg = p + g * kGroupWeights<F>;
    if constexpr (F::kPairs) {
      alignas(64) float s[kMaxRows * kChunk];
      weights_of<F, true>(groups[g], s, pg, segments[g], seen[g]);
    } else {
      weights_of<F, true>(groups[g], pg, pg, segments[g], seen[g]);
    }
    any.lo = seen[g].any.lo < any.lo ? seen[g].any.lo : any.lo;
    any.hi = seen[g].any.hi > any.hi ? seen[g].any.hi : any.hi;
  }
  const int from = groups->d - value_dim, stride = padded_dim(value_dim);
  for (int column = 0; column < value_dim; column += kPanelDims) {
    const int dims = value_dim - column < kPanelDims ? value_dim - column : kPanelDims;
    turn_panel<F>(groups->tiles, first_tile(any), end_tile(any), from + column, dims, panel);
    for (int g = 0; g < n; ++g)
      add_values<F>(groups[g], seen[g], p + g * kGroupWeights<F>, PanelValues<F>{panel, dims}, {segments[g].o + column, stride});
  }
}

template <class F>
unsigned enter() noexcept { return F::kPairs ? without_denormals() : 0; }
template <class F>
void leave(unsigned saved) noexcept {
  if constexpr (F::kPairs) restore_denormals(saved);
}

template <class F>
void pack_q(void* to, const float* const* rows, int n, int d) noexcept {
  for (int r = 0; r < n; ++r) {
    auto* out = static_cast<Factor<F>*>(to) + r * kQueryStride<F>;
    for (int j = 0; j < d; j += 16) {
      const f32x16 q = j + 16 <= d ? load(rows[r] + j) : load_n(rows[r] + j, d - j);
      if constexpr (F::kPairs) store_pair_scalars(out + j / 2, q);
      else store(out + j, q);
    }
  }
}

// ---- joining parts --------------------------------------------------------------------------------------------------------------
void clear_partial(Partial& run, int rows, int d) noexcept {
  store(run.m, set1(-__builtin_inff()));
  store(run.l, zero_f32());
  const int n = rows * padded_dim(d);
  for (int i = 0; i < n; i += 16) store(run.o + i, zero_f32());
}

void finish_partial(Partial& run, const float* sinks, float* const* out, int rows, int d) noexcept {
  f32x16 factor = set1(1.0f), l = load(run.l);
  if (sinks) {
    const f32x16 s = load_n(sinks, rows), m0 = load(run.m), m = max(m0, s);
    factor = exp(m0 - m);
    l = fma(l, factor, exp(s - m));
  }
  alignas(64) float inv[16];
  store(inv, factor / l);
  const int dp = padded_dim(d);
  for (int r = 0; r < rows; ++r) {
    const f32x16 f = set1(inv[r]);
    const float* o = run.o + r * dp;
    int j = 0;
    for (; j + 16 <= d; j += 16) store(out[r] + j, load(o + j) * f);
    if (j < d) store_n(out[r] + j, load(o + j) * f, d - j);
  }
}

// ---- writing --------------------------------------------------------------------------------------------------------------------
inline f32x16 head_part(const float* x, int j, int d) { return j + 16 <= d ? load(x + j) : load_n(x + j, d - j); }

/// The largest code stands for the largest magnitude; an all-zero head has scale 0 and codes 0.
template <class F>
float pick_scale(const float* x, int d, f32x16& to_code) {
  f32x16 top = zero_f32();
  for (int j = 0; j < d; j += 16) top = max(abs(head_part(x, j, d)), top);
  const float amax = hmax(top);
  to_code = set1(amax > 0 ? F::kLargest / amax : 0.0f);
  return amax / F::kLargest;
}

template <class F>
inline f32x16 to_range(f32x16 x, f32x16 to_code) {  // the factor may be inf for tiny heads and NaN may come in: both end at a valid code
  return max(min(x * to_code, set1(F::kLargest)), set1(-F::kLargest));
}

template <class F>
void fetch_token(const KvTile& tile, int t, int d) noexcept {
  constexpr int64_t kBytes = sizeof(typename F::T), S = kStep<F>, kLine = 64;
  const auto lines = [](void* p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += kLine) prefetch_to_write(static_cast<std::byte*>(p) + i);
  };
  lines(tile.k, d * kTile * kBytes);
  if (tile.v) lines(static_cast<typename F::T*>(tile.v) + t / S * S * padded_dim(d), S * padded_dim(d) * kBytes);
}

template <class F>
void write_token(const KvTile& tile, int t, const float* k, const float* v, int d) noexcept {
  using T = typename F::T;
  constexpr int S = kStep<F>;
  T* kd = static_cast<T*>(tile.k) + S * t;
  T* vd = static_cast<T*>(tile.v) + t / S * S * padded_dim(d) + t % S;
  f32x16 scale = set1(1.0f);
  const auto part = [&](const float* x, int j) {
    if constexpr (F::kScaled) return to_range<F>(head_part(x, j, d), scale);
    else return head_part(x, j, d);
  };
  T lanes[16];
  if constexpr (F::kScaled) tile.k_scale[t] = pick_scale<F>(k, d, scale);
  for (int j = 0; j < d; j += 16) {
    F::store16(lanes, part(k, j));
    for (int i = 0; i < 16 && j + i < d; i += S) __builtin_memcpy(kd + 16 * (j + i), lanes + i, S * sizeof(T));
  }
  if (!tile.v) return;
  if constexpr (F::kScaled) tile.v_scale[t] = pick_scale<F>(v, d, scale);
  for (int j = 0; j < d; j += 16) {
    if constexpr (S == 1) {
      F::store16(vd + j, part(v, j));
    } else {  // element by element: the neighbour of a pair may be written by another thread at the same time
      F::store16(lanes, part(v, j));
      for (int i = 0; i < 16; ++i) vd[2 * (j + i)] = lanes[i];
    }
  }
}

constexpr AttentionKernels kAttention = {
    .pack_q = {pack_q<KvF32>, pack_q<KvF16>, pack_q<KvBf16>, pack_q<KvInt8>, pack_q<KvFp8>},
    .chunk = {attend<KvF32>, attend<KvF16>, attend<KvBf16>, attend<KvInt8>, attend<KvFp8>},
    .latent = {attend_latent<KvF32>, attend_latent<KvF16>, attend_latent<KvBf16>, attend_latent<KvInt8>, attend_latent<KvFp8>},
    .enter = {enter<KvF32>, enter<KvF16>, enter<KvBf16>, enter<KvInt8>, enter<KvFp8>},
    .leave = {leave<KvF32>, leave<KvF16>, leave<KvBf16>, leave<KvInt8>, leave<KvFp8>},
    .clear = clear_partial,
    .merge = merge_partial,
    .finish = finish_partial,
    .fetch = {fetch_token<KvF32>, fetch_token<KvF16>, fetch_token<KvBf16>, fetch_token<KvInt8>, fetch_token<KvFp8>},
    .write = {write_token<KvF32>, write_token<KvF16>, write_token<KvBf16>, write_token<KvInt8>, write_token<KvFp8>},
};

}  // namespace
}  // namespace isotope::kernels::cpu
