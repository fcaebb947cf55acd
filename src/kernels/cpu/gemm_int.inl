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

template <int Bits, bool Symmetric, int First, int Count>
inline i32x16 dot(const Codes& w, const int8_t* q, const int32_t* neg_sum) {
  Dot<Bits> d = [&] {
    if constexpr (Symmetric) return Dot<Bits>::symmetric(neg_sum);
    else return Dot<Bits>::plain();
  }();
#pragma GCC unroll 8
  for (int g = First; g < First + Count; ++g) {
    d.add(w.g[g], q + 4 * g);
    if ((g + 1) % Dot<Bits>::kRun == 0 || g + 1 == First + Count) d.flush();
  }
  return d.result();
}

template <Kind K, int Bits, int H>
inline f32x16 step(f32x16 acc, const Codes& w, const Scales& s, RowRef<H> a) {
  const int8_t* q = a.q(0);
  if constexpr (K == Kind::scale) {
    return fma(to_f32(dot<Bits, true, 0, 8>(w, q, a.neg_sum())), s.d * a.d(), acc);
  } else if constexpr (K == Kind::scale_min) {
    acc = fma(to_f32(dot<Bits, false, 0, 8>(w, q, nullptr)), s.d * a.d(), acc);
    return fma(s.m, a.d_sum(), acc);
  } else if constexpr (K == Kind::small16) {
    const i32x16 h0 = dot<Bits, true, 0, 4>(w, q, a.neg_sum_half(0)), h1 = dot<Bits, true, 4, 4>(w, q, a.neg_sum_half(1));
    return fma(to_f32(s.s0 * h0 + s.s1 * h1), s.d * a.d(), acc);
  } else if constexpr (K == Kind::small16_min) {
    const i32x16 h0 = dot<Bits, false, 0, 4>(w, q, nullptr), h1 = dot<Bits, false, 4, 4>(w, q, nullptr);
    acc = fma(to_f32(s.s0 * h0 + s.s1 * h1), s.d * a.d(), acc);
    const i32x16 mins = s.t0 * set1(*a.neg_sum_half(0)) + s.t1 * set1(*a.neg_sum_half(1));
    return fma(to_f32(mins), s.m * a.d(), acc);
  } else {
    acc = fma(to_f32(dot<Bits, true, 0, 4>(w, q, a.neg_sum_half(0))), s.d * a.d(), acc);
    return fma(to_f32(dot<Bits, true, 4, 4>(w, q, a.neg_sum_half(1))), s.m * a.d(), acc);
  }
}

template <Kind K, int Bits, int H>
inline void step_rows(f32x16 (&acc)[H], const Codes& w, const Scales& s, const std::byte* record) {
#pragma GCC unroll 16
  for (int r = 0; r < H; ++r) acc[r] = step<K, Bits, H>(acc[r], w, s, RowRef<H>{record, r});
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

/// One tile and one panel of H rows. The codes are taken apart again for each panel: shifts and masks run beside the dot products, and the packed
/// tile stays in the first-level cache (measured against unpacking tiles first: 3 to 8 % faster, see bench/kernels/gemm.cc).
template <Pack P, int H>
void gemm_panel(const GemmArgs& a, int64_t t, const std::byte* record, int64_t row) {
  constexpr PackRow L = pack_row(P);
  constexpr int kAdvance = L.unit_bytes() / L.blocks;
  // Weights are read from front to back. With few rows the hardware's prefetchers are ahead of the loads but for the next lines; with many they
  // fall asleep between two blocks. Measured on Zen 4 (bench/kernels/gemm.cc): 31 GB/s with one row, 29 with the long distance; 16 rows gain 10 %.
  constexpr int kAhead = H <= 4 ? 256 : 2048;
  const int64_t units = (a.k + L.unit_k() - 1) / L.unit_k();
  const std::byte* unit = a.tiles + size_t(t) * a.tile_bytes;
  f32x16 acc[H];
#pragma GCC unroll 16
  for (int r = 0; r < H; ++r) acc[r] = zero_f32();
  for (int64_t u = 0; u < units; ++u, unit += L.unit_bytes()) {
    for (int b = 0; b < L.blocks; ++b, record += H * kRecordBytes) {
      for (int line = 0; line < kAdvance; line += 64) prefetch(unit + b * kAdvance + line + kAhead);
      step_rows<L.kind, L.bits, H>(acc, load_codes<P>(unit, b), load_scales<P>(unit, b), record);
    }
  }
  finish<H>(acc, a.out + row * a.out_stride + t * kLanes, a.out_stride, a.bias ? a.bias + t * kLanes : nullptr, lanes_of(a, t * kLanes));
}

template <Pack P>
using PanelFn = void (*)(const GemmArgs&, int64_t tile, const std::byte* record, int64_t row);

// Heights that a panel can have: 1 .. small, and the full one.
template <Pack P, int... H>
PanelFn<P> panel_fn(int h, Indices<H...>) {
  static constexpr PanelFn<P> kByRows[] = {gemm_panel<P, H + 1>...};
  return h == kPanelRows ? gemm_panel<P, kPanelRows> : kByRows[h - 1];
}

// Tiles that a panel meets one after another: it stays in the first-level cache meanwhile, and a row of `out` is written line after line.
constexpr int64_t kTileGroup = 8;

template <Pack P>
void gemm_int(const GemmArgs& a) {
  const size_t row_bytes = quantized_bytes(1, a.k);
  const Panels panels{a.m, kPanelRows, kSmallPanelRows};
  const int64_t tiles = (a.n + kLanes - 1) / kLanes;
  for (int64_t group = 0; group < tiles; group += kTileGroup) {
    for (int64_t i = 0; i < panels.count(); ++i) {
      const Panel p = panels[i];
      for (int64_t t = group; t < tiles && t < group + kTileGroup; ++t)
        panel_fn<P>(p.rows, indices<kSmallPanelRows>())(a, t, a.quantized + size_t(p.first) * row_bytes, p.first);
    }
  }
}

}  // namespace
}  // namespace isotope::kernels::cpu
