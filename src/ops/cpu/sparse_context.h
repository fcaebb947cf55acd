// What the parts of CpuSparse work with.
#pragma once

#include "base/arena.h"
#include "base/team.h"
#include "kernels/cpu/table.h"
#include "ops/batch.h"
#include "ops/cpu/kv_cache.h"

namespace isotope::ops {

struct SparseContext {
  base::Team& team;
  const kernels::cpu::KernelTable& kernels;
  base::Arena& arena;        ///< of this layer
  const Batch& batch;
  const CpuKvCache& kv;
  int64_t alone = 0;         ///< fewer multiply-adds than this are not worth waking the team for
  int64_t score_bytes = 0;   ///< of an indexer's scores at once

  const Batch::Group& group(int layer) const { return batch.groups[size_t(kv.spec(layer).group)]; }
  const int32_t* table(int layer, int64_t seq) const { return group(layer).block_table + seq * group(layer).table_stride; }
};

}  // namespace isotope::ops
