// Floating weights (F32, F16, BF16, E4M3 with scales, and every format at Precision::exact): float32 fma, lanes are rows of the weight, k from first to last.
namespace isotope::kernels::cpu {
namespace {

template <Pack P>
using Stored = std::conditional_t<P == Pack::f32, float, uint16_t>;

template <Pack P>
inline f32x16 load_weight(const Stored<P>* p) {
  if constexpr (P == Pack::f32) return load(p);
  else if constexpr (P == Pack::f16) return load_f16(p);
  else return load_bf16(p);
}

// Scales of E4M3 stand in memory times 2^120: a code's bits, moved to where float32 has exponent and mantissa, are that much too small a number.
inline f32x16 load_f8(const uint8_t* p, f32x16 scale) {
  const i32x16 x = load_s8(reinterpret_cast<const int8_t*>(p));
  return bits_to_f32((x & set1(int32_t(0x80000000u))) | shift_left<20>(x & set1(int32_t{0x7f}))) * scale;
}

// H rows x vectors [first, first + V) of a tile of E4M3: the weight is code times scale, rounded, as dequantizing has it.
template <int H, int V>
void f8_vectors(const GemmArgs& a, int64_t tile, int first, int64_t row) {
  constexpr PackRow L = pack_row(Pack::f8g128);
  constexpr int kRows = L.rows();
  const std::byte* unit = a.tiles + size_t(tile) * a.tile_bytes;
  const float* x[H];
  f32x16 acc[V][H];
#pragma GCC unroll 16
  for (int r = 0; r < H; ++r) x[r] = a.x + (row + r) * a.x_stride;
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
    for (int r = 0; r < H; ++r) acc[v][r] = zero_f32();
  for (int64_t k0 = 0; k0 < a.k; k0 += kScaledK, unit += L.unit_bytes()) {
    f32x16 scale[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) scale[v] = load(reinterpret_cast<const float*>(unit) + (first + v) * kLanes);
    const auto* w = reinterpret_cast<const uint8_t*>(unit) + 4 * kRows + first * kLanes;
    const int64_t end = a.k - k0 < kScaledK ? a.k : k0 + kScaledK;
    for (int64_t k = k0; k < end; ++k, w += kRows) {
      if constexpr (V == kFloatVectors) prefetch(w + 512);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const f32x16 weight = load_f8(w + v * kLanes, scale[v]);
#pragma GCC unroll 16
        for (int r = 0; r < H; ++r) acc[v][r] = fma(weight, set1(x[r][k]), acc[v][r]);
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const int64_t n = tile * kRows + (first + v) * kLanes;
    if (n < a.n) finish<H>(acc[v], a.out + row * a.out_stride + n, a.out_stride, a.bias ? a.bias + n : nullptr, lanes_of(a, n));
  }
}

// H rows x vectors [first, first + V) of a tile.
template <Pack P, int H, int V>
void float_vectors(const GemmArgs& a, int64_t tile, int first, int64_t row) {
  constexpr int kRows = pack_row(P).rows();
  const auto* w = reinterpret_cast<const Stored<P>*>(a.tiles + size_t(tile) * a.tile_bytes) + first * kLanes;
  const float* x[H];
  f32x16 acc[V][H];
#pragma GCC unroll 16
  for (int r = 0; r < H; ++r) x[r] = a.x + (row + r) * a.x_stride;
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
    for (int r = 0; r < H; ++r) acc[v][r] = zero_f32();
  for (int64_t k = 0; k < a.k; ++k, w += kRows) {
    if constexpr (V == kFloatVectors)
      for (int line = 0; line < kRows * int(sizeof *w); line += 64) prefetch(reinterpret_cast<const std::byte*>(w) + line + 256);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const f32x16 weight = load_weight<P>(w + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < H; ++r) acc[v][r] = fma(weight, set1(x[r][k]), acc[v][r]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const int64_t n = tile * kRows + (first + v) * kLanes;
    if (n < a.n) finish<H>(acc[v], a.out + row * a.out_stride + n, a.out_stride, a.bias ? a.bias + n : nullptr, lanes_of(a, n));
  }
}

template <Pack P, int H>
void float_rows(const GemmArgs& a, int64_t tile, int64_t row) {
  constexpr int V = float_vectors_at_once(H);
  for (int v = 0; v < kFloatVectors && tile * pack_row(P).rows() + v * kLanes < a.n; v += V) {
    if constexpr (P == Pack::f8g128) f8_vectors<H, V>(a, tile, v, row);
    else float_vectors<P, H, V>(a, tile, v, row);
  }
}

template <Pack P, int... H>
void float_rows_of(int h, const GemmArgs& a, int64_t tile, int64_t row, Indices<H...>) {
  static constexpr void (*kByRows[])(const GemmArgs&, int64_t, int64_t) = {float_rows<P, H + 1>...};
  kByRows[h - 1](a, tile, row);
}

template <Pack P>
void gemm_float(const GemmArgs& a) {
  for (int64_t t = 0; t * pack_row(P).rows() < a.n; ++t)
    for (int64_t m = 0; m < a.m; m += kFloatRows)
      float_rows_of<P>(a.m - m < kFloatRows ? int(a.m - m) : kFloatRows, a, t, m, indices<kFloatRows>());
}

inline void decode_row_f8(const std::byte* tile, int row, int64_t k, float* out) {
  constexpr PackRow L = pack_row(Pack::f8g128);
  const int first = row / kLanes * kLanes;
  float v[kLanes];
  for (int64_t i = 0; i < k; ++i) {
    const std::byte* unit = tile + i / kScaledK * L.unit_bytes();
    const auto* codes = reinterpret_cast<const uint8_t*>(unit) + 4 * L.rows() + (i % kScaledK) * L.rows();
    store(v, load_f8(codes + first, load(reinterpret_cast<const float*>(unit) + first)));
    out[i] = v[row % kLanes];
  }
}

template <Pack P>
void decode_row_float(const std::byte* tile, int row, int64_t k, float* out) {
  const auto* w = reinterpret_cast<const Stored<P>*>(tile) + row / kLanes * kLanes;
  float v[kLanes];
  for (int64_t i = 0; i < k; ++i, w += pack_row(P).rows()) {
    store(v, load_weight<P>(w));
    out[i] = v[row % kLanes];
  }
}

}  // namespace
}  // namespace isotope::kernels::cpu
