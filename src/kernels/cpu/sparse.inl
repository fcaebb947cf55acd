// Bodies of sparse.h; compiled once for each ISA through all.inl, after attention.inl, whose storage formats and products these are.
#include "kernels/cpu/elementwise.inl"
#include "kernels/cpu/sparse.h"

namespace isotope::kernels::cpu {
namespace {

// ---- scores ---------------------------------------------------------------------------------------------------------------------
template <class F>
void pack_index(void* to, const float* q, int heads, int d) noexcept {
  const int stride = padded_dim(d) / kStep<F>;
  for (int h = 0; h < heads; ++h) {
    auto* const out = static_cast<Factor<F>*>(to) + int64_t{h} * stride;
    for (int j = 0; j < d; j += 16) {
      const f32x16 x = head_part(q + int64_t{h} * d, j, d);
      if constexpr (F::kPairs) store_pair_scalars(out + j / 2, x);
      else store(out + j, x);
    }
  }
}

/// Adds heads [head, head + R) to the scores of N tiles.
template <class F, int R, int N>
inline void index_heads(const IndexJob& j, int head, const KvTile* tiles, f32x16 (&sum)[N]) {
  const int stride = padded_dim(j.d) / kStep<F>;
  const auto* q = static_cast<const Factor<F>*>(j.q) + int64_t{head} * stride;
  f32x16 acc[R][N];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) acc[r][n] = zero_f32();
  }
  for (int i = 0; i < j.d; i += kStep<F>, ++q) {
    decltype(load_operand<F>(nullptr)) k[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) k[n] = load_operand<F>(static_cast<const typename F::T*>(tiles[n].k) + 16 * i);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) acc[r][n] = multiply_add<F>(acc[r][n], k[n], q + r * stride);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) {
      f32x16 s = acc[r][n];
      if constexpr (F::kScaled) s = s * load(tiles[n].k_scale);
      s = s * set1(j.scale);
      sum[n] = j.weights ? fma(set1(j.weights[head + r]), max(s, zero_f32()), sum[n]) : s;
    }
  }
}

template <class F, int N>
inline void index_tiles(const IndexJob& j, int tile) {
  f32x16 sum[N];
  for (int n = 0; n < N; ++n) sum[n] = zero_f32();
  int h = 0;
  for (; h + 4 <= j.heads; h += 4) index_heads<F, 4, N>(j, h, j.tiles + tile, sum);
  for (; h < j.heads; ++h) index_heads<F, 1, N>(j, h, j.tiles + tile, sum);
  for (int n = 0; n < N; ++n) store(j.out + 16 * (tile + n), sum[n]);
}

template <class F>
void index(const IndexJob& j) noexcept {
  for_groups<blocking<4, 2>()>(0, j.count, [&]<int N>(int tile) { index_tiles<F, N>(j, tile); });
}

// ---- storing --------------------------------------------------------------------------------------------------------------------
/// The sixteen elements from `j` on as the format holds them.
template <class F>
inline void encode(typename F::T* out, const float* x, int j, int d, f32x16 to_code) {
  f32x16 v = head_part(x, j, d);
  if constexpr (F::kScaled) v = to_range<F>(v, to_code);
  F::store16(out, v);
}

template <class F>
void write_key(const KvTile& tile, int t, const float* k, int d) noexcept {
  using T = typename F::T;
  constexpr int S = kStep<F>;
  T* const to = static_cast<T*>(tile.k) + S * t;
  f32x16 scale = set1(1.0f);
  if constexpr (F::kScaled) tile.k_scale[t] = pick_scale<F>(k, d, scale);
  for (int j = 0; j < d; j += 16) {
    T lanes[16];
    encode<F>(lanes, k, j, d, scale);
    for (int i = 0; i < 16 && j + i < d; i += S) __builtin_memcpy(to + 16 * (j + i), lanes + i, S * sizeof(T));
  }
}

template <class F>
void write_row(const KvRow& row, const float* x, int d) noexcept {
  using T = typename F::T;
  f32x16 scale = set1(1.0f);
  if constexpr (F::kScaled) *row.scale = pick_scale<F>(x, d, scale);
  for (int j = 0; j < d; j += 16) {
    T lanes[16];
    encode<F>(lanes, x, j, d, scale);
    __builtin_memcpy(static_cast<T*>(row.data) + j, lanes, sizeof(T) * size_t(d - j < 16 ? d - j : 16));
  }
}

