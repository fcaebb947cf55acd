#include "ops/cpu/pack_units.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace isotope::ops {

using kernels::cpu::kBlock;
using kernels::cpu::kGroups;
using kernels::cpu::kLanes;
using kernels::cpu::Pack;
using kernels::cpu::PackRow;

namespace {

uint16_t u16(const uint8_t* p) noexcept {
  uint16_t v;
  std::memcpy(&v, p, 2);
  return v;
}
uint32_t u32(const uint8_t* p) noexcept {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}

// n bytes hold the codes of n elements in their low and of the next n in their high nibbles.
void nibbles(const uint8_t* q, int n, uint8_t* codes) noexcept {
  for (int i = 0; i < n; ++i) {
    codes[i] = q[i] & 15;
    codes[i + n] = q[i] >> 4;
  }
}

void fifth_bits(uint32_t high, uint8_t* codes) noexcept {
  for (int i = 0; i < 32; ++i) codes[i] = uint8_t(codes[i] | ((high >> i) & 1) << 4);
}

// ---- the readers: layouts as src/tensor/dequantize*.cc documents them --------------------------------------------------------------
void q4_0(const uint8_t* b, UnitRow& u) noexcept {
  u.halves[0] = u16(b);
  nibbles(b + 2, 16, u.codes);
}

void q4_1(const uint8_t* b, UnitRow& u) noexcept {
  u.halves[0] = u16(b);
  u.halves[1] = u16(b + 2);
  nibbles(b + 4, 16, u.codes);
}

void q5_0(const uint8_t* b, UnitRow& u) noexcept {
  u.halves[0] = u16(b);
  nibbles(b + 6, 16, u.codes);
  fifth_bits(u32(b + 2), u.codes);
}

void q5_1(const uint8_t* b, UnitRow& u) noexcept {
  u.halves[0] = u16(b);
  u.halves[1] = u16(b + 2);
  nibbles(b + 8, 16, u.codes);
  fifth_bits(u32(b + 4), u.codes);
}

void q8_0(const uint8_t* b, UnitRow& u) noexcept {
  u.halves[0] = u16(b);
  for (int i = 0; i < 32; ++i) u.codes[i] = b[2 + i] ^ 0x80;
}

// Two bits an element: 32 bytes hold four runs of 32.
void two_bits(const uint8_t* q, uint8_t* codes) noexcept {
  for (int g = 0; g < 8; ++g)
    for (int i = 0; i < 32; ++i) codes[32 * g + i] = (q[32 * (g / 4) + i] >> (2 * (g % 4))) & 3;
}

// Nibble runs of 32, two to 32 bytes.
void nibble_runs(const uint8_t* q, uint8_t* codes) noexcept {
  for (int g = 0; g < 4; ++g) nibbles(q + 32 * g, 32, codes + 64 * g);
}

// Bit g of byte i belongs to element 32 * g + i.
void bit_runs(const uint8_t* high, int to, uint8_t* codes) noexcept {
  for (int g = 0; g < 8; ++g)
    for (int i = 0; i < 32; ++i) codes[32 * g + i] = uint8_t(codes[32 * g + i] | ((high[i] >> g) & 1) << to);
}

void q2_k(const uint8_t* b, UnitRow& u) noexcept {
  std::memcpy(u.small_a, b, 16);  // scale in the low, minimum in the high nibble
  two_bits(b + 16, u.codes);
  u.halves[0] = u16(b + 80);
  u.halves[1] = u16(b + 82);
}

void q3_k(const uint8_t* b, UnitRow& u) noexcept {
  two_bits(b + 32, u.codes);
  bit_runs(b, 2, u.codes);
  const uint8_t* s = b + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4, high = (s[8 + g % 4] >> (2 * (g / 4))) & 3;
    u.small_a[g] = uint8_t((low | high << 4) - 32);
  }
  u.halves[0] = u16(b + 108);
}

void k_scales_mins(const uint8_t* s, UnitRow& u) noexcept {
  for (int g = 0; g < 4; ++g) {
    u.small_a[g] = s[g] & 63;
    u.small_b[g] = s[g + 4] & 63;
    u.small_a[g + 4] = uint8_t((s[g + 8] & 15) | (s[g] >> 6) << 4);
    u.small_b[g + 4] = uint8_t((s[g + 8] >> 4) | (s[g + 4] >> 6) << 4);
  }
}

