// Activations to int8, block by block. The record layout is gemm.h's.
namespace isotope::kernels::cpu {
namespace {

// Below this no scale is kept (its inverse would overflow): the block counts as zero. Nothing a model computes is this small on purpose.
constexpr float kSmallestAmax = 0x1p-100f;

template <class T>
inline void put(std::byte* p, T v) {
  __builtin_memcpy(p, &v, sizeof v);
}

// Row r of a record for h rows. `valid` of the 32 values are read.
inline void quantize_block(const float* x, int valid, int h, int r, std::byte* record) {
  const f32x16 lo = valid >= 16 ? load(x) : load_n(x, valid);
  const f32x16 hi = valid >= 32 ? load(x + 16) : valid > 16 ? load_n(x + 16, valid - 16) : zero_f32();
  // As integers, magnitudes keep their order and NaN is above infinity.
  const int32_t top = hmax(max(f32_to_bits(abs(lo)), f32_to_bits(abs(hi))));
  float amax;
  __builtin_memcpy(&amax, &top, 4);
  const bool finite = top < 0x7f800000, zero = !finite || amax < kSmallestAmax;
  const float inv = zero ? 0.0f : 127.0f / amax;
  const i32x16 none = zero_i32();
  const i32x16 q0 = zero ? none : to_i32(lo * set1(inv)), q1 = zero ? none : to_i32(hi * set1(inv));
  const float d = !finite ? __builtin_nanf("") : zero ? 0.0f : amax / 127.0f;
  const Sums s = store_codes(reinterpret_cast<int8_t*>(record) + r * kBlock, q0, q1);
  std::byte* f = record + h * kBlock + 4 * r;
  put(f, d);
  put(f + 4 * h, d * float(s.a + s.b));
  put(f + 8 * h, -(s.a + s.b));
  put(f + 12 * h, -s.a);
  put(f + 16 * h, -s.b);
}

void quantize_panel(const float* x, int64_t x_stride, int h, int64_t k, std::byte* panel) noexcept {
  for (int r = 0; r < h; ++r) {
    const float* row = x + r * x_stride;
    std::byte* record = panel;
    for (int64_t i = 0; i < k; i += kBlock, record += size_t(h) * kRecordBytes)
      quantize_block(row + i, k - i < kBlock ? int(k - i) : kBlock, h, r, record);
  }
}

}  // namespace
}  // namespace isotope::kernels::cpu
