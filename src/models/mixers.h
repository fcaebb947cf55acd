// Weights of the mixers that carry a recurrent state. What brings their result back to the model's width is Layer::o.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/config.h"
#include "ops/ops.h"

namespace isotope::models {

/// Gated DeltaNet as Qwen3-Next has it (arXiv:2412.06464): a short convolution over q, k and v, unit heads, the gated delta rule, and a head norm gated by z.
struct DeltaNet {
  ops::Linear qkv, z, b, a;             ///< [2 K dk + V dv, D], [V dv, D], [V, D], [V, D]
  ops::ShortConv conv;
  std::vector<float> neg_a, dt_bias;    ///< [V]: -e^A_log
  std::vector<float> q_unit, k_unit;    ///< [dk]: what makes RMS norms unit norms, and the scale of q
  std::vector<float> norm;              ///< [dv]
};

/// Floats that a layer of this mixer keeps for each sequence.
int64_t state_floats(const ModelConfig&, Mixer);

}  // namespace isotope::models
