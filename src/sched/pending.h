// What prefill could do now: the delayer's estimate. It looks at the same limits as admission, but it is no reservation.
#pragma once

#include <span>

#include "sched/plan.h"

namespace isotope::sched {

struct PendingPrefill {
  bool able = false;     ///< prompt tokens could be computed in this step
  bool partial = false;  ///< some prompt is part-way through
  int64_t requests = 0;  ///< whose tokens those are
  int64_t tokens = 0;    ///< prompt tokens that one step could take, cache hits not counted; at most the step's budget
};

/// `waiting`: the head of the queue, as far as it was looked at; what was not seen counts nothing.
PendingPrefill pending_prefill(std::span<const SeqState> running, std::span<const SeqState> waiting, const Limits&,
                               const kv::Counts& available);

/// Largest share of blocks in use over the groups, 0 to 1.
double kv_usage(const kv::Counts& available, const kv::Counts& total, int groups);

}  // namespace isotope::sched
