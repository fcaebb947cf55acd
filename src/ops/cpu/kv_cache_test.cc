#include "ops/cpu/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "kernels/cpu/pick.h"

namespace isotope::ops {
namespace {

using testing::HasSubstr;

constexpr KvType kTypes[] = {KvType::f32, KvType::f16, KvType::bf16, KvType::int8, KvType::fp8};

TEST(KvCache, BlocksArePerGroupAndAligned) {
  const KvLayerSpec layers[] = {{0, 3, 64}, {1, 1, 72}, {0, 3, 64}};
  const int64_t blocks[] = {5, 2};
  for (KvType t : kTypes) {
    for (int size : {16, 32, 128}) {
      auto made = CpuKvCache::make(layers, blocks, size, t);
      ASSERT_TRUE(made) << made.error().message();
      CpuKvCache& kv = **made;
      size_t total = 0;
      for (int l = 0; l < 3; ++l) {
        const int64_t n = blocks[layers[l].group];
        for (int32_t b = 0; b < n; ++b) {
          const auto bytes = kv.block_bytes(l, b);
          total += bytes.size();
          EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u);
          const auto tile = kv.tile(l, b, layers[l].kv_heads - 1, size / 16 - 1);
          auto inside = [&](const void* p) { return p >= bytes.data() && p < bytes.data() + bytes.size(); };
          EXPECT_TRUE(inside(tile.k) && inside(tile.v));
          EXPECT_EQ(tile.k_scale != nullptr, t == KvType::int8 || t == KvType::fp8);
          if (tile.v_scale) EXPECT_TRUE(inside(tile.k_scale) && inside(tile.v_scale + 15));
        }
      }
      EXPECT_EQ(total, kv.bytes);
    }
  }
}

/// What write() stored, read back as the layout says.
float stored(const kernels::cpu::KvTile& tile, KvType type, bool key, int t, int j, int d) {
  const int s = type == KvType::bf16 ? 2 : 1, dp = kernels::cpu::padded_dim(d);
  const int at = key ? j / s * 16 * s + t * s + j % s : t / s * dp * s + j * s + t % s;
  const void* p = key ? tile.k : tile.v;
  const float* scale = key ? tile.k_scale : tile.v_scale;
  switch (type) {
    case KvType::f32: return static_cast<const float*>(p)[at];
    case KvType::f16: return tensor::f16_to_f32(static_cast<const uint16_t*>(p)[at]);
    case KvType::bf16: return tensor::bf16_to_f32(static_cast<const uint16_t*>(p)[at]);
    case KvType::int8: return float(static_cast<const int8_t*>(p)[at]) * scale[t];
    case KvType::fp8: {
      const uint8_t c = static_cast<const uint8_t*>(p)[at];
      const int e = c >> 3 & 15, m = c & 7;
      const float a = e ? std::ldexp(float(8 + m), e - 10) : std::ldexp(float(m), -9);
      return (c & 128 ? -a : a) * scale[t];
    }
  }
  return NAN;
}

TEST(KvCache, EveryTypeStoresWithinItsPrecision) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  for (const auto& isa : kernels::cpu::isa_candidates()) {
    if (!isa.runnable) continue;
    for (KvType type : kTypes) {
      for (int d : {8, 16, 24, 64, 80, 512}) {
        const KvLayerSpec layers[] = {{0, 1, d}};
        const int64_t blocks[] = {1};
        auto kv = *CpuKvCache::make(layers, blocks, 16, type);
        const auto tile = kv->tile(0, 0, 0, 0);
        for (int t : {0, 7, 15}) {
          std::vector<float> k(static_cast<size_t>(d)), v(k.size());
          for (float& x : k) x = normal(rng) * (t == 7 ? 1e-3f : 1.0f);
          for (float& x : v) x = normal(rng);
          k[1] = 0;
          isa.table->attention.write[int(type)](tile, t, k.data(), v.data(), d);
          float amax[2] = {};
          for (int j = 0; j < d; ++j) amax[0] = std::max(amax[0], std::abs(k[size_t(j)])), amax[1] = std::max(amax[1], std::abs(v[size_t(j)]));
          for (int key = 0; key < 2; ++key) {
            for (int j = 0; j < d; ++j) {
              const float x = (key ? k : v)[size_t(j)], top = amax[key ? 0 : 1];
              const double allowed[] = {0, std::abs(x) * 4.9e-4 + 3e-8, std::abs(x) * 3.91e-3, top / 253, std::abs(x) / 15.9 + top / 448 / 1000};
              ASSERT_NEAR(stored(tile, type, key, t, j, d), x, allowed[int(type)]) << isa.isa << " type " << int(type) << " d=" << d << " j=" << j;
            }
          }
        }
      }
    }
  }
}

