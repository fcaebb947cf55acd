// The experts of a mixture on the CPU. Rows are sorted by expert, so that each expert's weights are read once for all its rows; a handful of parallel
// regions serve all experts together, each cut by cost, so that unequal experts keep the whole team busy.
#pragma once

#include "base/arena.h"
#include "base/team.h"
#include "kernels/cpu/table.h"
#include "ops/ops.h"

namespace isotope::ops {

struct MoeContext {
  base::Team& team;
  const kernels::cpu::KernelTable& kernels;
  base::Arena& arena;
  const CpuTuning& tuning;
  std::span<const int32_t> tokens = {};  ///< of each row; for mixtures that go by them
};

/// Which experts each row goes to: routing.used entries a row, experts ascending within a row.
struct Choice {
  std::span<const int32_t> experts;
  std::span<const float> weights;
};

/// `logits` [T, E] are used up.
Choice choose(const MoeContext&, const Moe&, Tensor logits);
/// Sum over each row's experts, [T, D], without the shared block.
Tensor run_experts(const MoeContext&, const Moe&, Tensor x, const Choice&);

}  // namespace isotope::ops
