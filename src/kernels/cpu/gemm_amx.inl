// Integer kernels through a matrix unit (Intel AMX): a panel of sixteen rows meets sixteen outputs in one tile instruction a block. int32 sums are exact in
// any order, and what joins them in float32 is written as in gemm_int.inl, block by block from first to last: so the bits are those of every other kernel.
// The arithmetic is a template over the tile instructions: AmxTiles issues them, EmulatedTiles carries them out in plain C++ (gemm_amx_test.cc runs that one
// everywhere). A panel's codes q[16][32] are the first operand as they lie in memory; a group of four k of sixteen outputs is a row of the second one.
namespace isotope::kernels::cpu {
namespace {

constexpr int kAmxRows = 16;  ///< rows of a panel that goes through tiles
constexpr int kAmxTileGroup = 8;  ///< weight tiles that a panel meets one after another, as in gemm_int

/// Registers: sums of the halves of a block, rows of the panel, groups of the weight. Kinds with one sum a block use the first of each pair.
enum AmxRegister { kSum0, kSum1, kLeft0, kLeft1, kRight0, kRight1, kAmxRegisters };

struct AmxShapes {
  uint8_t rows[8] = {};
  uint16_t bytes[8] = {};  ///< of a row
};

/// One sum of 32 products a block, or two of 16.
constexpr bool has_halves(Kind k) { return k == Kind::small16 || k == Kind::small16_min || k == Kind::scale16; }

constexpr AmxShapes amx_shapes(bool halves) {
  const uint8_t groups = halves ? kGroups / 2 : kGroups;
  return {{kAmxRows, kAmxRows, kAmxRows, kAmxRows, groups, groups}, {64, 64, uint16_t(4 * groups), uint16_t(4 * groups), 64, 64}};
}

#if defined(__x86_64__)
/// The instructions themselves; GCC's intrinsics want literal register numbers, so they are written out.
struct AmxTiles {
  static void configure(const AmxShapes& s) {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t bytes[16] = {};
      uint8_t rows[16] = {};
    } c;
    for (int i = 0; i < 8; ++i) c.bytes[i] = s.bytes[i], c.rows[i] = s.rows[i];
    asm volatile("ldtilecfg %0" : : "m"(c));
  }
  static void release() { asm volatile("tilerelease"); }
  template <int R>
  static void zero() { asm volatile("tilezero %%tmm%c0" : : "i"(R)); }
  template <int R>
  static void load(const void* p, int64_t stride) { asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(R), "r"(p), "r"(stride) : "memory"); }
  template <int R>
  static void store(void* p, int64_t stride) { asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(R), "r"(p), "r"(stride) : "memory"); }
  /// sum[m][n] += left[m][4g + i], signed, times right[g][4n + i], unsigned.
  template <int Sum, int Left, int Right>
  static void dot() { asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(Left), "i"(Right)); }
};
#endif

/// Sums of block b of a unit for one tile, into sums[half][row][lane].
template <class Tiles, Pack P>
inline void amx_dots(const std::byte* unit, int b, int32_t (&sums)[2][kAmxRows * kLanes]) {
  constexpr PackRow L = pack_row(P);
  alignas(64) std::byte codes[64 * kGroups];
  const std::byte* right = codes;
  if constexpr (L.low == 8 && L.high == 0) {
    right = unit + L.blocks_at() + b * L.block_bytes();  // they lie in memory as the instruction wants them
  } else {
    const Codes c = load_codes<P>(unit, b);
    for (int g = 0; g < kGroups; ++g) store64(codes + 64 * g, c.g[g]);
  }
  Tiles::template zero<kSum0>();
  Tiles::template load<kRight0>(right, 64);
  Tiles::template dot<kSum0, kLeft0, kRight0>();
  Tiles::template store<kSum0>(sums[0], 64);
  if constexpr (has_halves(L.kind)) {
    Tiles::template zero<kSum1>();
    Tiles::template load<kRight1>(right + 64 * kGroups / 2, 64);
    Tiles::template dot<kSum1, kLeft1, kRight1>();
    Tiles::template store<kSum1>(sums[1], 64);
  }
}

