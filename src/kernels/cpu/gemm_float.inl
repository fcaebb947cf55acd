// Floating weights (F32, F16, BF16, and every format at Precision::exact): float32 fma, lanes are rows of the weight, k from first to last.
// Several tiles at once hide the latency of the chain of fma when there are few rows.
namespace isotope::kernels::cpu {
namespace {

template <Pack P>
inline f32x16 load_weight(const std::byte* tile, int64_t k) {
  if constexpr (P == Pack::f32) return load(reinterpret_cast<const float*>(tile) + k * kLanes);
  else if constexpr (P == Pack::f16) return load_f16(reinterpret_cast<const uint16_t*>(tile) + k * kLanes);
  else return load_bf16(reinterpret_cast<const uint16_t*>(tile) + k * kLanes);
}

// H rows x T tiles.
template <Pack P, int H, int T>
void float_tiles(const GemmArgs& a, int64_t tile, int64_t row) {
  const std::byte* w[T];
  const float* x[H];
  f32x16 acc[T][H];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) w[t] = a.tiles + size_t(tile + t) * a.tile_bytes;
#pragma GCC unroll 16
  for (int r = 0; r < H; ++r) x[r] = a.x + (row + r) * a.x_stride;
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 16
    for (int r = 0; r < H; ++r) acc[t][r] = zero_f32();
  for (int64_t k = 0; k < a.k; ++k) {
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const f32x16 v = load_weight<P>(w[t], k);
#pragma GCC unroll 16
      for (int r = 0; r < H; ++r) acc[t][r] = fma(v, set1(x[r][k]), acc[t][r]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    const int64_t n = (tile + t) * kLanes;
    finish<H>(acc[t], a.out + row * a.out_stride + n, a.out_stride, a.bias ? a.bias + n : nullptr, lanes_of(a, tile + t));
  }
}

template <Pack P, int H>
void float_rows(const GemmArgs& a, int64_t tile, int64_t count, int64_t row) {
  constexpr int T = float_tiles_at_once(H);
  int64_t t = 0;
  for (; t + T <= count; t += T) float_tiles<P, H, T>(a, tile + t, row);
  for (; t < count; ++t) float_tiles<P, H, 1>(a, tile + t, row);
}

template <Pack P, int... H>
void float_rows_of(int h, const GemmArgs& a, int64_t tile, int64_t count, int64_t row, Indices<H...>) {
  static constexpr void (*kByRows[])(const GemmArgs&, int64_t, int64_t, int64_t) = {float_rows<P, H + 1>...};
  kByRows[h - 1](a, tile, count, row);
}

template <Pack P>
void gemm_float(const GemmArgs& a) {
  constexpr int64_t kTiles = 8;  // a group stays in the second-level cache while all rows pass
  const int64_t tiles = (a.n + kLanes - 1) / kLanes;
  for (int64_t t = 0; t < tiles; t += kTiles)
    for (int64_t m = 0; m < a.m; m += kFloatRows)
      float_rows_of<P>(a.m - m < kFloatRows ? int(a.m - m) : kFloatRows, a, t, tiles - t < kTiles ? tiles - t : kTiles, m, indices<kFloatRows>());
}

template <Pack P>
void decode_row_float(const std::byte* tile, int lane, int64_t k, float* out) {
  float v[kLanes];
  for (int64_t i = 0; i < k; ++i) {
    store(v, load_weight<P>(tile, i));
    out[i] = v[lane];
  }
}

}  // namespace
}  // namespace isotope::kernels::cpu
