// What happens to q, k and v between the projections and attention, for each token while its rows lie in the first-level cache: head norms, rotation,
// and k and v into the paged cache.
#pragma once

#include "kernels/cpu/table.h"
#include "ops/cpu/kv_cache.h"
#include "ops/cpu/rope_tables.h"
#include "ops/ops.h"

namespace isotope::ops {

struct KvStore {
  const AttentionArgs& args;
  const Batch& batch;
  const CpuKvCache& kv;
  const kernels::cpu::KernelTable& kernels;
  std::optional<Norm> q_norm = {}, k_norm = {};  ///< as args.q_norm and args.k_norm, with the way of rounding resolved
  RopeTables::Table angles = {};                 ///< if args.rope

  /// Tokens [t0, t1) of the batch; tokens may be done in any order and at the same time.
  void run(int64_t t0, int64_t t1) const noexcept;
  /// Element visits that a token is worth. A key's elements go to a cache line each, or each pair, and few of those are at hand.
  int64_t row_cost() const { return args.q.cols + kKeyCost * args.k.cols + 2 * args.v.cols; }

 private:
  static constexpr int64_t kKeyCost = 12;
  void shape(Tensor x, int heads, const std::optional<Norm>& norm, int64_t t) const noexcept;
};

}  // namespace isotope::ops