TEST(KvCache, Fp8RoundsToTheNearestCode) {
  std::vector<float> codes;
  for (int c = 0; c < 127; ++c) codes.push_back(c >> 3 ? std::ldexp(float(8 + (c & 7)), (c >> 3) - 10) : std::ldexp(float(c & 7), -9));
  const KvLayerSpec layers[] = {{0, 1, 16}};
  const int64_t blocks[] = {1};
  auto kv = *CpuKvCache::make(layers, blocks, 16, KvType::fp8);
  const auto tile = kv->tile(0, 0, 0, 0);
  for (size_t i = 0; i + 1 < codes.size(); ++i) {
    const float a = codes[i], b = codes[i + 1], mid = (a + b) / 2;  // exact in float32
    std::vector<float> x(16, 0.0f);
    x[0] = 448;  // makes the scale 1
    x[1] = a, x[2] = mid, x[3] = std::nextafter(mid, 0.0f), x[4] = -std::nextafter(mid, 1e9f), x[5] = -b;
    for (const auto& isa : kernels::cpu::isa_candidates()) {
      if (!isa.runnable) continue;
      isa.table->attention.write[int(KvType::fp8)](tile, 3, x.data(), x.data(), 16);
      const auto* got = static_cast<const uint8_t*>(tile.v) + 3 * 16;
      EXPECT_EQ(got[0], 126);
      EXPECT_EQ(got[1], i);
      EXPECT_EQ(got[2], i % 2 == 0 ? i : i + 1) << "ties go to even";
      EXPECT_EQ(got[3], i);
      EXPECT_EQ(got[4], 128 + i + 1);
      EXPECT_EQ(got[5], 128 + i + 1);
    }
  }
}

TEST(KvCache, StrangeValuesStayValidCodes) {
  const float strange[] = {NAN, INFINITY, -INFINITY, 1e-45f, -1e-42f, 3.4e38f, 0.0f, -0.0f, 1, 2, 3, 4, 5, 6, 7, 8};
  const KvLayerSpec layers[] = {{0, 1, 16}};
  const int64_t blocks[] = {1};
  for (KvType type : kTypes) {
    auto kv = *CpuKvCache::make(layers, blocks, 16, type);
    std::vector<std::byte> first;
    for (const auto& isa : kernels::cpu::isa_candidates()) {
      if (!isa.runnable) continue;
      isa.table->attention.write[int(type)](kv->tile(0, 0, 0, 0), 0, strange, strange, 16);
      const auto now = kv->block_bytes(0, 0);
      if (first.empty()) first.assign(now.begin(), now.end());
      EXPECT_EQ(0, std::memcmp(first.data(), now.data(), now.size())) << isa.isa << " type " << int(type);
    }
  }
}

TEST(KvCache, CopyBlockCopiesAllLayersOfTheGroupOnly) {
  const KvLayerSpec layers[] = {{0, 2, 16}, {1, 2, 16}, {0, 1, 8}};
  const int64_t blocks[] = {4, 4};
  auto kv = *CpuKvCache::make(layers, blocks, 16, KvType::bf16);
  for (int l = 0; l < 3; ++l) {
    for (int32_t b = 0; b < 4; ++b) std::memset(kv->block_bytes(l, b).data(), 16 * l + b + 1, kv->block_bytes(l, b).size());
  }
  kv->copy_block(0, 1, 3);
  for (int l = 0; l < 3; ++l) {
    for (int32_t b = 0; b < 4; ++b) {
      const int from = layers[l].group == 0 && b == 3 ? 1 : b;
      for (std::byte x : kv->block_bytes(l, b)) ASSERT_EQ(x, std::byte(16 * l + from + 1)) << l << " " << b;
    }
  }
}

size_t resident_pages() {
  std::ifstream in("/proc/self/statm");
  size_t size = 0, resident = 0;
  in >> size >> resident;
  return resident;
}

TEST(KvCache, UntouchedBlocksTakeNoMemory) {
  const KvLayerSpec layers[] = {{0, 8, 128}};
  const int64_t blocks[] = {1 << 16};  // 4 GiB
  const size_t before = resident_pages();
  auto kv = *CpuKvCache::make(layers, blocks, 16, KvType::bf16);
  EXPECT_EQ(kv->bytes, size_t{4} << 30);
  EXPECT_LT(resident_pages() - before, 256u);
  std::memset(kv->block_bytes(0, 7).data(), 1, kv->block_bytes(0, 7).size());
  EXPECT_LT(resident_pages() - before, 512u);
}

