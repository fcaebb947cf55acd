// Attention of one layer for a whole batch. The step's own keys and values are in the paged cache already (kv_store.h).
#pragma once

#include "base/arena.h"
#include "base/team.h"
#include "kernels/cpu/attention.h"
#include "ops/cpu/kv_cache.h"
#include "ops/ops.h"

namespace isotope::ops {

/// Fewer multiply-adds than `alone` are not worth waking the team for.
/// REQUIRES: shapes of `args` match `batch` and the cache's layer; out [T, H*d].
void attention(const AttentionArgs& args, const Batch& batch, const CpuKvCache& kv, const kernels::cpu::AttentionKernels& kernels, base::Team& team,
               base::Arena& arena, Tensor out, int64_t alone);

}  // namespace isotope::ops