/// The float32 part of step() in gemm_int.inl, with the sums given.
template <Kind K, int Bits>
inline f32x16 amx_join(f32x16 acc, const Scales& s, RowRef<kAmxRows> a, const int32_t* sum0, const int32_t* sum1) {
  constexpr bool biased = K != Kind::scale_min && K != Kind::small16_min && K != Kind::scale_zero;
  const auto dot = [&](const int32_t* sum, int32_t neg_sum) {
    const i32x16 v = load(sum);
    return biased ? v + set1(int32_t(uint32_t(neg_sum) << (Bits - 1))) : v;
  };
  if constexpr (K == Kind::scale_zero) {
    return fma(to_f32(load(sum0) + s.s0 * set1(*a.neg_sum())), s.d * a.d(), acc);
  } else if constexpr (!has_halves(K)) {
    acc = fma(to_f32(dot(sum0, *a.neg_sum())), s.d * a.d(), acc);
    return K == Kind::scale_min ? fma(s.m, a.d_sum(), acc) : acc;
  } else {
    const i32x16 h0 = dot(sum0, *a.neg_sum_half(0)), h1 = dot(sum1, *a.neg_sum_half(1));
    if constexpr (K == Kind::scale16) return fma(to_f32(h1), s.m * a.d(), fma(to_f32(h0), s.d * a.d(), acc));
    acc = fma(to_f32(s.s0 * h0 + s.s1 * h1), s.d * a.d(), acc);
    if constexpr (K == Kind::small16) return acc;
    return fma(to_f32(s.t0 * set1(*a.neg_sum_half(0)) + s.t1 * set1(*a.neg_sum_half(1))), s.m * a.d(), acc);
  }
}

/// One panel against one tile of sixteen outputs.
template <class Tiles, Pack P>
void amx_panel(const std::byte* tile, const std::byte* record, int64_t k, f32x16 (&acc)[kAmxRows]) {
  constexpr PackRow L = pack_row(P);
  alignas(64) int32_t sums[2][kAmxRows * kLanes];
  for (f32x16& v : acc) v = zero_f32();
  for (int64_t i = 0; i < k; i += L.unit_k(), tile += L.unit_bytes()) {
    for (int b = 0; b < L.blocks; ++b, record += kAmxRows * kRecordBytes) {
      Tiles::template load<kLeft0>(record, kBlock);
      if constexpr (has_halves(L.kind)) Tiles::template load<kLeft1>(record + kBlock / 2, kBlock);
      amx_dots<Tiles, P>(tile, b, sums);
      const Scales s = load_scales<P>(tile, b);
      for (int r = 0; r < kAmxRows; ++r)
        acc[r] = amx_join<L.kind, L.bits>(acc[r], s, RowRef<kAmxRows>{record, r}, sums[0] + r * kLanes, sums[1] + r * kLanes);
    }
  }
}

/// One panel against tile t of the weight, or of both weights.
template <class Tiles, Pack P>
void amx_tile(const GemmArgs& a, int64_t t, int64_t row, const std::byte* record) {
  const int64_t n = t * kLanes;
  const int lanes = a.n - n < kLanes ? int(a.n - n) : kLanes;
  alignas(64) f32x16 acc[kAmxRows];
  float* out = a.out + row * a.out_stride + n;
  amx_panel<Tiles, P>(a.tiles + size_t(t) * a.tile_bytes, record, a.k, acc);
  if (!a.up_tiles) return finish<kAmxRows>(acc, out, a.out_stride, a.bias ? a.bias + n : nullptr, lanes);
  alignas(64) float gate[kAmxRows * kLanes], up[kAmxRows * kLanes];
  finish<kAmxRows>(acc, gate, kLanes, a.bias ? a.bias + n : nullptr, lanes);
  amx_panel<Tiles, P>(a.up_tiles + size_t(t) * a.tile_bytes, record, a.k, acc);
  finish<kAmxRows>(acc, up, kLanes, a.up_bias ? a.up_bias + n : nullptr, lanes);
  for (int r = 0; r < kAmxRows; ++r) kActMul[int(a.act)](out + r * a.out_stride, gate + r * kLanes, up + r * kLanes, lanes);
}

/// Full panels of sixteen rows; the rows that are left go through the vector kernels.
template <class Tiles, Pack P>
void gemm_amx(const GemmArgs& a) noexcept {
  const int64_t panels = a.m / kAmxRows, tiles = (a.n + kLanes - 1) / kLanes;
  const size_t row_bytes = quantized_bytes(1, a.k);
  if (panels > 0) {
    Tiles::configure(amx_shapes(has_halves(pack_row(P).kind)));
    for (int64_t group = 0; group < tiles; group += kAmxTileGroup)
      for (int64_t p = 0; p < panels; ++p)
        for (int64_t t = group; t < tiles && t < group + kAmxTileGroup; ++t)
          amx_tile<Tiles, P>(a, t, p * kAmxRows, a.quantized + size_t(p * kAmxRows) * row_bytes);
    Tiles::release();
  }
  GemmArgs rest = a;
  rest.m = a.m % kAmxRows;
  if (rest.m == 0) return;
  rest.quantized += size_t(a.m - rest.m) * row_bytes;
  rest.out += (a.m - rest.m) * a.out_stride;
  gemm_int<P>(rest);
}

}  // namespace
}  // namespace isotope::kernels::cpu
