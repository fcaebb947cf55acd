// Compressed keys: see ops::CompressArgs.
#pragma once

#include "ops/cpu/sparse_context.h"
#include "ops/sparse.h"

namespace isotope::ops {

/// REQUIRES: shapes of `args` match the batch and the cache's layers; the norm's way of rounding is resolved.
void compress(const CompressArgs& args, const SparseContext& context);
/// The same for SparseOps::pool() and store_entries().
tensor::Tensor pool(const CompressArgs& args, const SparseContext& context);
void store_entries(const EntryArgs& args, const SparseContext& context);

}  // namespace isotope::ops
