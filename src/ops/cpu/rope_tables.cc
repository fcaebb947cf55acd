#include "ops/cpu/rope_tables.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace isotope::ops {
namespace {
constexpr int64_t kAlone = 256;  // angles that are not worth waking the team for: some 30 ns each
constexpr size_t kMaxEntries = 64;
}  // namespace

void turn_by(const Rope& rope, int32_t position, float* cos, float* sin) noexcept {
  for (size_t i = 0; i < size_t(rope.rot / 2); ++i) {
    const float angle = float(position) * rope.inv_freq[i];
    cos[i] = float(std::cos(double(angle))) * rope.scale;
    sin[i] = float(std::sin(double(angle))) * rope.scale;
  }
}

/// By content: the object itself may be a temporary.
RopeTables::Entry& RopeTables::find(const Rope& rope) {
  for (Entry& e : entries_) {
    if (e.rot == rope.rot && e.scale == rope.scale && e.inv_freq == rope.inv_freq) return e;
  }
  if (entries_.size() >= kMaxEntries) entries_.clear();  // tables of this step stay in the arena
  entries_.push_back({.inv_freq = rope.inv_freq, .scale = rope.scale, .rot = rope.rot});
  return entries_.back();
}

RopeTables::Table RopeTables::get(const Rope& rope, std::span<const int32_t> positions, base::Arena& arena, base::Team& team) {
  const int64_t half = rope.rot / 2, rows = int64_t(positions.size());
  ISO_CHECK(rope.rot >= 0 && rope.rot % 2 == 0 && int64_t(rope.inv_freq.size()) >= half);
  Entry& e = find(rope);
  if (e.step == step_) return e.table;
  const auto cos = arena.take<float>(size_t(rows * half)), sin = arena.take<float>(size_t(rows * half));
  auto fill = [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) turn_by(rope, positions[size_t(r)], &cos[size_t(r * half)], &sin[size_t(r * half)]);
  };
  if (rows * half <= kAlone) fill(0, rows);
  else team.for_ranges(rows, 1, fill);
  e.step = step_;
  e.table = {cos.data(), sin.data()};
  return e.table;
}

}  // namespace isotope::ops
