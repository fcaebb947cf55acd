#include "sample/vector_math.h"

#include <algorithm>
#include <cfloat>
#include <limits>

namespace isotope::sample {

namespace {

constexpr int kLanes = 16;  // partial results of every sum: their number and order are fixed, whatever registers the CPU has
constexpr size_t kBlock = 1024;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Written with vector types, not left to the auto-vectoriser, which must assume that a comparison traps. The compiler cuts them into the registers of the
// instruction set that a function is compiled for (ISO_WIDEST below); with contraction off the bits are the same for all of them.
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t IntLanes __attribute__((vector_size(kLanes * sizeof(int32_t))));

#define ISO_INLINE [[gnu::always_inline]] inline

ISO_INLINE void load(Lanes& v, const float* p) noexcept { __builtin_memcpy(&v, p, sizeof v); }
ISO_INLINE void splat(Lanes& v, float x) noexcept { v = Lanes{} + x; }

/// x = exp(x); vectors go by reference because their registers differ between instruction sets.
ISO_INLINE void exp_lanes(Lanes& x) noexcept {
  const Lanes zero = Lanes{}, lowest = zero - 87.0f;
  const Lanes low = x > lowest ? x : lowest;  // NaN goes here too
  const Lanes v = low < zero ? low : zero;
  const Lanes n = (v * 1.44269504088896341f + 12582912.0f) - 12582912.0f;  // round to nearest
  const Lanes r = (v - n * 0.693359375f) - n * -2.12194440e-4f;
  Lanes p = zero + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const IntLanes bits = (__builtin_convertvector(n, IntLanes) + 127) << 23;
  Lanes scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  x = x > lowest ? p * scale : zero;
}

ISO_INLINE float block_max(const float* x, size_t n) noexcept {
  Lanes part[2];
  for (Lanes& p : part) splat(p, kLowest);
  size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes)
    for (int k = 0; k < 2; ++k) {
      Lanes v;
      load(v, x + i + size_t(k * kLanes));
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
ISO_INLINE double blocked_sum(const float* x, size_t n, float pad, F f) noexcept {
  double total = 0;
  for (size_t b = 0; b < n; b += kBlock) {
    const size_t end = n < b + kBlock ? n : b + kBlock;
    Lanes part = {}, v;
    size_t i = b;
    for (; i + kLanes <= end; i += kLanes) {
      load(v, x + i);
      f(v);
      part += v;
    }
    if (i < end) {
      splat(v, pad);
      for (int j = 0; i < end; ++i, ++j) v[j] = x[i];
      f(v);
      part += v;
    }
    for (int j = 0; j < kLanes; ++j) total += double(part[j]);
  }
  return total;
}

// One body for every instruction set, the widest that the CPU has chosen once: `Body` is a struct with a static run().
template <class Body, class... A>
auto run_plain(A... a) noexcept { return Body::run(a...); }
#if defined(__x86_64__)
template <class Body, class... A>
[[gnu::target("avx2")]] auto run_avx2(A... a) noexcept { return Body::run(a...); }
template <class Body, class... A>
[[gnu::target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512")]] auto run_avx512(A... a) noexcept { return Body::run(a...); }
#endif

template <class Body, class... A>
auto widest(A... a) noexcept {
  using Run = decltype(&run_plain<Body, A...>);
  static const Run run = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
      return Run(run_avx512<Body, A...>);
    if (__builtin_cpu_supports("avx2")) return Run(run_avx2<Body, A...>);
#endif
    return Run(run_plain<Body, A...>);
  }();
  return run(a...);
}

struct Max {
  ISO_INLINE static float run(const float* x, size_t n) noexcept { return block_max(x, n); }
};
struct Sum {
  ISO_INLINE static double run(const float* x, size_t n) noexcept {
    return blocked_sum(x, n, 0, [](Lanes&) {});
  }
};
struct SumAbove {
  ISO_INLINE static double run(const float* x, size_t n, float least) noexcept {
    return blocked_sum(x, n, 0, [least](Lanes& v) { v = v > Lanes{} + least ? v : Lanes{}; });
  }
};
struct SumExp {
  ISO_INLINE static double run(const float* x, size_t n, float max) noexcept {
    return blocked_sum(x, n, kLowest, [max](Lanes& v) {
      v = v - max;
      exp_lanes(v);
    });
  }
};
struct ExpScaled {
  ISO_INLINE static int run(const float* x, size_t n, float max, float temperature, float* out) noexcept {
    Lanes v;
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      load(v, x + i);
      v = (v - max) / temperature;
      exp_lanes(v);
      __builtin_memcpy(out + i, &v, sizeof v);
    }
    splat(v, kLowest);
    const size_t rest = n - i;
    for (size_t j = 0; j < rest; ++j) v[int(j)] = x[i + j];
    v = (v - max) / temperature;
    exp_lanes(v);
    for (size_t j = 0; j < rest; ++j) out[i + j] = v[int(j)];
    return 0;
  }
};
/// Indices of what is above `least`, ascending.
struct IndicesAbove {
  ISO_INLINE static size_t run(const float* x, size_t n, float least, int32_t* out) noexcept {
    size_t found = 0, i = 0;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      IntLanes any = {};
      for (size_t k = 0; k < 4; ++k) {
        Lanes v;
        load(v, x + i + k * kLanes);
        any |= v > Lanes{} + least;
      }
      int32_t some = 0;
      for (int j = 0; j < kLanes; ++j) some |= any[j];
      if (!some) continue;
      for (size_t j = i; j < i + 4 * kLanes; ++j) {
        out[found] = int32_t(j);
        found += x[j] > least;
      }
    }
    for (; i < n; ++i) {
      out[found] = int32_t(i);
      found += x[i] > least;
    }
    return found;
  }
};

}  // namespace

float exp_nonpositive(float x) noexcept {
  Lanes v;
  splat(v, x);
  exp_lanes(v);
  return v[0];
}

int64_t argmax(std::span<const float> x) noexcept {
  float best = kLowest;
  size_t where = 0;
  for (size_t b = 0; b < x.size(); b += kBlock) {
    const float m = widest<Max>(x.data() + b, std::min(kBlock, x.size() - b));
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
  return std::min(widest<Max>(x.data(), x.size()), FLT_MAX);
}

double sum_exp(std::span<const float> x, float max) noexcept {
  return widest<SumExp>(x.data(), x.size(), max);
}

double exp_scaled(std::span<const float> x, float max, float temperature, std::span<float> out) noexcept {
  widest<ExpScaled>(x.data(), x.size(), max, temperature, out.data());
  return sum_of(out);
}

double sum_of(std::span<const float> x) noexcept {
  return widest<Sum>(x.data(), x.size());
}

double sum_above(std::span<const float> x, float least) noexcept {
  return widest<SumAbove>(x.data(), x.size(), least);
}

size_t indices_above(std::span<const float> x, float least, std::span<int32_t> out) noexcept {
  return widest<IndicesAbove>(x.data(), x.size(), least, out.data());
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
