// The arithmetic of gemm_amx.inl over emulated tile instructions, compiled for no instruction set in particular, against the scalar table bit for bit: index
// arithmetic, shapes of the registers, halves, minima, partial tiles and the rows that are left over are what it shows on machines without tiles.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/pick.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

#include "kernels/cpu/elementwise.inl"
#include "kernels/cpu/gemm.inl"
#include "kernels/cpu/gemm_amx.inl"

namespace isotope::kernels::cpu {
namespace {

/// What the processor's manual says of LDTILECFG, TILEZERO, TILELOADD, TILESTORED and TDPBSUD, with its faults as test failures.
struct EmulatedTiles {
  inline static AmxShapes shapes;
  inline static bool configured = false;
  inline static uint8_t data[8][16][64];

  static void configure(const AmxShapes& s) {
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(s.rows[i] <= 16 && s.bytes[i] <= 64 && s.bytes[i] % 4 == 0) << "general protection fault";
    shapes = s;
    configured = true;
    std::memset(data, 0, sizeof data);
  }
  static void release() { configured = false; }
  static void use(int r) { ASSERT_TRUE(configured && shapes.rows[r] > 0 && shapes.bytes[r] > 0) << "undefined instruction fault, register " << r; }
  template <int R>
  static void zero() {
    use(R);
    std::memset(data[R], 0, sizeof data[R]);
  }
  template <int R>
  static void load(const void* p, int64_t stride) {
    zero<R>();
    for (int i = 0; i < shapes.rows[R]; ++i) std::memcpy(data[R][i], static_cast<const uint8_t*>(p) + i * stride, shapes.bytes[R]);
  }
  template <int R>
  static void store(void* p, int64_t stride) {
    use(R);
    for (int i = 0; i < shapes.rows[R]; ++i) std::memcpy(static_cast<uint8_t*>(p) + i * stride, data[R][i], shapes.bytes[R]);
  }
  template <int Sum, int Left, int Right>
  static void dot() {
    use(Sum), use(Left), use(Right);
    ASSERT_TRUE(Sum != Left && Sum != Right && Left != Right) << "undefined instruction fault";
    ASSERT_EQ(shapes.rows[Sum], shapes.rows[Left]);
    ASSERT_EQ(shapes.bytes[Sum], shapes.bytes[Right]);
    ASSERT_EQ(shapes.bytes[Left] / 4, shapes.rows[Right]);
    for (int m = 0; m < shapes.rows[Sum]; ++m)
      for (int g = 0; g < shapes.bytes[Left] / 4; ++g)
        for (int n = 0; n < shapes.bytes[Sum] / 4; ++n) {
          int32_t sum;
          std::memcpy(&sum, data[Sum][m] + 4 * n, 4);
          for (int i = 0; i < 4; ++i) sum += int32_t(int8_t(data[Left][m][4 * g + i])) * int32_t(data[Right][g][4 * n + i]);
          std::memcpy(data[Sum][m] + 4 * n, &sum, 4);
        }
  }
};

struct Shape {
  int64_t m, n, k;
};

std::vector<std::byte> weight_bytes(const PackRow& p, int64_t n, int64_t k, uint32_t seed) {
  const size_t tiles = size_t((n + kLanes - 1) / kLanes), unit = size_t(p.unit_bytes());
  std::vector<std::byte> v(tiles * p.tile_bytes(k));
  std::mt19937 rng(seed);
  for (std::byte& b : v) b = std::byte(rng());
  // Fields of a unit that are numbers: moderate ones, or nothing but infinities would be compared.
  for (size_t t = 0; t < tiles; ++t)
    for (int64_t u = 0; u < (k + p.unit_k() - 1) / p.unit_k(); ++u) {
      std::byte* const at = v.data() + t * p.tile_bytes(k) + size_t(u) * unit;
      for (int i = 0; i < p.floats * kLanes; ++i) {
        const float f = float(rng() % 1000) * 0.01f - 5.0f;
        std::memcpy(at + 4 * i, &f, 4);
      }
      for (int i = 0; i < p.halves * kLanes; ++i) {
        const uint16_t half = uint16_t((rng() & 0x8000u) | 0x2000u | (rng() & 0x0fffu));
        std::memcpy(at + p.halves_at() + 2 * i, &half, 2);
      }
      if (p.pack == Pack::mxfp4 || p.pack == Pack::nvfp4)
        for (int i = 0; i < p.small_a * kLanes; ++i) at[p.small_a_at() + i] = std::byte(p.pack == Pack::mxfp4 ? 118 + rng() % 12 : rng() % 64);
    }
  return v;
}

template <Pack P>
void compare(Shape s, bool gated, bool bias) {
  constexpr PackRow p = pack_row(P);
  SCOPED_TRACE(testing::Message() << p.name << " m " << s.m << " n " << s.n << " k " << s.k << " gated " << gated << " bias " << bias);
  const auto weight = weight_bytes(p, s.n, s.k, 1), up = weight_bytes(p, s.n, s.k, 2);
  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(size_t(s.m * s.k)), b1(size_t(s.n)), b2(size_t(s.n));
  for (auto* v : {&x, &b1, &b2})
    for (float& f : *v) f = normal(rng);
  if (s.m > 20) x[size_t(3 * s.k)] = std::numeric_limits<float>::infinity();
  const size_t row_bytes = quantized_bytes(1, s.k);
  std::vector<std::byte> alone(row_bytes * size_t(s.m)), panels(alone.size());
  for (int64_t r = 0; r < s.m; ++r) {
    const float* row = x.data() + r * s.k;
    const int64_t first = r / kAmxRows * kAmxRows;
    quantize_row(row, s.k, {alone.data() + size_t(r) * row_bytes, 1, 0});
    if (first + kAmxRows <= s.m) quantize_row(row, s.k, {panels.data() + size_t(first) * row_bytes, kAmxRows, int(r - first)});
    else quantize_row(row, s.k, {panels.data() + size_t(r) * row_bytes, 1, 0});
  }
  constexpr int64_t kGuard = 3;
  std::vector<float> want(size_t(s.m * (s.n + kGuard)), -7.0f), got = want;
  GemmArgs a{.tiles = weight.data(), .tile_bytes = p.tile_bytes(s.k), .n = s.n, .k = s.k, .m = s.m, .quantized = alone.data(), .out = want.data(),
             .out_stride = s.n + kGuard, .bias = bias ? b1.data() : nullptr, .up_tiles = gated ? up.data() : nullptr, .up_bias = bias && gated ? b2.data() : nullptr,
             .act = Act::gelu_tanh};
  table_scalar.gemm.gemm[size_t(P)](a);
  a.quantized = panels.data();
  a.out = got.data();
  gemm_amx<EmulatedTiles, P>(a);
  EXPECT_FALSE(EmulatedTiles::configured) << "tiles are released, or every switch of threads would save them";
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::memcmp(&got[i], &want[i], 4), 0) << "row " << int64_t(i) / (s.n + kGuard) << " column " << int64_t(i) % (s.n + kGuard) << ": " << got[i] << " and " << want[i];
}

template <int P>
void compare_all() {
  if constexpr (pack_row(Pack(P)).integer()) {
    const int64_t unit = pack_row(Pack(P)).unit_k();
    for (const Shape s : {Shape{16, 16, 256}, {35, 37, 512}, {5, 20, 256}, {32, 150, unit}})
      for (const bool gated : {false, true}) compare<Pack(P)>(s, gated, s.n == 37);
    if (unit == kBlock) compare<Pack(P)>({16, 19, 40}, false, true);
  }
}

TEST(GemmAmx, EmulatedTilesGiveTheScalarBits) {
  // The scalar table's panels hold one row, so the rows that are left over lie row by row.
  ASSERT_EQ(kPanelRows, 1);
  [&]<int... P>(Indices<P...>) { (compare_all<P>(), ...); }(indices<int(Pack::count_)>());
}

}  // namespace
}  // namespace isotope::kernels::cpu
