// Integer kernels: int32 dot products of a block, then one float32 fma (two where the format has minima or a scale for each half).
// step() is the only place with that arithmetic; every height of a panel goes through it.
namespace isotope::kernels::cpu {
namespace {

template <class T>
inline T get(const std::byte* p) {
  T v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// One row of a record of H rows.
template <int H>
struct RowRef {
  const std::byte* record;
  int r;
  const int8_t* q(int group) const { return reinterpret_cast<const int8_t*>(record) + r * kBlock + 4 * group; }
  const std::byte* field(int i) const { return record + H * kBlock + 4 * (H * i + r); }
  f32x16 d() const { return set1(get<float>(field(0))); }
  f32x16 d_sum() const { return set1(get<float>(field(1))); }
  const int32_t* neg_sum() const { return reinterpret_cast<const int32_t*>(field(2)); }
  const int32_t* neg_sum_half(int half) const { return reinterpret_cast<const int32_t*>(field(3 + half)); }
};

// T tiles meet one row: each four activations are broadcast once for all of them.
template <int T>
struct Lanes {
  i32x16 of[T];
};

template <int Bits, bool Symmetric, int First, int Count, int T>
inline Lanes<T> dot(const Codes (&w)[T], const int8_t* q, const int32_t* neg_sum) {
  Dot<Bits> d[T];
#pragma GCC unroll 2
  for (int t = 0; t < T; ++t) {
    if constexpr (Symmetric) d[t] = Dot<Bits>::symmetric(neg_sum);
    else d[t] = Dot<Bits>::plain();
  }
#pragma GCC unroll 8
  for (int g = First; g < First + Count; ++g) {
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) {
      d[t].add(w[t].g[g], q + 4 * g);
      if ((g + 1) % Dot<Bits>::kRun == 0 || g + 1 == First + Count) d[t].flush();
    }
  }
  Lanes<T> out;
#pragma GCC unroll 2
  for (int t = 0; t < T; ++t) out.of[t] = d[t].result();
  return out;
}

template <Kind K, int Bits, int H, int T>
inline void step(f32x16* const (&acc)[T], const Codes (&w)[T], const Scales (&s)[T], RowRef<H> a) {
  const int8_t* q = a.q(0);
  if constexpr (K == Kind::scale) {
    const Lanes<T> d = dot<Bits, true, 0, 8>(w, q, a.neg_sum());
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) *acc[t] = fma(to_f32(d.of[t]), s[t].d * a.d(), *acc[t]);
  } else if constexpr (K == Kind::scale_min) {
    const Lanes<T> d = dot<Bits, false, 0, 8>(w, q, nullptr);
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) *acc[t] = fma(s[t].m, a.d_sum(), fma(to_f32(d.of[t]), s[t].d * a.d(), *acc[t]));
  } else if constexpr (K == Kind::scale_zero) {
    const Lanes<T> d = dot<Bits, false, 0, 8>(w, q, nullptr);
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) *acc[t] = fma(to_f32(d.of[t] + s[t].s0 * set1(*a.neg_sum())), s[t].d * a.d(), *acc[t]);
  } else if constexpr (K == Kind::small16) {
    const Lanes<T> h0 = dot<Bits, true, 0, 4>(w, q, a.neg_sum_half(0)), h1 = dot<Bits, true, 4, 4>(w, q, a.neg_sum_half(1));
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) *acc[t] = fma(to_f32(s[t].s0 * h0.of[t] + s[t].s1 * h1.of[t]), s[t].d * a.d(), *acc[t]);
  } else if constexpr (K == Kind::small16_min) {
    const Lanes<T> h0 = dot<Bits, false, 0, 4>(w, q, nullptr), h1 = dot<Bits, false, 4, 4>(w, q, nullptr);
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) {
      *acc[t] = fma(to_f32(s[t].s0 * h0.of[t] + s[t].s1 * h1.of[t]), s[t].d * a.d(), *acc[t]);
      const i32x16 mins = s[t].t0 * set1(*a.neg_sum_half(0)) + s[t].t1 * set1(*a.neg_sum_half(1));
      *acc[t] = fma(to_f32(mins), s[t].m * a.d(), *acc[t]);
    }
  } else {
    const Lanes<T> h0 = dot<Bits, true, 0, 4>(w, q, a.neg_sum_half(0)), h1 = dot<Bits, true, 4, 4>(w, q, a.neg_sum_half(1));
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) *acc[t] = fma(to_f32(h1.of[t]), s[t].m * a.d(), fma(to_f32(h0.of[t]), s[t].d * a.d(), *acc[t]));
  }
}

