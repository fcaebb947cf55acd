// Gated activations whose inputs are clamped: one row at a time.
#pragma once

#include <algorithm>

#include "kernels/cpu/elementwise.h"
#include "ops/linear_weight.h"

namespace isotope::ops {

/// See SparseOps::clamped_act_mul().
struct Clamped {
  Activation act;
  float limit, alpha;
};

/// out may be gate; gate and up are changed.
inline void clamped_row(const kernels::cpu::ElementwiseKernels& k, const Clamped& c, float* out, float* gate, float* up, int64_t n) noexcept {
  if (c.alpha > 0) return k.clamped_swiglu(out, gate, up, n, c.alpha, c.limit);
  for (int64_t i = 0; i < n; ++i) gate[i] = std::min(gate[i], c.limit), up[i] = std::clamp(up[i], -c.limit, c.limit);
  k.act_mul[int(c.act)](out, gate, up, n);
}

}  // namespace isotope::ops
