// See limits.h. Included by all.inl only.
#include "kernels/cpu/limits.h"
#include "kernels/cpu/simd.h"

namespace isotope::kernels::cpu {
namespace {

int64_t int8_dots(int64_t rounds, int32_t* sink) noexcept {
  constexpr int kChains = 10;  // enough to cover the latency of one chain on every core so far; more would spill AVX2's registers
  alignas(64) uint8_t codes[kChains * 64];
  int8_t a[4] = {1, -2, 3, -4};
  for (int i = 0; i < kChains * 64; ++i) codes[i] = uint8_t(i & 63);
  Dot<7> d[kChains];
  for (Dot<7>& x : d) x = Dot<7>::plain();
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+m"(codes));  // they may have changed: no product can be taken out of the loop
    for (int c = 0; c < kChains; ++c) d[c].add(load64(codes + 64 * c), a);
  }
  i32x16 s = zero_i32();
  for (const Dot<7>& x : d) s += x.result();
  store(sink, s);
  return rounds * kChains * 64 * 2;
}

uint64_t read_all(const void* data, size_t n) noexcept {
  const uint8_t* p = static_cast<const uint8_t*>(data);
  u8x64 s0 = load64(p), s1 = s0, s2 = s0, s3 = s0;
  for (size_t i = 0; i + 256 <= n; i += 256) {
    s0 = s0 | load64(p + i), s1 = s1 | load64(p + i + 64), s2 = s2 | load64(p + i + 128), s3 = s3 | load64(p + i + 192);
  }
  uint8_t out[64];
  store64(out, s0 | s1 | s2 | s3);
  uint64_t sum = 0;
  for (uint8_t b : out) sum += b;
  return sum;
}

constexpr LimitKernels kLimits = {int8_dots, read_all};

}  // namespace
}  // namespace isotope::kernels::cpu