// ---- gathering ------------------------------------------------------------------------------------------------------------------
/// Where element j of a token's value lies.
template <class F>
inline int value_at(int t, int j, int d) {
  constexpr int S = kStep<F>;
  return t / S * S * padded_dim(d) + S * j + t % S;
}

template <class F>
void copy_token(const KvTile& out, int to, const KvTile& tile, int from, int d) noexcept {
  using T = typename F::T;
  constexpr int S = kStep<F>;
  T* const k = static_cast<T*>(out.k) + S * to;
  const T* const key = static_cast<const T*>(tile.k) + S * from;
  for (int j = 0; j < d; j += S) __builtin_memcpy(k + 16 * j, key + 16 * j, S * sizeof(T));
  T* const v = static_cast<T*>(out.v);
  const T* const value = static_cast<const T*>(tile.v);
  for (int j = 0; j < padded_dim(d); ++j) {
    const T of_key = j < d ? key[j / S * S * 16 + j % S] : T{};
    v[value_at<F>(to, j, d)] = value ? value[value_at<F>(from, j, d)] : of_key;
  }
  if constexpr (F::kScaled) out.k_scale[to] = tile.k_scale[from], out.v_scale[to] = value ? tile.v_scale[from] : tile.k_scale[from];
}

template <class F>
void copy_row(const KvTile& out, int to, const KvRow& row, int d) noexcept {
  using T = typename F::T;
  constexpr int S = kStep<F>;
  const T* const x = static_cast<const T*>(row.data);
  T* const k = static_cast<T*>(out.k) + S * to;
  for (int j = 0; j < d; j += S) __builtin_memcpy(k + 16 * j, x + j, S * sizeof(T));
  if constexpr (F::kScaled) out.k_scale[to] = *row.scale;
  if (!out.v) return;
  T* const v = static_cast<T*>(out.v);
  for (int j = 0; j < padded_dim(d); ++j) v[value_at<F>(to, j, d)] = j < d ? x[j] : T{};
  if constexpr (F::kScaled) out.v_scale[to] = *row.scale;
}

// ---- compressing ----------------------------------------------------------------------------------------------------------------
void compress(const CompressJob& c) noexcept {
  for_lanes(c.d, [&](int64_t j, int lanes) {
    const auto gate = [&](int i) { return load_some(c.gates[i] + j, lanes) + load_some(c.bias[i] + j, lanes); };
    f32x16 top = gate(0);
    for (int i = 1; i < c.n; ++i) top = max(gate(i), top);
    f32x16 sum = zero_f32(), mean = zero_f32();
    for (int i = 0; i < c.n; ++i) {
      const f32x16 w = exp(gate(i) - top);
      sum = sum + w;
      mean = fma(w, load_some(c.inputs[i] + j, lanes), mean);
    }
    store_some(c.out + j, mean / sum, lanes);
  });
}

constexpr SparseKernels kSparse = {
    .pack_index = {pack_index<KvF32>, pack_index<KvF16>, pack_index<KvBf16>, pack_index<KvInt8>, pack_index<KvFp8>},
    .index = {index<KvF32>, index<KvF16>, index<KvBf16>, index<KvInt8>, index<KvFp8>},
    .write_key = {write_key<KvF32>, write_key<KvF16>, write_key<KvBf16>, write_key<KvInt8>, write_key<KvFp8>},
    .write_row = {write_row<KvF32>, write_row<KvF16>, write_row<KvBf16>, write_row<KvInt8>, write_row<KvFp8>},
    .copy_token = {copy_token<KvF32>, copy_token<KvF16>, copy_token<KvBf16>, copy_token<KvInt8>, copy_token<KvFp8>},
    .copy_row = {copy_row<KvF32>, copy_row<KvF16>, copy_row<KvBf16>, copy_row<KvInt8>, copy_row<KvFp8>},
    .compress = compress,
};

}  // namespace
}  // namespace isotope::kernels::cpu
