// Who goes first. The same order serves admission (first one first) and preemption (last one first).
#pragma once

#include <compare>
#include <cstdint>

namespace isotope::sched {

/// Place of a request among all others; lower goes first. Without fair share `share` is 0, which leaves first come, first served.
struct Place {
  int priority = 0;      ///< the client's; lower is more urgent
  int64_t share = 0;     ///< FairShare::arrive
  uint64_t arrival = 0;  ///< a preempted request keeps its own
  auto operator<=>(const Place&) const = default;
};

}  // namespace isotope::sched
