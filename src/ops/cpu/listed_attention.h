// Attention to lists of keys. A list is walked as attention.h walks a context: its n-th key counts as token n of it, in the same chunks and segments, so that a
// list of all keys gives the bits of attention to all of them.
#pragma once

#include "ops/cpu/chosen.h"
#include "ops/cpu/sparse_context.h"

namespace isotope::ops {

/// The list of a token: rows of the last `window` tokens in ascending order, if `recent` says where they are, then keys of `layer`.
struct ListedArgs {
  Tensor q;                        ///< [T, heads * dim]
  int heads = 0, kv_heads = 1, dim = 0;
  int value_dim = 0;               ///< above 0: values are the last `value_dim` numbers of the keys, as is the result
  float scale = 1.0f, softcap = 0.0f;
  std::span<const float> sinks;    ///< [heads] or empty
  int recent = -1;
  int64_t window = 0;
  int layer = -1;                  ///< KvForm::keys_values or rows; -1 = no others
  const Chosen* chosen = nullptr;  ///< which of them; null = all that are complete
};

/// REQUIRES: no list is empty; everything of the step is in the cache; out [T, heads * dim or value_dim].
void listed_attention(const ListedArgs&, const SparseContext&, Tensor out);

}  // namespace isotope::ops
