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

// R rows meet T tiles together: each four activations are broadcast once for all tiles, and R x T chains of dot products hide the latency of one.
template <int R, int T>
struct Lanes {
  i32x16 of[R][T];
};

template <int R, int T, class F>
inline void each(F f) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) f(r, t);
}

template <int Bits, bool Symmetric, int First, int Count, int R, int T>
inline Lanes<R, T> dot(const Codes (&w)[T], const int8_t* q, const int32_t* neg_sum) {
  Dot<Bits> d[R][T];
  each<R, T>([&](int r, int t) {
    if constexpr (Symmetric) d[r][t] = Dot<Bits>::symmetric(neg_sum + r);
    else d[r][t] = Dot<Bits>::plain();
  });
#pragma GCC unroll 8
  for (int g = First; g < First + Count; ++g) {
    each<R, T>([&](int r, int t) {
      d[r][t].add(w[t].g[g], q + r * kBlock + 4 * g);
      if ((g + 1) % Dot<Bits>::kRun == 0 || g + 1 == First + Count) d[r][t].flush();
    });
  }
  Lanes<R, T> out;
  each<R, T>([&](int r, int t) { out.of[r][t] = d[r][t].result(); });
  return out;
}

// Rows a.r .. a.r + R - 1.
template <Kind K, int Bits, int R, int H, int T>
inline void step(f32x16 (&acc)[T][H], const Codes (&w)[T], const Scales (&s)[T], RowRef<H> a) {
  const int8_t* q = a.q(0);
  const auto row = [&](int r) { return RowRef<H>{a.record, a.r + r}; };
  const auto sum = [&](int r, int t) -> f32x16& { return acc[t][a.r + r]; };
  if constexpr (K == Kind::scale) {
    const auto d = dot<Bits, true, 0, 8, R>(w, q, a.neg_sum());
    each<R, T>([&](int r, int t) { sum(r, t) = fma(to_f32(d.of[r][t]), s[t].d * row(r).d(), sum(r, t)); });
  } else if constexpr (K == Kind::scale_min) {
    const auto d = dot<Bits, false, 0, 8, R>(w, q, nullptr);
    each<R, T>([&](int r, int t) { sum(r, t) = fma(s[t].m, row(r).d_sum(), fma(to_f32(d.of[r][t]), s[t].d * row(r).d(), sum(r, t))); });
  } else if constexpr (K == Kind::scale_zero) {
    const auto d = dot<Bits, false, 0, 8, R>(w, q, nullptr);
    each<R, T>([&](int r, int t) { sum(r, t) = fma(to_f32(d.of[r][t] + s[t].s0 * set1(*row(r).neg_sum())), s[t].d * row(r).d(), sum(r, t)); });
  } else if constexpr (K == Kind::small16) {
    const auto h0 = dot<Bits, true, 0, 4, R>(w, q, a.neg_sum_half(0)), h1 = dot<Bits, true, 4, 4, R>(w, q, a.neg_sum_half(1));
    each<R, T>([&](int r, int t) { sum(r, t) = fma(to_f32(s[t].s0 * h0.of[r][t] + s[t].s1 * h1.of[r][t]), s[t].d * row(r).d(), sum(r, t)); });
  } else if constexpr (K == Kind::small16_min) {
    const auto h0 = dot<Bits, false, 0, 4, R>(w, q, nullptr), h1 = dot<Bits, false, 4, 4, R>(w, q, nullptr);
    each<R, T>([&](int r, int t) {
      sum(r, t) = fma(to_f32(s[t].s0 * h0.of[r][t] + s[t].s1 * h1.of[r][t]), s[t].d * row(r).d(), sum(r, t));
      const i32x16 mins = s[t].t0 * set1(*row(r).neg_sum_half(0)) + s[t].t1 * set1(*row(r).neg_sum_half(1));
      sum(r, t) = fma(to_f32(mins), s[t].m * row(r).d(), sum(r, t));
    });
  } else {
    const auto h0 = dot<Bits, true, 0, 4, R>(w, q, a.neg_sum_half(0)), h1 = dot<Bits, true, 4, 4, R>(w, q, a.neg_sum_half(1));
    each<R, T>([&](int r, int t) {
      const f32x16 d = row(r).d();
      sum(r, t) = fma(to_f32(h1.of[r][t]), s[t].m * d, fma(to_f32(h0.of[r][t]), s[t].d * d, sum(r, t)));
    });
  }
}

/// How many of a panel's H rows meet T tiles together when N panels share the codes. Few chains of dot products wait for each other; kinds with two sums a
/// block have twice as many. Measured: with two tiles the scheduler finds enough to do by itself, but for formats that bring minima along.
constexpr int rows_together(Kind k, int h, int tiles, int panels) {
  const bool halves = k == Kind::small16 || k == Kind::small16_min || k == Kind::scale16;
  const int most = tiles > 1 ? (k == Kind::scale_min && panels == 1 ? 2 : 1) : halves ? (kRowsAtOnce + 1) / 2 : kRowsAtOnce;
  return most < h ? most : h;
}