void q4_k(const uint8_t* b, UnitRow& u) noexcept {
  u.halves[0] = u16(b);
  u.halves[1] = u16(b + 2);
  k_scales_mins(b + 4, u);
  nibble_runs(b + 16, u.codes);
}

void q5_k(const uint8_t* b, UnitRow& u) noexcept {
  u.halves[0] = u16(b);
  u.halves[1] = u16(b + 2);
  k_scales_mins(b + 4, u);
  nibble_runs(b + 48, u.codes);
  bit_runs(b + 16, 4, u.codes);
}

void q6_k(const uint8_t* b, UnitRow& u) noexcept {
  for (int run = 0; run < 8; ++run) {
    const int half = run / 4, r = run % 4;
    const uint8_t *low = b + 64 * half + 32 * (r % 2), *high = b + 128 + 32 * half;
    for (int i = 0; i < 32; ++i) u.codes[32 * run + i] = uint8_t(((low[i] >> (4 * (r / 2))) & 15) | ((high[i] >> (2 * r)) & 3) << 4);
  }
  std::memcpy(u.small_a, b + 192, 16);
  u.halves[0] = u16(b + 208);
}

void iq4_nl(const uint8_t* b, UnitRow& u) noexcept { q4_0(b, u); }

void iq4_xs(const uint8_t* b, UnitRow& u) noexcept {
  const uint16_t high = u16(b + 2);
  u.halves[0] = u16(b);
  for (int g = 0; g < 8; ++g) {
    u.small_a[g] = uint8_t((((b[4 + g / 2] >> (4 * (g % 2))) & 15) | ((high >> (2 * g)) & 3) << 4) - 32);
    nibbles(b + 8 + 16 * g, 16, u.codes + 32 * g);
  }
}

void mxfp4(const uint8_t* b, UnitRow& u) noexcept {
  u.small_a[0] = b[0];
  nibbles(b + 1, 16, u.codes);
}

// In the scales 0x7f counts as 0 and the sign bit is not used.
void nvfp4(const uint8_t* b, UnitRow& u) noexcept {
  for (int g = 0; g < 4; ++g) {
    u.small_a[g] = b[g] == 0x7f ? 0 : b[g] & 0x7f;
    nibbles(b + 4 + 8 * g, 8, u.codes + 16 * g);
  }
}

// {f32 d; u8 zero; u8 q[16]}
void i4_g32(const uint8_t* b, UnitRow& u) noexcept {
  std::memcpy(u.floats, b, 4);
  u.small_a[0] = b[4];
  nibbles(b + 5, 16, u.codes);
}
void i4_g128(const uint8_t* b, UnitRow& u) noexcept {
  i4_g32(b, u);
  for (int i = 1; i < 4; ++i) nibbles(b + 21 * i + 5, 16, u.codes + 32 * i);
}
// {f32 d[2]; i8 q[32]}, four of them with one scale
void i8_g128(const uint8_t* b, UnitRow& u) noexcept {
  std::memcpy(u.floats, b, 4);
  for (int i = 0; i < 128; ++i) u.codes[i] = b[i / 32 * 40 + 8 + i % 32] ^ 0x80;
}
// {f32 d[2]; u8 q[16]}
void e2m1_g16(const uint8_t* b, UnitRow& u) noexcept {
  std::memcpy(u.floats, b, 8);
  nibbles(b + 8, 16, u.codes);
}

struct Reader {
  Pack pack;
  ReadUnit read;
};
constexpr Reader kReaders[] = {
    {Pack::q4_0, q4_0}, {Pack::q4_1, q4_1}, {Pack::q5_0, q5_0}, {Pack::q5_1, q5_1}, {Pack::q8_0, q8_0},     {Pack::q2_k, q2_k},     {Pack::q3_k, q3_k},
    {Pack::q4_k, q4_k}, {Pack::q5_k, q5_k}, {Pack::q6_k, q6_k}, {Pack::iq4_nl, iq4_nl}, {Pack::iq4_xs, iq4_xs}, {Pack::mxfp4, mxfp4}, {Pack::nvfp4, nvfp4},
    {Pack::i4g32, i4_g32}, {Pack::i4g128, i4_g128}, {Pack::i8g128, i8_g128}, {Pack::e2m1g16, e2m1_g16},
};

