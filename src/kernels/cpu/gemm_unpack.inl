// From packed units to the operands of the integer kernels: eight registers of codes and the scales of one block.
namespace isotope::kernels::cpu {
namespace {

struct Scales {
  f32x16 d, m;             // scale, and minimum (added) or second scale
  i32x16 s0, s1, t0, t1;   // whole-number scales and minima of the two halves
};

struct Codes {
  u8x64 g[kGroups];
};

// Bits [From, From + Width) of every byte, moved to bit To.
template <int From, int Width, int To>
inline u8x64 move_bits(u8x64 a) {
  constexpr uint8_t mask = uint8_t(((1 << Width) - 1) << To);
  if constexpr (From >= To) return shr_and<From - To>(a, mask);
  else return shl_and<To - From>(a, mask);
}

// Group G of a plane of Width bits, placed at bit To.
template <int Width, int G, int To>
inline u8x64 plane_group(const std::byte* plane) {
  const u8x64 line = load64(plane + 64 * (G % Width));
  if constexpr (Width == 8) return line;
  else return move_bits<Width * (G / Width), Width, To>(line);
}

template <Pack P, int G>
inline u8x64 load_group(const std::byte* block) {
  constexpr PackRow L = pack_row(P);
  const u8x64 low = plane_group<L.low, G, 0>(block);
  if constexpr (P == Pack::iq4_nl || P == Pack::iq4_xs) return lookup(load_table(kIq4Table), low);
  else if constexpr (P == Pack::mxfp4) return lookup(load_table(kE2M1Table16), low);
  else if constexpr (P == Pack::nvfp4 || P == Pack::e2m1g16) return lookup(load_table(kE2M1Table128), low);
  else if constexpr (L.high > 0) return low | plane_group<L.high, G, L.low>(block + 64 * L.low);
  else return low;
}

template <Pack P, int... G>
inline Codes load_codes_(const std::byte* block, Indices<G...>) {
  return {{load_group<P, G>(block)...}};
}
/// Block b of a unit.
template <Pack P>
inline Codes load_codes(const std::byte* unit, int b) {
  return load_codes_<P>(unit + pack_row(P).blocks_at() + b * pack_row(P).block_bytes(), indices<kGroups>());
}

// 2^(e - 128), the scale of doubled E2M1 values; below 2 a denormal.
inline f32x16 e8m0_half(i32x16 e) {
  const i32x16 one = set1(int32_t{1});
  const i32x16 denormal = select(gt(one, e), set1(int32_t{0x200000}), set1(int32_t{0x400000}));
  return bits_to_f32(select(gt(e, one), shift_left<23>(e - one), denormal));
}

// Unsigned E4M3, halved for doubled E2M1 values: 2^(e - 8) · (1 + m/8), and m · 2^-10 for e = 0. As float32 bits its exponent is 119 too small.
inline f32x16 e4m3_half(i32x16 s) { return bits_to_f32(shift_left<20>(s)) * set1(0x1p119f); }

template <Pack P>
inline Scales load_scales(const std::byte* unit, int b) {
  constexpr PackRow L = pack_row(P);
  const auto* small_a = reinterpret_cast<const uint8_t*>(unit + L.small_a_at());
  const auto* small_b = reinterpret_cast<const uint8_t*>(unit + L.small_b_at());
  const auto half = [&](int i) { return load_f16(reinterpret_cast<const uint16_t*>(unit + L.halves_at()) + kLanes * i); };
  const auto whole = [&](int i) { return load(reinterpret_cast<const float*>(unit) + kLanes * i); };
  const auto u8 = [&](const uint8_t* p, int i) { return load_u8(p + kLanes * i); };
  const auto s8 = [&](const uint8_t* p, int i) { return load_s8(reinterpret_cast<const int8_t*>(p) + kLanes * i); };
  Scales s;
  if constexpr (P == Pack::mxfp4) {
    s.d = e8m0_half(u8(small_a, b));
  } else if constexpr (P == Pack::iq4_xs) {
    s.d = half(0) * to_f32(s8(small_a, b));
  } else if constexpr (P == Pack::q4_k || P == Pack::q5_k) {
    s.d = half(0) * to_f32(u8(small_a, b));
    s.m = -half(1) * to_f32(u8(small_b, b));
  } else if constexpr (P == Pack::q3_k || P == Pack::q6_k) {
    s.d = half(0);
    s.s0 = s8(small_a, 2 * b);
    s.s1 = s8(small_a, 2 * b + 1);
  } else if constexpr (P == Pack::q2_k) {
    const i32x16 a = u8(small_a, 2 * b), c = u8(small_a, 2 * b + 1), low = set1(int32_t{15});
    s.d = half(0);
    s.m = half(1);
    s.s0 = a & low;
    s.s1 = c & low;
    s.t0 = shift_right_logical<4>(a);
    s.t1 = shift_right_logical<4>(c);
  } else if constexpr (P == Pack::nvfp4) {
    s.d = e4m3_half(u8(small_a, 2 * b));
    s.m = e4m3_half(u8(small_a, 2 * b + 1));
  } else if constexpr (L.kind == Kind::scale16) {
    s.d = whole(2 * b);
    s.m = whole(2 * b + 1);
  } else if constexpr (L.kind == Kind::scale_zero) {
    s.d = whole(0);
    s.s0 = u8(small_a, 0);
  } else if constexpr (L.floats == 1) {
    s.d = whole(0);
  } else {
    s.d = half(0);
    if constexpr (L.halves > 1) s.m = half(1);
  }
  return s;
}

// ---- the way back, for embeddings and tests -------------------------------------------------------------------------------------
constexpr int fields(Kind k) { return k == Kind::scale ? 1 : k == Kind::small16_min ? 6 : k == Kind::small16 ? 3 : 2; }
constexpr int unpacked_bytes(Kind k) { return 64 * (kGroups + fields(k)); }

template <Kind K>
inline void store_block(std::byte* p, const Codes& c, const Scales& s) {
  for (int g = 0; g < kGroups; ++g) store64(p + 64 * g, c.g[g]);
  const auto f = [&](int i) { return reinterpret_cast<float*>(p + 64 * (kGroups + i)); };
  const auto n = [&](int i) { return reinterpret_cast<int32_t*>(p + 64 * (kGroups + i)); };
  store(f(0), s.d);
  if constexpr (K == Kind::scale_min || K == Kind::scale16) store(f(1), s.m);
  if constexpr (K == Kind::scale_zero) store(n(1), s.s0);
  if constexpr (K == Kind::small16 || K == Kind::small16_min) store(n(1), s.s0), store(n(2), s.s1);
  if constexpr (K == Kind::small16_min) store(f(3), s.m), store(n(4), s.t0), store(n(5), s.t1);
}

/// One row of a tile as float32, in the arithmetic of the formats' definition.
template <Pack P>
void decode_row_int(const std::byte* tile, int lane, int64_t k, float* out) {
  constexpr PackRow L = pack_row(P);
  constexpr bool has_min = L.kind == Kind::scale_min || L.kind == Kind::small16_min;
  constexpr int bias = has_min || L.kind == Kind::scale_zero ? 0 : 1 << (L.bits - 1);
  alignas(64) std::byte block[unpacked_bytes(L.kind)];
  const auto f = [&](int i) { float v; __builtin_memcpy(&v, block + 64 * (kGroups + i) + 4 * lane, 4); return v; };
  const auto n = [&](int i) { int32_t v; __builtin_memcpy(&v, block + 64 * (kGroups + i) + 4 * lane, 4); return float(v); };
  for (int64_t i = 0; i < k; i += kBlock) {
    const std::byte* unit = tile + i / L.unit_k() * L.unit_bytes();
    store_block<L.kind>(block, load_codes<P>(unit, int(i % L.unit_k() / kBlock)), load_scales<P>(unit, int(i % L.unit_k() / kBlock)));
    uint8_t codes[kBlock];
    for (int g = 0; g < kGroups; ++g) __builtin_memcpy(codes + 4 * g, block + 64 * g + 4 * lane, 4);
    for (int half = 0; half < 2 && i + 16 * half < k; ++half) {
      const f32x16 q = to_f32(load_u8(codes + 16 * half) - set1(int32_t{bias}));
      f32x16 y;
      if constexpr (L.kind == Kind::scale) y = set1(f(0)) * q;
      else if constexpr (L.kind == Kind::scale_zero) y = set1(f(0)) * (q - set1(n(1)));
      else if constexpr (L.kind == Kind::scale_min) y = set1(f(0)) * q + set1(f(1));
      else if constexpr (L.kind == Kind::small16) y = set1(f(0) * n(1 + half)) * q;
      else if constexpr (L.kind == Kind::small16_min) y = set1(f(0) * n(1 + half)) * q - set1(f(3) * n(4 + half));
      else y = set1(f(half)) * q;
      const int64_t left = k - i - 16 * half;
      if (left >= 16) store(out + i + 16 * half, y);
      else store_n(out + i + 16 * half, y, int(left));
    }
  }
}

}  // namespace
}  // namespace isotope::kernels::cpu
