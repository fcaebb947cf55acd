#include "kernels/cpu/amx.h"

#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace isotope::kernels::cpu {

#if defined(__x86_64__)
const KernelTable& amx_table() {
  static const KernelTable table = [] {
    KernelTable t = table_avx512_bf16;
    t.isa = "avx512_amx";
    for (size_t p = 0; p < size_t(Pack::count_); ++p)
      if (gemms_avx512_amx.gemm[p]) t.gemm.gemm[p] = gemms_avx512_amx.gemm[p];
    return t;
  }();
  return table;
}

bool amx_in_cpu() {
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTile) && (d & kInt8);
}

bool amx_permitted() {
#if defined(__linux__)
  constexpr unsigned kOsxsave = 1u << 27, kTileState = 3u << 17;  // XTILECFG and XTILEDATA of XCR0
  constexpr long kRequestPermission = 0x1023, kTileData = 18;     // ARCH_REQ_XCOMP_PERM
  unsigned a, b, c, d;
  if (!amx_in_cpu() || !__get_cpuid(1, &a, &b, &c, &d) || !(c & kOsxsave)) return false;
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileState) == kTileState && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool amx_works() {
  static const bool works = amx_permitted() && same_products(amx_table(), table_avx512_bf16);
  return works;
}
#endif

namespace {

/// Bytes that any pack can be made of: halves and floats in it are small normal numbers. (Inlined, GCC 12 warns of what is not there.)
[[gnu::noinline]] std::vector<std::byte> sample(size_t bytes, uint32_t seed) {
  std::vector<std::byte> v(bytes);
  for (std::byte& b : v) b = std::byte(((seed = seed * 1664525u + 1013904223u) >> 24) & 0x37);
  return v;
}

std::vector<float> product(const KernelTable& t, const PackRow& p, int64_t m, bool gated) {
  constexpr int64_t n = 40, k = 256;
  const size_t tile_bytes = p.tile_bytes(k), tiles = size_t((n + kLanes - 1) / kLanes);
  const auto weight = sample(tiles * tile_bytes, 1), up = sample(tiles * tile_bytes, 2);
  std::vector<float> x(size_t(m * k)), out(size_t(m * n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(int(i * 37 % 101) - 50) * 0.01f;
  std::vector<std::byte> quantized(quantized_bytes(m, k));
  const Panels panels = t.gemm.panels(m);
  for (int64_t i = 0; i < panels.count(); ++i)
    t.gemm.quantize_panel(x.data() + panels[i].first * k, k, panels[i].rows, k, quantized.data() + size_t(panels[i].first) * quantized_bytes(1, k));
  t.gemm.gemm[size_t(p.pack)]({.tiles = weight.data(), .tile_bytes = tile_bytes, .n = n, .k = k, .m = m, .quantized = quantized.data(), .out = out.data(),
                               .out_stride = n, .up_tiles = gated ? up.data() : nullptr});
  return out;
}

}  // namespace

bool same_products(const KernelTable& a, const KernelTable& b) {
  for (const PackRow& p : kPacks) {
    if (!p.integer()) continue;
    for (const int64_t m : {16, 35})
      for (const bool gated : {false, true}) {
        const auto x = product(a, p, m, gated), y = product(b, p, m, gated);
        if (std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) != 0) return false;
      }
  }
  return true;
}

}  // namespace isotope::kernels::cpu
