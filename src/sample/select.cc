#include "sample/select.h"

#include <algorithm>
#include <limits>

namespace isotope::sample {

namespace {

constexpr size_t kStride = 64;

bool any_above(const float* x, size_t n, float threshold) noexcept {
  int32_t n_above = 0;
  for (size_t i = 0; i < n; ++i) n_above += x[i] > threshold;
  return n_above != 0;
}

}  // namespace

void top_k(std::span<const float> x, int64_t k, std::vector<Item>& out) {
  out.clear();
  if (k <= 0) return;
  const size_t want = size_t(std::min<int64_t>(k, int64_t(x.size()))), room = 2 * want + kStride;
  out.reserve(room + kStride);
  float threshold = -std::numeric_limits<float>::infinity();
  const auto compact = [&] {
    std::nth_element(out.begin(), out.begin() + int64_t(want) - 1, out.end(), before);
    out.resize(want);
    threshold = out.back().key;  // an equal value of a higher index would lose
  };
  for (size_t b = 0; b < x.size(); b += kStride) {
    const size_t n = std::min(kStride, x.size() - b);
    if (!any_above(x.data() + b, n, threshold)) continue;
    for (size_t i = b; i < b + n; ++i)
      if (x[i] > threshold) out.push_back({x[i], x[i], int32_t(i)});
    if (out.size() >= room) compact();
  }
  if (out.size() > want) compact();
  std::sort(out.begin(), out.end(), before);
}

Item kth(std::span<Item> items, int64_t k) noexcept {
  std::nth_element(items.begin(), items.begin() + (k - 1), items.end(), before);
  return items[size_t(k - 1)];
}

Item nucleus_end(std::span<Item> items, double need) noexcept {
  size_t lo = 0, hi = items.size();
  while (hi - lo > 32) {
    Item *a = &items[lo], *m = &items[lo + (hi - lo) / 2], *z = &items[hi - 1];
    const Item pivot = before(*a, *m) ? (before(*m, *z)   ? *m
                                         : before(*a, *z) ? *z
                                                          : *a)
                                      : (before(*a, *z)   ? *a
                                         : before(*m, *z) ? *z
                                                          : *m);
    const auto mid = std::partition(items.begin() + int64_t(lo), items.begin() + int64_t(hi),
                                    [&](const Item& i) { return !before(pivot, i); });
    const size_t cut = size_t(mid - items.begin());  // [lo, cut) comes before or is the pivot
    double mass = 0;
    for (size_t i = lo; i < cut; ++i) mass += double(items[i].mass);
    if (mass >= need) {
      if (cut == hi) break;  // the pivot was the last: too small a gain to go on
      hi = cut;
    } else {
      need -= mass;
      lo = cut;
      if (lo == hi) return pivot;
    }
  }
  std::sort(items.begin() + int64_t(lo), items.begin() + int64_t(hi), before);
  for (size_t i = lo; i < hi; ++i)
    if ((need -= double(items[i].mass)) <= 0) return items[i];
  return items[hi - 1];
}

}  // namespace isotope::sample
