// See limits.h. Included by all.inl only.
#include "kernels/cpu/limits.h"
#include "kernels/cpu/simd.h"

namespace isotope::kernels::cpu {
namespace {

int64_t int8_dots(int64_t rounds, const uint8_t* codes, const int8_t* a, int32_t* sink) noexcept {
  // Six chains cover the latency of one and fit AVX2's registers; each block of codes serves three, because loads are not what is measured.
  using D = Dot<4>;
  int8_t mine[12];  // a copy whose address stays here, so that it lives in registers
  __builtin_memcpy(mine, a, sizeof mine);
  D d0 = D::plain(), d1 = d0, d2 = d0, d3 = d0, d4 = d0, d5 = d0;  // not an array: the compiler would keep that in memory
  for (int64_t r = 0; r < rounds; ++r) {
    for (int k = 0; k < D::kRun; ++k) {
      asm volatile("" ::: "memory");  // the codes may have changed: no product can be taken out of the loop
      const u8x64 w0 = load64(codes), w1 = load64(codes + 64);
      d0.add(w0, mine), d1.add(w0, mine + 4), d2.add(w0, mine + 8);
      d3.add(w1, mine), d4.add(w1, mine + 4), d5.add(w1, mine + 8);
    }
    d0.flush(), d1.flush(), d2.flush(), d3.flush(), d4.flush(), d5.flush();
  }
  store(sink, d0.result() + d1.result() + d2.result() + d3.result() + d4.result() + d5.result());
  return rounds * D::kRun * 6 * 64 * 2;
}

int64_t float_fmas(int64_t rounds, const float* a, float* sink) noexcept {
  const f32x16 x = set1(a[0]), y = set1(a[1]);
  f32x16 s0 = x, s1 = y, s2 = x + y, s3 = x * y, s4 = y * y, s5 = x * x;  // six chains, as above
  for (int64_t r = 0; r < rounds; ++r) {
    s0 = fma(s0, x, y), s1 = fma(s1, x, y), s2 = fma(s2, x, y);
    s3 = fma(s3, x, y), s4 = fma(s4, x, y), s5 = fma(s5, x, y);
  }
  store(sink, s0 + s1 + s2 + s3 + s4 + s5);
  return rounds * 6 * 16 * 2;
}

int64_t bf16_dots(int64_t rounds, const uint16_t* a, float* sink) noexcept {
  uint16_t values[32];
  for (int i = 0; i < 32; ++i) values[i] = a[i % 2];
  const bf16x32 x = load_pairs(values);
  PairScalar y[8];
  store_pair_scalars(y, set1(0.001f));
  f32x16 s0 = zero_f32(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
  for (int64_t r = 0; r < rounds; ++r) {
    s0 = dot2(s0, x, y), s1 = dot2(s1, x, y), s2 = dot2(s2, x, y);
    s3 = dot2(s3, x, y), s4 = dot2(s4, x, y), s5 = dot2(s5, x, y);
  }
  store(sink, s0 + s1 + s2 + s3 + s4 + s5);
  return rounds * 6 * 16 * 4;
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

constexpr LimitKernels kLimits = {int8_dots, float_fmas, bf16_dots, read_all};

}  // namespace
}  // namespace isotope::kernels::cpu
