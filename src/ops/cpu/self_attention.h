// Attention of encoders: every token of a sequence sees all of them, and nothing is kept.
#pragma once

#include <span>

#include "base/arena.h"
#include "base/team.h"
#include "kernels/cpu/attention.h"
#include "ops/ops.h"

namespace isotope::ops {

struct SelfAttentionContext {
  base::Team& team;
  const kernels::cpu::AttentionKernels& kernels;
  base::Arena& arena;
};

/// `query_start` [S+1]: sequence s owns rows [query_start[s], query_start[s+1]) of q, k, v and out. A row's result depends on its sequence alone: the keys
/// are taken in chunks of kChunk from the sequence's first one, as attention() does. Keys, values and probabilities are rounded to `format`.
void self_attention(const SelfAttentionArgs&, std::span<const int32_t> query_start, kernels::cpu::KvFormat format, const SelfAttentionContext&, Tensor out);

}  // namespace isotope::ops
