// An indexer's choice for every token of a batch.
#pragma once

#include "ops/cpu/chosen.h"
#include "ops/cpu/sparse_context.h"
#include "ops/sparse.h"

namespace isotope::ops {

/// Blocks that a choice found for later ones, and where their lists lie.
struct BlockMemory {
  FoundBlocks found;
  base::Arena memory;
};

/// Keys of the step are in the cache already. The lists are made in `memory`, which is reset.
/// REQUIRES: shapes of `args` match the batch and the cache's layer.
Chosen choose_keys(const IndexArgs& args, const SparseContext& context, base::Arena& memory, BlockMemory& found);

}  // namespace isotope::ops
