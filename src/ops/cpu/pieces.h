// How ops with a state are cut: by sequence, head and sixteen channels, never by token.
#pragma once

#include <algorithm>
#include <cstring>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/share.h"

namespace isotope::ops {

constexpr int64_t kLanes = 16;

inline int64_t panels(int64_t n) { return (n + kLanes - 1) / kLanes; }
inline int lanes_at(int64_t first, int64_t n) { return int(std::min(kLanes, n - first)); }

/// f(row) for each row; on this thread alone when all together visit few elements.
template <class F>
void each_row(base::Team& team, int64_t rows, int64_t cost, F&& f) {
  for_rows(team, rows, cost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) f(r);
  });
}

struct SequenceRows {
  int64_t first, n;
  bool begins;  ///< the sequence's first token is among them: its state is zeros, whatever the slot holds
};
inline SequenceRows rows_of(const Batch& b, int64_t s) {
  const int32_t first = b.query_start[size_t(s)];
  return {first, b.query_start[size_t(s) + 1] - first, b.positions[size_t(first)] == 0};
}

inline void clear_if(bool begins, float* state, int64_t floats) {
  if (begins) std::memset(state, 0, size_t(floats) * sizeof(float));
}

template <class F>
void CpuOps::for_pieces(int64_t pieces, int64_t cost, F&& f) {
  const int64_t all = batch_.S() * pieces;
  const auto range = [&](int64_t i0, int64_t i1) {
    for (int64_t i = i0; i < i1; ++i) {
      const int64_t s = i / pieces;
      if (batch_.query_start[size_t(s)] < batch_.query_start[size_t(s) + 1]) f(s, i % pieces);
    }
  };
  if (batch_.T() * pieces * cost <= kAloneVisits) range(0, all);
  else team_.for_ranges(all, 1, range);
}

}  // namespace isotope::ops
