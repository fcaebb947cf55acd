#include "telemetry/metrics.h"

#include <algorithm>

namespace isotope::telemetry {

Registry::Registry(std::span<const Row> rows, Labels common) : rows_(rows), common_(std::move(common)) {
  size_t n = 0;
  for (const Row& r : rows) {
    first_.push_back(n);
    n += std::max<size_t>(1, r.values.size());
  }
  series_ = std::make_unique<Series[]>(n);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].kind != Kind::histogram) continue;
    for (size_t l = 0; l < std::max<size_t>(1, rows[i].values.size()); ++l)
      at(i, l).counts = std::make_unique<std::atomic<uint64_t>[]>(rows[i].buckets.size() + 1);
  }
}

void Registry::add(size_t row, double by, size_t label) noexcept {
  if (rows_[row].kind == Kind::counter && !(by >= 0)) return;
  at(row, label).value.fetch_add(by, std::memory_order_relaxed);
}

void Registry::set(size_t row, double to, size_t label) noexcept {
  at(row, label).value.store(to, std::memory_order_relaxed);
}

void Registry::observe(size_t row, double value, size_t label) noexcept {
  if (value != value) return;
  const auto b = rows_[row].buckets;
  Series& s = at(row, label);
  s.counts[size_t(std::lower_bound(b.begin(), b.end(), value) - b.begin())].fetch_add(1, std::memory_order_relaxed);
  s.value.fetch_add(value, std::memory_order_relaxed);
}

void Registry::absorb(const Registry& from) noexcept {
  for (size_t i = 0; i < rows_.size(); ++i)
    for (size_t l = 0; l < std::max<size_t>(1, rows_[i].values.size()); ++l) {
      at(i, l).value.fetch_add(from.at(i, l).value.load(std::memory_order_relaxed), std::memory_order_relaxed);
      for (size_t b = 0; rows_[i].kind == Kind::histogram && b <= rows_[i].buckets.size(); ++b)
        at(i, l).counts[b].fetch_add(from.at(i, l).counts[b].load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
}

double Registry::value(size_t row, size_t label) const noexcept {
  const Series& s = at(row, label);
  if (rows_[row].kind != Kind::histogram) return s.value.load(std::memory_order_relaxed);
  uint64_t n = 0;
  for (size_t i = 0; i <= rows_[row].buckets.size(); ++i) n += s.counts[i].load(std::memory_order_relaxed);
  return double(n);
}

}  // namespace isotope::telemetry