template <int H>
inline void finish(const f32x16 (&acc)[H], float* out, int64_t stride, const float* bias, int lanes) {
  const f32x16 b = bias ? load_n(bias, lanes) : zero_f32();
  for (int r = 0; r < H; ++r) {
    const f32x16 v = bias ? acc[r] + b : acc[r];
    if (lanes == kLanes) store(out + r * stride, v);
    else store_n(out + r * stride, v, lanes);
  }
}

// How many of the outputs n .. n + 15 exist.
inline int lanes_of(const GemmArgs& a, int64_t n) {
  const int64_t left = a.n - n;
  return left < kLanes ? int(left) : kLanes;
}

/// T tiles and where their results go.
template <int T>
struct TileSet {
  const std::byte* tile[T];
  float* out[T];          ///< of the panel's first row
  const float* bias[T];   ///< or null
  int lanes[T];           ///< outputs that exist
  int64_t k, out_stride;
  int64_t tile_bytes;
  int64_t skip;           ///< bytes between the end of a tile and the one that follows in its place: what is fetched ahead comes from there
};

/// One panel of H rows against T tiles. The codes are taken apart again for each panel: shifts and masks run beside the dot products, and the packed tile
/// stays in the first-level cache (measured against unpacking tiles first: 3 to 8 % faster, see bench/kernels/gemm.cc).
template <Pack P, int H, int T>
void gemm_panel(const TileSet<T>& s, const std::byte* record) {
  constexpr PackRow L = pack_row(P);
  constexpr int kAdvance = L.unit_bytes() / L.blocks;
  // Weights are read from front to back. While memory is the limit the hardware's prefetchers are ahead of the loads but for the next lines; with more rows
  // they fall asleep between two blocks. Measured on Zen 4 (bench/kernels/gemm.cc): 31 GB/s with one row, 29 with the long distance; 16 rows gain 10 %, four
  // of Q4_K 25 %. A row takes about eleven cycles a block, memory gives 8.5 bytes a cycle.
  constexpr int kAhead = kAdvance > H * 94 ? 256 : 2048;
  const int64_t units = (s.k + L.unit_k() - 1) / L.unit_k();
  // More sums than registers live in memory; on a page of their own they never share the low address bits with the weights that are loaded meanwhile
  // (elsewhere Q4_K lost 15 %).
  alignas(T > 1 ? 4096 : 64) f32x16 acc[T][H];
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 16
    for (int r = 0; r < H; ++r) acc[t][r] = zero_f32();
  // Results of a full panel go to as many rows, mostly far from any cache: their lines come while the products are made.
  if constexpr (H == kPanelRows)
    for (int t = 0; t < T; ++t)
      for (int r = 0; r < H; ++r) prefetch_to_write(s.out[t] + r * s.out_stride);
  // Copies: the compiler must assume that storing a vector changes what `s` holds.
  const std::byte* unit[T];
  for (int t = 0; t < T; ++t) unit[t] = s.tile[t];
  int64_t left = s.tile_bytes - kAhead, ahead = kAhead;
  const int64_t skip = s.skip;
  for (int64_t u = 0; u < units; ++u) {
    if (T > 1 && left <= 0) ahead = kAhead + skip;
    left -= L.unit_bytes();
    for (int b = 0; b < L.blocks; ++b, record += H * kRecordBytes) {
      Codes w[T];
      Scales scales[T];
#pragma GCC unroll 2
      for (int t = 0; t < T; ++t) {
        for (int line = 0; line < kAdvance; line += 64) prefetch(unit[t] + b * kAdvance + line + ahead);
        w[t] = load_codes<P>(unit[t], b);
        scales[t] = load_scales<P>(unit[t], b);
      }
#pragma GCC unroll 16
      for (int r = 0; r < H; ++r) {
        f32x16* sums[T];
#pragma GCC unroll 2
        for (int t = 0; t < T; ++t) sums[t] = &acc[t][r];
        step<L.kind, L.bits, H, T>(sums, w, scales, RowRef<H>{record, r});
      }
    }
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) unit[t] += L.unit_bytes();
  }
  for (int t = 0; t < T; ++t) finish<H>(acc[t], s.out[t], s.out_stride, s.bias[t], s.lanes[t]);
}

template <Pack P>
using PanelFn = void (*)(const TileSet<1>&, const std::byte* record);

