// Sharing the rows of an op over the team.
#pragma once

#include <cstdint>
#include <utility>

#include "base/team.h"

namespace isotope::ops {

/// Waking the team and waiting for it costs about as much as one core needs to visit this many elements.
inline constexpr int64_t kAloneVisits = 16'384;

/// Calls f(first, end) for ranges of [0, rows), a row costing `cost` element visits; on this thread alone when all together are not worth waking the team.
template <class F>
void for_rows(base::Team& team, int64_t rows, int64_t cost, F&& f) {
  if (rows * cost <= kAloneVisits) f(int64_t{0}, rows);
  else team.for_ranges(rows, 1, std::forward<F>(f));
}

}  // namespace isotope::ops
