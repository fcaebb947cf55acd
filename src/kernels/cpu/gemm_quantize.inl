// Activations to int8, block by block. The record layout is gemm.h's.
namespace isotope::kernels::cpu {
namespace {

// Below this no scale is kept (its inverse would overflow): the block counts as zero. Nothing a model computes is this small on purpose.
constexpr float kSmallestAmax = 0x1p-100f;

template <class T>
inline void put(std::byte* p, T v) {
  __builtin_memcpy(p, &v, sizeof v);
}

// Row r of a record for h rows: its first and last sixteen values.
inline void quantize_lanes(f32x16 lo, f32x16 hi, int h, int r, std::byte* record) {
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

// `valid` of the 32 values are read.
inline void quantize_block(const float* x, int valid, int h, int r, std::byte* record) {
  const f32x16 lo = valid >= 16 ? load(x) : load_n(x, valid);
  const f32x16 hi = valid >= 32 ? load(x + 16) : valid > 16 ? load_n(x + 16, valid - 16) : zero_f32();
  quantize_lanes(lo, hi, h, r, record);
}

void quantize_row(const float* x, int64_t k, PanelRow to) noexcept {
  std::byte* record = to.panel;
  for (int64_t i = 0; i < k; i += kBlock, record += size_t(to.h) * kRecordBytes) quantize_block(x + i, k - i < kBlock ? int(k - i) : kBlock, to.h, to.r, record);
}

#if defined(__AVX512F__)
/// A whole block of sixteen rows: what crosses the lanes does so for all rows at once. The same bits as row by row. False, and nothing done, if a row is zero
/// or not finite.
inline bool quantize_sixteen(const float* x, int64_t x_stride, std::byte* record) {
  f32x16 tops[16];
  for (int r = 0; r < 16; ++r) tops[r] = bits_to_f32(max(f32_to_bits(abs(load(x + r * x_stride))), f32_to_bits(abs(load(x + r * x_stride + 16)))));
  const i32x16 top = hmaxes_of_bits(tops);
  const f32x16 amax = bits_to_f32(top);
  if (any(~gt(set1(int32_t{0x7f800000}), top) | lt(amax, set1(kSmallestAmax)))) return false;
  alignas(64) float inv[16];
  store(inv, set1(127.0f) / amax);
  CodePair pairs[8];
  for (int r = 0; r < 16; r += 2) {
    const float *a = x + r * x_stride, *b = a + x_stride;
    const f32x16 ia = set1(inv[r]), ib = set1(inv[r + 1]);
    pairs[r / 2] = code_pair(to_i32(load(a) * ia), to_i32(load(a + 16) * ia), to_i32(load(b) * ib), to_i32(load(b + 16) * ib));
    store(reinterpret_cast<int32_t*>(record + r * kBlock), {pairs[r / 2].codes});
  }
  const HalfSums s = half_sums(pairs);
  const i32x16 both = s.first + s.second, none = zero_i32();
  const f32x16 d = amax / set1(127.0f);
  auto* f = reinterpret_cast<float*>(record + 16 * kBlock);
  store(f, d);
  store(f + 16, d * to_f32(both));
  store(f + 32, bits_to_f32(none - both));
  store(f + 48, bits_to_f32(none - s.first));
  store(f + 64, bits_to_f32(none - s.second));
  return true;
}
#else
inline bool quantize_sixteen(const float*, int64_t, std::byte*) { return false; }
#endif

// The whole blocks of a panel of sixteen rows; returns the columns they take.
inline int64_t quantize_whole(const float* x, int64_t x_stride, int64_t k, std::byte* panel) {
  int64_t i = 0;
  for (; i + kBlock <= k; i += kBlock, panel += 16 * kRecordBytes) {
    if (quantize_sixteen(x + i, x_stride, panel)) continue;
    for (int r = 0; r < 16; ++r) quantize_block(x + r * x_stride + i, kBlock, 16, r, panel);
  }
  return i;
}

void quantize_panel(const float* x, int64_t x_stride, int h, int64_t k, std::byte* panel) noexcept {
  if (h == 16) {
    const int64_t whole = quantize_whole(x, x_stride, k, panel);
    x += whole, k -= whole, panel += whole / kBlock * int64_t(16 * kRecordBytes);
  }
  for (int r = 0; k > 0 && r < h; ++r) quantize_row(x + r * x_stride, k, {panel, h, r});
}

template <bool Rounded>
void norm_quantize_row(const float* x, const float* weight, float eps, int64_t k, PanelRow to) noexcept {
  const f32x16 factor = set1(norm_factor(x, k, eps));
  const auto lanes = [&](int64_t i) {
    return i >= k ? zero_f32() : normed<Rounded>(x, weight, factor, i, k - i < kLanes ? int(k - i) : kLanes);
  };
  std::byte* record = to.panel;
  for (int64_t i = 0; i < k; i += kBlock, record += size_t(to.h) * kRecordBytes) quantize_lanes(lanes(i), lanes(i + kLanes), to.h, to.r, record);
}

// Panels of sixteen rows are quantized across the rows: a strip of normed columns at a time waits for that in the first-level cache.
template <bool Rounded>
void norm_quantize_panel(const NormedRows& in, int h, int64_t k, std::byte* panel) noexcept {
  constexpr int64_t kStrip = 4 * kBlock, kStride = kStrip + kLanes;
  if (h != 16) {
    for (int r = 0; r < h; ++r) norm_quantize_row<Rounded>(in.x + r * in.x_stride, in.weight, in.eps, k, {panel, h, r});
    return;
  }
  alignas(64) float strip[16 * kStride], factors[16];
  for (int r = 0; r < 16; ++r) factors[r] = norm_factor(in.x + r * in.x_stride, k, in.eps);
  for (int64_t i = 0; i < k; i += kStrip) {
    const int64_t n = k - i < kStrip ? k - i : kStrip;
    for (int r = 0; r < 16; ++r) {
      const f32x16 factor = set1(factors[r]);
      for_lanes(n, [&](int64_t j, int lanes) {
        store_some(strip + r * kStride + j, normed<Rounded>(in.x + r * in.x_stride, in.weight, factor, i + j, lanes), lanes);
      });
    }
    quantize_panel(strip, kStride, 16, n, panel + size_t(i / kBlock) * 16 * kRecordBytes);
  }
}

}  // namespace
}  // namespace isotope::kernels::cpu