// ---- writing ----------------------------------------------------------------------------------------------------------------------
// A plane of Width bits from bit From of the codes of one block. The sizes are constants: packing is a good part of the time to the first token.
template <int Width, int From>
void write_plane(std::span<const UnitRow, kLanes> rows, int block, std::byte* plane) noexcept {
  constexpr uint32_t kMask = 0x01010101u * ((1u << Width) - 1);
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint8_t* codes = rows[size_t(lane)].codes + block * kBlock;
    for (int line = 0; line < Width; ++line) {
      uint32_t word = 0;
      for (int g = line, shift = 0; g < kGroups; g += Width, shift += Width) word |= ((u32(codes + 4 * g) >> From) & kMask) << shift;
      std::memcpy(plane + 64 * line + 4 * lane, &word, 4);
    }
  }
}

struct Plane {
  int width, from;
  void (*write)(std::span<const UnitRow, kLanes> rows, int block, std::byte* plane) noexcept;
};
constexpr Plane kPlanes[] = {{8, 0, write_plane<8, 0>}, {4, 0, write_plane<4, 0>}, {2, 0, write_plane<2, 0>},
                             {1, 2, write_plane<1, 2>}, {1, 4, write_plane<1, 4>}, {2, 4, write_plane<2, 4>}};

void write_plane(std::span<const UnitRow, kLanes> rows, int block, int width, int from, std::byte* plane) noexcept {
  for (const Plane& p : kPlanes)
    if (p.width == width && p.from == from) return p.write(rows, block, plane);
  ISO_CHECK(false);  // a pack whose planes are not listed above
}

// Field i of every lane, side by side.
template <class T, class Get>
void write_fields(int count, std::byte* to, Get&& get) noexcept {
  for (int i = 0; i < count; ++i)
    for (int lane = 0; lane < kLanes; ++lane, to += sizeof(T)) {
      const T v = get(lane, i);
      std::memcpy(to, &v, sizeof v);
    }
}

bool grid16(const float* v, uint8_t* codes, float& scale) noexcept {
  float top = 0;
  for (int i = 0; i < 16; ++i) {
    if (!std::isfinite(v[i])) return false;
    top = std::max(top, std::fabs(v[i]));
  }
  scale = 0;
  std::memset(codes, 128, 16);
  if (top == 0) return true;
  for (int c = 1; c <= 127; ++c) {
    scale = top / float(c);
    int i = 0;
    for (; i < 16; ++i) {
      const float q = std::nearbyint(v[i] / scale);
      if (!(std::fabs(q) <= 127) || q * scale != v[i]) break;
      codes[i] = uint8_t(int(q) + 128);
    }
    if (i == 16) return true;
  }
  return false;
}

}  // namespace

ReadUnit unit_reader(Pack p) noexcept {
  for (const Reader& r : kReaders)
    if (r.pack == p) return r.read;
  return nullptr;
}

void write_unit(const PackRow& p, std::span<const UnitRow, kLanes> rows, std::byte* unit) noexcept {
  for (int b = 0; b < p.blocks; ++b) {
    std::byte* block = unit + p.blocks_at() + b * p.block_bytes();
    write_plane(rows, b, p.low, 0, block);
    if (p.high) write_plane(rows, b, p.high, p.low, block + 64 * p.low);
  }
  const auto row = [&](int lane) -> const UnitRow& { return rows[size_t(lane)]; };
  write_fields<uint8_t>(p.small_a, unit + p.small_a_at(), [&](int lane, int i) { return row(lane).small_a[i]; });
  write_fields<uint8_t>(p.small_b, unit + p.small_b_at(), [&](int lane, int i) { return row(lane).small_b[i]; });
  write_fields<uint16_t>(p.halves, unit + p.halves_at(), [&](int lane, int i) { return row(lane).halves[i]; });
  write_fields<float>(p.floats, unit, [&](int lane, int i) { return row(lane).floats[i]; });
}

std::optional<float> read_f8_scale(const uint8_t* b) noexcept {
  float d;
  std::memcpy(&d, b, 4);
  if (!(std::fabs(d) < 128.0f)) return {};
  for (int i = 4; i < 36; ++i)
    if ((b[i] & 0x7f) == 0x7f) return {};
  return d * 0x1p120f;
}

void read_i8_g16(const uint8_t* b, UnitRow& u) noexcept {
  std::memcpy(u.floats, b, sizeof u.floats);
  for (int i = 0; i < 32; ++i) u.codes[i] = uint8_t(b[8 + i] ^ 0x80);
}

bool to_i8g16(std::span<const float, 32> values, UnitRow& to) noexcept {
  return grid16(values.data(), to.codes, to.floats[0]) && grid16(values.data() + 16, to.codes + 16, to.floats[1]);
}

}  // namespace isotope::ops
