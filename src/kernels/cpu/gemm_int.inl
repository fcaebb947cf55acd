// Integer kernels: int32 dot products of a block, then one float32 fma (two where the format has minima or a scale for each half).
// step() is the only place with that arithmetic; all row counts and both ways of reading a weight go through it.
//   few rows   the packed weight is read once, straight into registers: the time is that of memory
//   many rows  a tile is unpacked by pieces into the first-level cache and meets panel after panel of activations
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
  for (int g = First; g < First + Count; ++g) d.add(w.g[g], q + 4 * g);
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

// Lanes of tile t that exist.
inline int lanes_of(const GemmArgs& a, int64_t t) {
  const int64_t left = a.n - t * kLanes;
  return left < kLanes ? int(left) : kLanes;
}

/// Few rows: one panel of H.
template <Pack P, int H>
void gemm_few(const GemmArgs& a) {
  constexpr PackRow L = pack_row(P);
  const int64_t units = (a.k + L.unit_k() - 1) / L.unit_k();
  for (int64_t t = 0; t * kLanes < a.n; ++t) {
    const std::byte *unit = a.tiles + size_t(t) * a.tile_bytes, *record = a.quantized;
    f32x16 acc[H];
    for (int r = 0; r < H; ++r) acc[r] = zero_f32();
    for (int64_t u = 0; u < units; ++u, unit += L.unit_bytes()) {
      for (int b = 0; b < L.blocks; ++b, record += H * kRecordBytes) {
        for (int line = 0; line < L.unit_bytes() / L.blocks; line += 64) prefetch(unit + b * (L.unit_bytes() / L.blocks) + line + kPrefetchAhead);
        step_rows<L.kind, L.bits, H>(acc, load_codes<P>(unit, b), load_scales<P>(unit, b), record);
      }
    }
    finish<H>(acc, a.out + t * kLanes, a.out_stride, a.bias ? a.bias + t * kLanes : nullptr, lanes_of(a, t));
  }
}

/// A piece of a tile meets a panel of H rows; sums wait in `out` between pieces.
struct Piece {
  const std::byte* blocks;   // unpacked
  int64_t count;
  const std::byte* records;
  float* out;
  int64_t out_stride;
  const float* bias;         // last piece only
  int lanes;
  bool first;
};

template <Kind K, int Bits, int H>
void gemm_piece(const Piece& p) {
  f32x16 acc[H];
#pragma GCC unroll 16
  for (int r = 0; r < H; ++r) acc[r] = p.first ? zero_f32() : load_n(p.out + r * p.out_stride, p.lanes);
  const std::byte *block = p.blocks, *record = p.records;
  for (int64_t b = 0; b < p.count; ++b, block += unpacked_bytes(K), record += H * kRecordBytes)
    step_rows<K, Bits, H>(acc, unpacked_codes(block), unpacked_scales<K>(block), record);
  finish<H>(acc, p.out, p.out_stride, p.bias, p.lanes);
}

template <Kind K, int Bits, int... H>
void gemm_piece_of(int h, const Piece& p, Indices<H...>) {
  static constexpr void (*kByRows[])(const Piece&) = {gemm_piece<K, Bits, H + 1>...};
  kByRows[h - 1](p);
}

template <Pack P, int... H>
void gemm_few_of(const GemmArgs& a, Indices<H...>) {
  static constexpr void (*kByRows[])(const GemmArgs&) = {gemm_few<P, H + 1>...};
  kByRows[a.m - 1](a);
}

// Blocks of a piece: up to 24 in one go, else 16 (whole units of the K formats). Together with the panel it stays in the first-level cache.
constexpr int64_t kLongestPiece = 24;
inline int64_t piece_blocks(int64_t blocks) { return blocks <= kLongestPiece ? blocks : 16; }

template <Pack P>
void gemm_many(const GemmArgs& a) {
  constexpr PackRow L = pack_row(P);
  alignas(64) std::byte scratch[kLongestPiece * unpacked_bytes(L.kind)];
  const int64_t blocks = (a.k + L.unit_k() - 1) / L.unit_k() * L.blocks, length = piece_blocks(blocks);
  for (int64_t t = 0; t * kLanes < a.n; ++t) {
    const float* bias = a.bias ? a.bias + t * kLanes : nullptr;
    for (int64_t b = 0; b < blocks; b += length) {
      const int64_t count = blocks - b < length ? blocks - b : length;
      unpack<P>(a.tiles + size_t(t) * a.tile_bytes, b, count, scratch);
      for (int64_t m = 0; m < a.m; m += kPanelRows) {
        const int h = a.m - m < kPanelRows ? int(a.m - m) : kPanelRows;
        const std::byte* panel = a.quantized + size_t(m) * size_t(blocks) * kRecordBytes;
        gemm_piece_of<L.kind, L.bits>(h,
                                      {.blocks = scratch,
                                       .count = count,
                                       .records = panel + size_t(b) * size_t(h) * kRecordBytes,
                                       .out = a.out + m * a.out_stride + t * kLanes,
                                       .out_stride = a.out_stride,
                                       .bias = b + count == blocks ? bias : nullptr,
                                       .lanes = lanes_of(a, t),
                                       .first = b == 0},
                                      indices<kPanelRows>());
      }
    }
  }
}

template <Pack P>
void gemm_int(const GemmArgs& a) {
  if (a.m <= 0 || a.n <= 0) return;
  if (a.m <= kFewRows) gemm_few_of<P>(a, indices<kFewRows>());
  else gemm_many<P>(a);
}

}  // namespace
}  // namespace isotope::kernels::cpu
