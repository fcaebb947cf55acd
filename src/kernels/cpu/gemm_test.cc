// The weight kernels by themselves: they read and write nothing outside what they are given. (What they compute is tested in src/ops/cpu/linear_test.cc.)
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "kernels/cpu/pick.h"

namespace isotope::kernels::cpu {
namespace {

/// Memory that ends where the next byte may not be touched, and, with `at_start`, begins where the last one may not.
class Guarded {
 public:
  explicit Guarded(size_t bytes, bool at_start = false) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    size_ = (bytes + page - 1) / page * page + 2 * page;
    map_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (map_ == MAP_FAILED) std::abort();
    mprotect(map_, page, PROT_NONE);
    mprotect(map_ + size_ - page, page, PROT_NONE);
    data_ = at_start ? map_ + page : map_ + size_ - page - bytes;
  }
  ~Guarded() { munmap(map_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  template <class T = std::byte>
  T* get() const { return reinterpret_cast<T*>(data_); }

 private:
  std::byte *map_, *data_;
  size_t size_;
};

struct Shape {
  int64_t m, n, k;
};

void run(const KernelTable& t, const PackRow& p, Shape s, bool at_start) {
  const size_t tile_bytes = p.tile_bytes(s.k), tiles = size_t(s.n + p.rows() - 1) / size_t(p.rows());
  Guarded weights(tiles * tile_bytes, at_start), x(size_t(s.m * s.k) * 4, at_start), quantized(quantized_bytes(s.m, s.k), at_start);
  Guarded out(size_t(s.m * s.n) * 4, at_start), bias(size_t(s.n) * 4, at_start), row(size_t(s.k) * 4, at_start);
  std::memset(weights.get(), 0x11, tiles * tile_bytes);
  for (int64_t i = 0; i < s.m * s.k; ++i) x.get<float>()[i] = float(i % 7) - 3.0f;
  const Panels panels = t.gemm.panels(s.m);
  for (int64_t i = 0; i < panels.count(); ++i)
    t.gemm.quantize_panel(x.get<float>() + panels[i].first * s.k, s.k, panels[i].rows, s.k,
                          quantized.get() + size_t(panels[i].first) * quantized_bytes(1, s.k));
  t.gemm.gemm[size_t(p.pack)]({.tiles = weights.get(),
                               .tile_bytes = tile_bytes,
                               .n = s.n,
                               .k = s.k,
                               .m = s.m,
                               .quantized = quantized.get(),
                               .x = x.get<float>(),
                               .x_stride = s.k,
                               .out = out.get<float>(),
                               .out_stride = s.n,
                               .bias = bias.get<float>()});
  for (int64_t n = 0; n < s.n; ++n)
    t.gemm.decode_row[size_t(p.pack)](weights.get() + size_t(n / p.rows()) * tile_bytes, int(n % p.rows()), s.k, row.get<float>());
}

TEST(Gemm, StaysInsideItsMemory) {
  for (const IsaState& isa : isa_candidates()) {
    if (!isa.runnable) continue;
    for (const PackRow& p : kPacks)
      for (const int64_t m : {1, 2, 7, 16, 27})
        for (const int64_t n : {1, 16, 39, 100})
          for (const bool at_start : {false, true}) {
            SCOPED_TRACE(std::string(isa.isa) + " " + p.name + " m " + std::to_string(m) + " n " + std::to_string(n));
            const int64_t k = p.blocks ? 3 * p.unit_k() : 37;
            run(*isa.table, p, {m, n, k}, at_start);
          }
  }
}

TEST(Gemm, PanelsCoverTheRowsOnce) {
  for (const auto& [full, small] : {std::pair{16, 8}, {6, 6}, {1, 1}, {4, 2}})
    for (int64_t m = 0; m < 70; ++m) {
      const Panels panels{m, full, small};
      int64_t next = 0;
      for (int64_t i = 0; i < panels.count(); ++i) {
        const Panel p = panels[i];
        EXPECT_EQ(p.first, next);
        EXPECT_TRUE(p.rows == full || (p.rows >= 1 && p.rows <= std::max(small, full - small)));
        next += p.rows;
      }
      EXPECT_EQ(next, m) << full << " " << small;
    }
}

// Every height of a panel that Panels can make must have a kernel: 1 .. small, and full.
TEST(Gemm, PanelHeightsHaveKernels) {
  for (const IsaState& isa : isa_candidates()) {
    const GemmKernels& g = isa.table->gemm;
    for (int64_t m = 1; m < 3 * g.panel_rows; ++m)
      for (int64_t i = 0; i < g.panels(m).count(); ++i) {
        const int rows = g.panels(m)[i].rows;
        EXPECT_TRUE(rows == g.panel_rows || rows <= g.small_panel_rows) << isa.isa << " " << m;
      }
  }
}

// Panels of any height and instruction set hold for a row what the portable kernels hold for it alone, also where a block is zero, tiny or not finite.
TEST(Gemm, QuantizedRowsAreTheSameInEveryPanel) {
  const GemmKernels& plain = isa_candidates().back().table->gemm;
  constexpr int64_t k = 5 * kBlock + 9, stride = k + 3, blocks = 6;
  constexpr float kOdd[] = {0.0f, -0.0f, 1e-38f, 0x1p-101f, 3e38f, __builtin_inff(), -__builtin_inff(), __builtin_nanf("")};
  std::mt19937 rng(4);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<float> x(16 * size_t(stride));
    for (float& v : x) v = float(int32_t(rng())) * 0x1p-31f;
    for (int i = 0; i < trial; ++i) {  // whole blocks of zero, and single odd values
      const size_t r = rng() % 16, b = rng() % blocks, first = r * size_t(stride) + b * kBlock;
      if (i % 2) std::fill_n(x.begin() + int64_t(first), b + 1 < size_t(blocks) ? kBlock : 9, 0.0f);
      x[first + rng() % 9] = kOdd[rng() % std::size(kOdd)];
    }
    for (const IsaState& isa : isa_candidates()) {
      if (!isa.runnable) continue;
      const int h = isa.table->gemm.panel_rows;
      std::vector<std::byte> panel(quantized_bytes(h, k)), row(quantized_bytes(1, k));
      isa.table->gemm.quantize_panel(x.data(), stride, h, k, panel.data());
      for (int r = 0; r < h; ++r) {
        plain.quantize_panel(x.data() + r * stride, stride, 1, k, row.data());
        for (int64_t b = 0; b < blocks; ++b) {
          const std::byte *whole = panel.data() + size_t(b * h) * kRecordBytes, *alone = row.data() + size_t(b) * kRecordBytes;
          ASSERT_EQ(std::memcmp(whole + r * kBlock, alone, kBlock), 0) << isa.isa << " trial " << trial << " row " << r << " block " << b;
          for (int f = 0; f < 5; ++f)
            ASSERT_EQ(std::memcmp(whole + h * kBlock + 4 * (h * f + r), alone + kBlock + 4 * f, 4), 0) << isa.isa << " row " << r << " block " << b << " field " << f;
        }
      }
    }
  }
}

TEST(Gemm, UnitsAreWholeAndAligned) {
  for (const PackRow& p : kPacks) {
    EXPECT_EQ(p.unit_bytes() % 16, 0) << p.name;
    EXPECT_EQ(p.tile_bytes(p.unit_k() * 5) % 64, 0u) << p.name;
    EXPECT_GE(p.tile_bytes(p.unit_k() * 5), size_t(5 * p.unit_bytes())) << p.name;
  }
}

}  // namespace
}  // namespace isotope::kernels::cpu