// Heights that a panel can have: 1 .. small, and the full one.
template <Pack P, int... H>
PanelFn<P> panel_fn(int h, Indices<H...>) {
  static constexpr PanelFn<P> kByRows[] = {gemm_panel<P, H + 1, 1>...};
  return h == kPanelRows ? gemm_panel<P, kPanelRows, 1> : kByRows[h - 1];
}

/// Tiles t and, if T is 2, t + 1 of the weight.
template <int T>
inline TileSet<T> tiles_at(const GemmArgs& a, int64_t t, int64_t row) {
  TileSet<T> s;
  s.k = a.k;
  s.out_stride = a.out_stride;
  s.tile_bytes = int64_t(a.tile_bytes);
  s.skip = (T - 1) * s.tile_bytes;
  for (int i = 0; i < T; ++i) {
    const int64_t n = (t + i) * kLanes;
    s.tile[i] = a.tiles + size_t(t + i) * a.tile_bytes;
    s.out[i] = a.out + row * a.out_stride + n;
    s.bias[i] = a.bias ? a.bias + n : nullptr;
    s.lanes[i] = lanes_of(a, n);
  }
  return s;
}

constexpr void (*kActMul[])(float*, const float*, const float*, int64_t) noexcept = {
    act_mul<Act::silu>, act_mul<Act::gelu_tanh>, act_mul<Act::gelu>, act_mul<Act::relu>, act_mul<Act::relu2>};
static_assert(sizeof(kActMul) / sizeof(kActMul[0]) == size_t(Act::count_));

/// Gate and up of the same outputs side by side; what they give waits in the first-level cache for the activation.
template <Pack P>
void gated_tile(const GemmArgs& a, int64_t t, Panel p, const std::byte* record) {
  alignas(64) float sums[2][kPanelRows * kLanes];
  const int64_t n = t * kLanes;
  const int lanes = lanes_of(a, n);
  const std::byte* const from[2] = {a.tiles + size_t(t) * a.tile_bytes, a.up_tiles + size_t(t) * a.tile_bytes};
  const float* const bias[2] = {a.bias ? a.bias + n : nullptr, a.up_bias ? a.up_bias + n : nullptr};
  const auto run = [&]<int T>(void (*panel)(const TileSet<T>&, const std::byte*)) {
    for (int i = 0; i < 2; i += T) {
      TileSet<T> s;
      s.k = a.k;
      s.out_stride = kLanes;
      s.tile_bytes = int64_t(a.tile_bytes);
      s.skip = 0;
      for (int j = 0; j < T; ++j) s.tile[j] = from[i + j], s.out[j] = sums[i + j], s.bias[j] = bias[i + j], s.lanes[j] = lanes;
      panel(s, record);
    }
  };
  if (p.rows == kPanelRows) run(gemm_panel<P, kPanelRows, kTilesAtOnce>);
  else run(panel_fn<P>(p.rows, indices<kSmallPanelRows>()));
  float* out = a.out + p.first * a.out_stride + n;
  for (int r = 0; r < p.rows; ++r) kActMul[int(a.act)](out + r * a.out_stride, sums[0] + r * kLanes, sums[1] + r * kLanes, lanes);
}

// Tiles that a panel meets one after another: it stays in the first-level cache meanwhile, and a row of `out` is written line after line.
constexpr int64_t kTileGroup = 8;

template <Pack P>
void gemm_int(const GemmArgs& a) {
  const size_t row_bytes = quantized_bytes(1, a.k);
  const Panels panels{a.m, kPanelRows, kSmallPanelRows};
  const int64_t tiles = (a.n + kLanes - 1) / kLanes, group_tiles = a.up_tiles ? kTileGroup / 2 : kTileGroup;
  for (int64_t group = 0; group < tiles; group += group_tiles) {
    const int64_t end = group + group_tiles < tiles ? group + group_tiles : tiles;
    for (int64_t i = 0; i < panels.count(); ++i) {
      const Panel p = panels[i];
      const std::byte* record = a.quantized + size_t(p.first) * row_bytes;
      int64_t t = group;
      if (a.up_tiles)
        for (; t < end; ++t) gated_tile<P>(a, t, p, record);
      if (p.rows == kPanelRows)
        for (; t + kTilesAtOnce <= end; t += kTilesAtOnce) gemm_panel<P, kPanelRows, kTilesAtOnce>(tiles_at<kTilesAtOnce>(a, t, p.first), record);
      for (; t < end; ++t) panel_fn<P>(p.rows, indices<kSmallPanelRows>())(tiles_at<1>(a, t, p.first), record);
    }
  }
}

}  // namespace
}  // namespace isotope::kernels::cpu
