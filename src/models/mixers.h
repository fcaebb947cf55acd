// Weights of the mixers that carry a recurrent state. What brings their result back to the model's width is Layer::o.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/config.h"
#include "ops/ops.h"

namespace isotope::models {

/// Queries, keys and values by projections and short convolutions of their own.
struct ConvolvedQkv {
  ops::Linear q, k, v;                  ///< [K dk, D] twice, [V dv, D]
  ops::ShortConv q_conv, k_conv, v_conv;
  explicit operator bool() const { return bool(q); }
};

/// Gated DeltaNet as Qwen3-Next has it (arXiv:2412.06464): a short convolution over q, k and v, unit heads, the gated delta rule, and a head norm gated by z.
struct DeltaNet {
  ops::Linear qkv, z, b, a;             ///< [2 K dk + V dv, D], [V dv, D], [V, D], [V, D]
  ops::ShortConv conv;
  std::vector<float> neg_a, dt_bias;    ///< [V]: -e^A_log
  std::vector<float> q_unit, k_unit;    ///< [dk]: what makes RMS norms unit norms, and the scale of q
  std::vector<float> norm;              ///< [dv]
  ConvolvedQkv apart;                   ///< instead of qkv and conv, where the file has them one by one
};

/// Mamba 2 (arXiv:2405.21060): a short convolution over x, B and C, the scan, and a norm of what silu(z) gates.
struct Mamba2 {
  ops::Linear z, xbc, dt;               ///< [I, D], [I + 2 G N, D], [H, D]
  ops::ShortConv conv;
  std::vector<float> neg_a, dt_bias, d; ///< [H]
  std::vector<float> norm;              ///< [I]
};

/// Mamba 1 (arXiv:2312.00752): steps, B and C come from the convolution's result; each channel has a step of its own.
struct Mamba1 {
  ops::Linear x, z;                     ///< [I, D] twice
  ops::ShortConv conv;
  ops::Linear rank, b, c, dt;           ///< [R, I], [N, I] twice, [I, R]
  std::vector<float> rank_norm, b_norm, c_norm;  ///< [R], [N], [N] (Jamba), or empty
  std::vector<float> neg_a;             ///< [ceil(I / 16), N, 16]
  std::vector<float> dt_bias, d;        ///< [I]
};

/// LFM2's short convolution between two gates: c * conv(b * x).
struct GatedConv {
  ops::Linear b, c, x;                  ///< [D, D]
  ops::ShortConv conv;
};

/// Kimi Delta Attention (arXiv:2510.26692): the delta rule with a decay for each channel, and a head norm gated by a sigmoid.
struct ChannelDelta {
  ConvolvedQkv qkv;
  ops::Linear f_a, f;                   ///< [d, D] or empty, [H d, d or D]: decays
  ops::Linear g_a, g;                   ///< the same: gate of the result
  ops::Linear b;                        ///< [H, D]
  std::vector<float> rate, dt_bias;     ///< [H d]: e^A_log of the head, and the bias
  std::vector<float> q_unit, k_unit;    ///< as DeltaNet's
  std::vector<float> norm;              ///< [d]
};

/// Lightning attention (arXiv:2501.08313): linear attention whose heads forget at fixed rates; the result is normed over its full width, then gated.
struct Lightning {
  ops::Linear q, k, v, gate;            ///< [H d, D]
  std::vector<float> decay;             ///< [H]: -slope
  std::vector<float> norm, skip;        ///< [H d]; [H] zeros: what the input adds to the result past the state
};

/// Floats that a layer of this mixer keeps for each sequence.
int64_t state_floats(const ModelConfig&, Mixer);
/// The same with what comes before its mixer: where the layer adds embeddings of n-grams, their convolution's inputs and the last tokens stand at the end.
int64_t state_floats(const ModelConfig&, const LayerConfig&);

}  // namespace isotope::models