/// One block: all H rows of a record against the codes of T tiles.
template <Kind K, int Bits, int R, int H, int T>
inline void steps(f32x16 (&acc)[T][H], const Codes (&w)[T], const Scales (&s)[T], const std::byte* record) {
  constexpr int kRest = H % R;
#pragma GCC unroll 16
  for (int r = 0; r + R <= H; r += R) step<K, Bits, R>(acc, w, s, RowRef<H>{record, r});
  if constexpr (kRest > 0) step<K, Bits, kRest>(acc, w, s, RowRef<H>{record, H - kRest});
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
  int64_t skip;           ///< several tiles: bytes between the end of a tile and the one that follows in its place: what is fetched ahead comes from there
};

/// N panels of H rows against T tiles. The codes are taken apart again for each N panels: shifts and masks run beside the dot products, and the packed tile
/// stays in the first-level cache (measured against unpacking tiles first: 3 to 8 % faster, see bench/kernels/gemm.cc).
template <Pack P, int H, int T, int N = 1>
void gemm_panel(const TileSet<T>& s, const std::byte* record) {
  constexpr PackRow L = pack_row(P);
  constexpr int kAdvance = L.unit_bytes() / L.blocks;
  // Weights are read from front to back. While memory is the limit the hardware's prefetchers are ahead of the loads but for the next lines; with more rows
  // they fall asleep between two blocks. Measured on Zen 4 (bench/kernels/gemm.cc): 31 GB/s with one row, 29 with the long distance; 16 rows gain 10 %, four
  // of Q4_K 25 %. A row takes about eleven cycles a block, memory gives 8.5 bytes a cycle.
  constexpr int kAhead = kAdvance > H * 94 ? 256 : 2048;
  // One panel of eight-bit codes asks for as many lines at a time as the first level can wait for, and memory is slower than that: what the second level is
  // asked for early arrives in time. Q8_0, 16 rows, [262144, 640] from memory: 267 -> 312 Gop/s a core; fewer bits gain nothing.
  constexpr int kFar = N == 1 && kAdvance >= 512 && kAhead > 256 ? 8192 : 0;
  const int64_t units = (s.k + L.unit_k() - 1) / L.unit_k();
  // More sums than registers live in memory; on a page of their own they never share the low address bits with the weights that are loaded meanwhile
  // (elsewhere Q4_K lost 15 %).
  alignas(T > 1 ? 4096 : 64) f32x16 acc[N][T][H];
  for (int n = 0; n < N; ++n)
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 16
      for (int r = 0; r < H; ++r) acc[n][t][r] = zero_f32();
  const int64_t panel_bytes = int64_t(H * quantized_bytes(1, s.k));
  // Copies: the compiler must assume that storing a vector changes what `s` holds.
  const std::byte* unit[T];
  for (int t = 0; t < T; ++t) unit[t] = s.tile[t];
  int64_t left = s.tile_bytes - kAhead;  // until what is fetched lies behind the tile
  const int64_t skip = s.skip, out_stride = s.out_stride;
  // Results of a full panel go to as many rows, mostly far from any cache: their lines come while the products are made. Of several tiles a few a block, so
  // that the weights' lines do not queue behind them.
  constexpr bool kWriteAhead = H == kPanelRows;
  int64_t row = 0;
  if constexpr (kWriteAhead && T == 1)
    for (; row < N * H; ++row) prefetch_to_write(s.out[0] + row * out_stride);
  for (int64_t u = 0; u < units; ++u) {
    for (int b = 0; b < L.blocks; ++b, record += H * kRecordBytes, left -= kAdvance) {
      const int64_t ahead = T == 1 || left > 0 ? kAhead : kAhead + skip;
      if constexpr (kWriteAhead && T > 1) {
        if (row < N * H)
          for (const int64_t end = row + N; row < end; ++row)
            for (int t = 0; t < T; ++t) prefetch_to_write(s.out[t] + row * out_stride);
      }
      Codes w[T];
      Scales scales[T];
#pragma GCC unroll 2
      for (int t = 0; t < T; ++t) {
        for (int line = 0; line < kAdvance; line += 64) prefetch(unit[t] + b * kAdvance + line + ahead);
        if constexpr (kFar > 0) {
          const int64_t far = T == 1 || left > kFar - kAhead ? kFar : kFar + skip;
          for (int line = 0; line < kAdvance; line += 64) prefetch_l2(unit[t] + b * kAdvance + line + far);
        }
        w[t] = load_codes<P>(unit[t], b);
        scales[t] = load_scales<P>(unit[t], b);
      }
      constexpr int R = rows_together(L.kind, H, T, N);
#pragma GCC unroll 1
      for (int n = 0; n < N; ++n) {
        if constexpr (N > 1) asm("" : "+r"(n));  // a loop indeed: the code of one panel fills a good part of the decoded instructions' cache
        steps<L.kind, L.bits, R>(acc[n], w, scales, record + n * panel_bytes);
      }
    }
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) unit[t] += L.unit_bytes();
  }
  for (int n = 0; n < N; ++n)
    for (int t = 0; t < T; ++t) finish<H>(acc[n][t], s.out[t] + n * H * s.out_stride, s.out_stride, s.bias[t], s.lanes[t]);
}