/// What is kept beside keys and values counts in the group's blocks and is copied with them.
TEST(KvCache, EveryFormIsCountedAndCopied) {
  const KvLayerSpec layers[] = {{0, 1, 40},
                                {.group = 0, .kv_heads = 1, .head_dim = 16, .form = KvForm::keys},
                                {.group = 0, .kv_heads = 1, .head_dim = 24, .form = KvForm::rows, .every = 4},
                                {.group = 0, .kv_heads = 1, .head_dim = 24, .form = KvForm::rows, .every = 128},
                                {.group = 0, .head_dim = 7, .form = KvForm::floats}};
  const int64_t blocks[] = {3};
  for (KvType t : kTypes) {
    for (int size : {16, 64}) {
      auto kv = *CpuKvCache::make(layers, blocks, size, t);
      size_t sum = 0;
      for (int l = 0; l < 5; ++l) sum += CpuKvCache::sizes(layers[l], size, t).block;
      EXPECT_EQ(kv->bytes, 3 * sum);
      const size_t element = size_t(kernels::cpu::kKvBytes[int(t)]);
      EXPECT_LT(kv->block_bytes(1, 0).size(), CpuKvCache::sizes({0, 1, 16}, size, t).block) << "no values";
      EXPECT_EQ(kv->block_bytes(2, 0).size() / 64, (size_t(size / 4) * (32 * element + (kernels::cpu::kKvScaled[int(t)] ? 4 : 0)) + 63) / 64);
      EXPECT_LE(kv->block_bytes(3, 0).size(), 192u) << "one entry";
      EXPECT_EQ(kv->block_bytes(4, 0).size() / 64, (size_t(size) * 7 * 4 + 63) / 64);
      const auto inside = [&](int l, const void* p) {
        const auto bytes = kv->block_bytes(l, 2);
        return p >= bytes.data() && p < bytes.data() + bytes.size();
      };
      EXPECT_TRUE(inside(2, static_cast<std::byte*>(kv->row(2, 2, size - 1).data) + 24 * element - 1));
      EXPECT_NE(kv->row(2, 2, 3).data, kv->row(2, 2, 7).data);
      EXPECT_EQ(kv->row(2, 2, 4).data, kv->row(2, 2, 7).data);
      EXPECT_TRUE(inside(4, kv->numbers(4, 2, size - 1) + 6));
      if (kernels::cpu::kKvScaled[int(t)]) EXPECT_TRUE(inside(2, kv->row(2, 2, size - 1).scale) && inside(1, kv->tile(1, 2, 0, size / 16 - 1).k_scale + 15));
      for (int l = 0; l < 5; ++l) std::memset(kv->block_bytes(l, 0).data(), 7 + l, kv->block_bytes(l, 0).size());
      kv->copy_block(0, 0, 1);
      for (int l = 0; l < 5; ++l) EXPECT_EQ(std::memcmp(kv->block_bytes(l, 0).data(), kv->block_bytes(l, 1).data(), kv->block_bytes(l, 0).size()), 0) << l;
    }
  }
}

TEST(KvCache, ValuesThatAreKeysTakeNoRoom) {
  for (const auto& [type, bytes] : {std::pair{KvType::f32, 576 * 4}, {KvType::bf16, 576 * 2}, {KvType::fp8, 576 + 4}}) {
    const KvLayerSpec layer{.kv_heads = 1, .head_dim = 576, .value_dim = 512};
    const int64_t blocks[] = {3};
    auto kv = *CpuKvCache::make({&layer, 1}, blocks, 16, type);
    EXPECT_EQ(kv->block_bytes(0, 0).size(), size_t(16 * bytes));
    EXPECT_EQ(kv->tile(0, 2, 0, 0).v, nullptr);
    EXPECT_EQ(kv->tile(0, 2, 0, 0).v_scale, kv->tile(0, 2, 0, 0).k_scale);
  }
}

TEST(KvCache, ImpossibleWishesNameTheValue) {
  struct {
    KvLayerSpec layer;
    int64_t blocks;
    int block_size;
    const char* says;
  } cases[] = {{{0, 1, 64}, 1, 8, "block size 8"},          {{0, 1, 64}, 1, 24, "block size 24"},  {{0, 1, 64}, 1, 0, "block size 0"},
               {{0, 1, 12}, 1, 16, "head size 12"},         {{0, 1, 584}, 1, 16, "head size 584"}, {{0, 0, 64}, 1, 16, "0 kv heads"},
               {{1, 1, 64}, 1, 16, "KV group 1"},           {{-1, 1, 64}, 1, 16, "KV group -1"},   {{0, 1, 64}, -1, 16, "-1 KV blocks"},
               {{0, 1, 64}, int64_t{1} << 62, 16, "blocks"},
               {{.kv_heads = 2, .head_dim = 64, .form = KvForm::rows}, 1, 16, "2 heads"},
               {{.kv_heads = 1, .head_dim = 64, .form = KvForm::rows, .every = 3}, 1, 16, "3 tokens"},
               {{.head_dim = 0, .form = KvForm::floats}, 1, 16, "0 numbers"},
               {{.kv_heads = 1, .head_dim = 64, .value_dim = 66}, 1, 16, "last 66 of 64"}, {{.kv_heads = 1, .head_dim = 64, .value_dim = 31}, 1, 16, "last 31 of 64"}};
  for (const auto& c : cases) {
    const int64_t blocks[] = {c.blocks};
    const auto made = CpuKvCache::make({&c.layer, 1}, blocks, c.block_size, KvType::f32);
    ASSERT_FALSE(made) << c.says;
    EXPECT_THAT(made.error().message(), HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace isotope::ops
