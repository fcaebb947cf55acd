// Ops of a few families over rows of float32; plain loops, since memory is what they wait for.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/share.h"

namespace isotope::ops {
namespace {

/// The mean of f(x[i]) over a row: element i goes to lane i % 16, then the lanes from the first to the last. The length alone decides the order.
template <class F>
float mean(const float* x, int64_t n, F f) {
  float lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) lanes[l] += f(x[i + l]);
  for (int l = 0; i < n; ++i, ++l) lanes[l] += f(x[i]);
  float sum = 0;
  for (float v : lanes) sum += v;
  return sum / float(n);
}

float mean_square(const float* x, int64_t n) {
  return mean(x, n, [](float v) { return v * v; });
}

template <class F>
void each_row(base::Team& team, Tensor x, F&& f) {
  for_rows(team, x.rows, x.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) f(r);
  });
}

}  // namespace

Tensor CpuOps::copy(Tensor x) {
  const Tensor out = empty(x.rows, x.cols);
  each_row(team_, x, [&](int64_t r) { std::memcpy(out.row(r), x.row(r), size_t(x.cols) * sizeof(float)); });
  return out;
}

void CpuOps::scale_by_position(Tensor x, const PositionScale& s) {
  ISO_CHECK(x.rows == batch_.T() && s.period > 0);
  each_row(team_, x, [&](int64_t r) {
    // One logarithm a row: the C library's, the same on every instruction set.
    const double steps = std::floor(double(batch_.positions[size_t(r)] + s.offset) / double(s.period));
    if (steps > 0) k_.elementwise.scale(x.row(r), x.cols, float(1 + double(s.beta) * std::log1p(steps)));
  });
}

void CpuOps::clamp(Tensor x, float low, float high) {
  each_row(team_, x, [&](int64_t r) {
    for (float& v : std::span(x.row(r), size_t(x.cols))) v = std::min(std::max(v, low), high);
  });
}

void CpuOps::keep_above(Tensor x, float s) {
  each_row(team_, x, [&](int64_t r) {
    float* const row = x.row(r);
    const float middle = mean(row, x.cols, [](float v) { return v; });
    const float variance = mean(row, x.cols, [&](float v) { return (v - middle) * (v - middle); });
    const float cut = middle + std::sqrt(variance) * s;
    for (float& v : std::span(row, size_t(x.cols))) v = std::max(v - cut, 0.0f);
  });
}

void CpuOps::add_by_row(Tensor x, Tensor y, Tensor c) {
  ISO_CHECK(x.rows == y.rows && x.cols == y.cols && c.rows == x.rows && c.cols == 1);
  each_row(team_, x, [&](int64_t r) { k_.elementwise.add(x.row(r), y.row(r), x.cols, *c.row(r)); });
}

void CpuOps::match_size(Tensor x, Tensor like, float floor) {
  ISO_CHECK(x.rows == like.rows && floor > 0);
  each_row(team_, x, [&](int64_t r) {
    const float size = std::sqrt(mean_square(like.row(r), like.cols)), own = std::sqrt(std::max(mean_square(x.row(r), x.cols), floor));
    k_.elementwise.scale(x.row(r), x.cols, size / own);
  });
}

Tensor CpuOps::resize_heads(Tensor x, int from, int to) {
  ISO_CHECK(from > 0 && to > 0 && x.cols % from == 0);
  const int64_t heads = x.cols / from, kept = std::min(from, to);
  const Tensor out = empty(x.rows, heads * to);
  each_row(team_, out, [&](int64_t r) {
    for (int64_t h = 0; h < heads; ++h) {
      std::memcpy(out.row(r) + h * to, x.row(r) + h * from, size_t(kept) * sizeof(float));
      std::fill(out.row(r) + h * to + kept, out.row(r) + (h + 1) * to, 0.0f);
    }
  });
  return out;
}

}  // namespace isotope::ops