template <int T>
using PanelFn = void (*)(const TileSet<T>&, const std::byte* record);

// Heights that a panel can have: 1 .. small, and the full one.
template <Pack P, int... H>
PanelFn<1> panel_fn(int h, Indices<H...>) {
  static constexpr PanelFn<1> kByRows[] = {gemm_panel<P, H + 1, 1>...};
  return h == kPanelRows ? gemm_panel<P, kPanelRows, 1> : kByRows[h - 1];
}

// Few rows wait for memory: gate and up are read side by side then, two streams that never stop.
constexpr int kPairedRows = kTilesAtOnce > 1 ? 4 : 1;
template <Pack P, int... H>
PanelFn<kTilesAtOnce> few_fn(int h, Indices<H...>) {
  static constexpr PanelFn<kTilesAtOnce> kByRows[] = {gemm_panel<P, H + 1, kTilesAtOnce>...};
  return kByRows[h - 1];
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

/// Gate and up of the same outputs side by side; what they give waits in the first-level cache for the activation. `p` is a panel or two full ones.
template <Pack P>
void gated_tile(const GemmArgs& a, int64_t t, Panel p, const std::byte* record) {
  alignas(64) float sums[2][kPanelsAtOnce * kPanelRows * kLanes];
  const int64_t n = t * kLanes;
  const int lanes = lanes_of(a, n);
  const std::byte* const from[2] = {a.tiles + size_t(t) * a.tile_bytes, a.up_tiles + size_t(t) * a.tile_bytes};
  const float* const bias[2] = {a.bias ? a.bias + n : nullptr, a.up_bias ? a.up_bias + n : nullptr};
  const auto run = [&]<int T>(PanelFn<T> panel) {
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
  if (p.rows > kPanelRows) run(PanelFn<kTilesAtOnce>(gemm_panel<P, kPanelRows, kTilesAtOnce, kPanelsAtOnce>));
  else if (p.rows == kPanelRows) run(PanelFn<kTilesAtOnce>(gemm_panel<P, kPanelRows, kTilesAtOnce>));
  else if (p.rows <= kPairedRows) run(few_fn<P>(p.rows, indices<kPairedRows>()));
  else run(panel_fn<P>(p.rows, indices<kSmallPanelRows>()));
  float* out = a.out + p.first * a.out_stride + n;
  if (lanes < kLanes) {  // what lies beside them was never written
    for (int r = 0; r < p.rows; ++r) kActMul[int(a.act)](out + r * a.out_stride, sums[0] + r * kLanes, sums[1] + r * kLanes, lanes);
    return;
  }
  kActMul[int(a.act)](sums[0], sums[0], sums[1], p.rows * kLanes);
  for (int r = 0; r < p.rows; ++r) store(out + r * a.out_stride, load(sums[0] + r * kLanes));
}

// Tiles that a panel meets one after another: it stays in the first-level cache meanwhile, and a row of `out` is written line after line.
constexpr int64_t kTileGroup = 8;

/// `p` is a panel or two full ones.
template <Pack P>
void panel_tiles(const GemmArgs& a, int64_t t, int64_t end, Panel p) {
  const size_t row_bytes = quantized_bytes(1, a.k);
  const std::byte* record = a.quantized + size_t(p.first) * row_bytes;
  if (a.up_tiles) {
    for (; t < end; ++t) gated_tile<P>(a, t, p, record);
    return;
  }
  const auto full = p.rows > kPanelRows ? gemm_panel<P, kPanelRows, kTilesAtOnce, kPanelsAtOnce> : gemm_panel<P, kPanelRows, kTilesAtOnce>;
  if (p.rows >= kPanelRows)
    for (; t + kTilesAtOnce <= end; t += kTilesAtOnce) full(tiles_at<kTilesAtOnce>(a, t, p.first), record);
  for (; t < end; ++t)
    for (int r = 0; r < p.rows; r += kPanelRows)
      panel_fn<P>(p.rows < kPanelRows ? p.rows : kPanelRows, indices<kSmallPanelRows>())(tiles_at<1>(a, t, p.first + r), record + size_t(r) * row_bytes);
}

template <Pack P>
void gemm_int(const GemmArgs& a) {
  const Panels panels{a.m, kPanelRows, kSmallPanelRows};
  const int64_t tiles = (a.n + kLanes - 1) / kLanes, group_tiles = a.up_tiles ? kTileGroup / 2 : kTileGroup;
  for (int64_t group = 0; group < tiles; group += group_tiles) {
    const int64_t end = group + group_tiles < tiles ? group + group_tiles : tiles;
    for (int64_t i = 0; i < panels.count(); ++i) {
      Panel p = panels[i];
      if (kPanelsAtOnce > 1 && (i + 2) * kPanelRows <= a.m) p.rows += kPanelRows, ++i;
      panel_tiles<P>(a, group, end, p);
    }
  }
}

}  // namespace
}  // namespace isotope::kernels::cpu
