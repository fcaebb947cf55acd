#include "sample/vector_math.h"

#include <algorithm>
#include <cfloat>
#include <limits>

namespace isotope::sample {

namespace {

constexpr int kLanes = 4, kParts = 4, kStep = kLanes * kParts;  // 16 partial results, in registers that every x86-64 and ARM has
constexpr size_t kBlock = 1024;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Written with vector types, not left to the auto-vectoriser, which must assume that a comparison traps.
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t IntLanes __attribute__((vector_size(kLanes * sizeof(int32_t))));

Lanes load(const float* p) noexcept {
  Lanes v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
Lanes splat(float x) noexcept {
  return Lanes{} + x;
}

Lanes exp_lanes(Lanes x) noexcept {
  const Lanes low = x > -87.0f ? x : splat(-87.0f);  // NaN goes here too
  const Lanes v = low < 0.0f ? low : splat(0.0f);
  const Lanes n = (v * 1.44269504088896341f + 12582912.0f) - 12582912.0f;  // round to nearest
  const Lanes r = (v - n * 0.693359375f) - n * -2.12194440e-4f;
  Lanes p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const IntLanes bits = (__builtin_convertvector(n, IntLanes) + 127) << 23;
  Lanes scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return x > -87.0f ? p * scale : splat(0.0f);
}

float block_max(const float* x, size_t n) noexcept {
  Lanes part[kParts];
  for (Lanes& p : part) p = splat(kLowest);
  size_t i = 0;
  for (; i + kStep <= n; i += kStep)
    for (int k = 0; k < kParts; ++k) {
      const Lanes v = load(x + i + k * kLanes);
      part[k] = v > part[k] ? v : part[k];
    }
  float m = kLowest;
  for (const Lanes& p : part)
    for (int j = 0; j < kLanes; ++j) m = p[j] > m ? p[j] : m;
  for (; i < n; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

/// Sum over x of f applied to a few values at a time (padded with `pad`), in the fixed order that all sums here share.
template <class F>
double blocked_sum(std::span<const float> x, float pad, F f) noexcept {
  double total = 0;
  for (size_t b = 0; b < x.size(); b += kBlock) {
    const size_t end = std::min(x.size(), b + kBlock);
    Lanes part[kParts] = {};
    const auto step = [&](const float* v) {
      for (int k = 0; k < kParts; ++k) part[k] += f(load(v + k * kLanes));
    };
    size_t i = b;
    for (; i + kStep <= end; i += kStep) step(x.data() + i);
    if (i < end) {
      float rest[kStep];
      std::fill(std::copy(x.begin() + int64_t(i), x.begin() + int64_t(end), rest), rest + kStep, pad);
      step(rest);
    }
    for (const Lanes& p : part)
      for (int j = 0; j < kLanes; ++j) total += double(p[j]);
  }
  return total;
}

}  // namespace

float exp_nonpositive(float x) noexcept {
  return exp_lanes(splat(x))[0];
}

int64_t argmax(std::span<const float> x) noexcept {
  float best = kLowest;
  size_t where = 0;
  for (size_t b = 0; b < x.size(); b += kBlock) {
    const float m = block_max(x.data() + b, std::min(kBlock, x.size() - b));
    if (m > best) {
      best = m;
      where = b;
    }
  }
  if (best == kLowest) return 0;
  while (x[where] != best) ++where;
  return int64_t(where);
}

float max_of(std::span<const float> x) noexcept {
  return std::min(block_max(x.data(), x.size()), FLT_MAX);
}

double sum_exp(std::span<const float> x, float max) noexcept {
  return blocked_sum(x, kLowest, [max](Lanes v) { return exp_lanes(v - max); });
}

double exp_scaled(std::span<const float> x, float max, float temperature, std::span<float> out) noexcept {
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    const Lanes e = exp_lanes((load(x.data() + i) - max) / temperature);
    __builtin_memcpy(&out[i], &e, sizeof e);
  }
  for (; i < x.size(); ++i) out[i] = exp_nonpositive((x[i] - max) / temperature);
  return sum_of(out);
}

double sum_of(std::span<const float> x) noexcept {
  return blocked_sum(x, 0, [](Lanes v) { return v; });
}

int64_t rank_of(std::span<const float> x, int64_t i) noexcept {
  const float v = x[size_t(i)];
  int64_t n = 1;
  for (size_t b = 0; b < x.size(); b += kBlock) {
    const size_t end = std::min(b + kBlock, x.size());
    int32_t more = 0, equal = 0;
    for (size_t j = b; j < end; ++j) more += x[j] > v;
    n += more;
    const size_t before = std::min(end, size_t(i));
    for (size_t j = b; j < before; ++j) equal += x[j] == v;
    n += equal;
  }
  return n;
}

}  // namespace isotope::sample
