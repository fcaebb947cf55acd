// Layers that carry a state from token to token, in one slot of the KV cache for each sequence. A sequence whose first token of the step stands at position 0
// begins with a state of zeros, whatever its slot held; every other one goes on from what the slot holds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace isotope::ops {

/// Part of a state layer's slot: floats [offset, offset + what the op needs).
struct StatePlace {
  int layer = 0;       ///< KvLayerSpec with `state_floats`
  int64_t offset = 0;
};

constexpr int kMaxConvWidth = 8;

/// Layers with a matrix for a state write it at positions that are multiples of so many tokens. Between them the slot holds the matrix of the last multiple
/// and the rows of the open chunk, from which every result is computed in the same way wherever steps begin and end. A build constant: it decides bits.
constexpr int kStateChunk = 8;

/// Causal depthwise convolution over `width` tokens of each channel, the last one and every `dilation`-th before it; zeros before the first one.
struct ShortConv {
  int width = 0, dilation = 1;
  std::vector<float> weight;  ///< [width, C], the oldest input first
  std::vector<float> bias;    ///< [C] or empty
  bool silu = false;          ///< applied to the result
  int64_t channels() const { return width ? int64_t(weight.size()) / width : 0; }
  int64_t state_floats() const { return int64_t{width - 1} * dilation * channels(); }
};

/// Gated delta rule (arXiv:2412.06464): for each value head, S = alpha·S + k uᵀ with u = beta·(v - alpha·Sᵀk), out = Sᵀq, where
/// alpha = e^(neg_a · softplus(a + dt_bias)) and beta = beta_scale · sigmoid(b). Value head h belongs to key head h / (value_heads / key_heads).
struct DeltaArgs {
  tensor::Tensor q, k, v;     ///< [T, key_heads * dk] twice, normed and scaled; [T, value_heads * dv]
  tensor::Tensor a, b;        ///< [T, value_heads]; b is overwritten. Both as linear layers leave them: rows of empty()
  std::span<const float> neg_a, dt_bias;  ///< [value_heads]
  float beta_scale = 1;
  int key_heads = 0, value_heads = 0, dk = 0, dv = 0;
  bool tiled = false;         ///< value head h belongs to key head h % key_heads instead, as GGUF files of Qwen 3.5 order them
  StatePlace at;
  int64_t panels() const { return int64_t{value_heads} * ((dv + 15) / 16); }  ///< of sixteen columns
  int64_t matrix_floats() const { return panels() * dk * 16; }
  /// Of the open chunk: u [panels, kStateChunk, 16], alpha [value_heads, kStateChunk], k [key_heads, kStateChunk, dk].
  int64_t open_floats() const { return kStateChunk * (panels() * 16 + value_heads + int64_t{key_heads} * dk); }
  int64_t state_floats() const { return matrix_floats() + open_floats(); }
};

/// Selective state space. Mamba 2 (arXiv:2405.21060): `heads` heads of `dim` channels, one decay a head, B and C of `groups` groups. Mamba 1
/// (arXiv:2312.00752): one head whose channels each have a step, and a decay for each of their states.
/// dt = clamp(softplus(dt + dt_bias)); H = e^(neg_a dt) H + (dt·x) Bᵀ; out = H C + d·x.
struct ScanArgs {
  tensor::Tensor x, b, c;     ///< [T, heads * dim], [T, groups * states] twice
  tensor::Tensor dt;          ///< [T, heads], or [T, dim] for Mamba 1; overwritten. Empty = zeros; with dt_low = dt_high = 1 each step is 1 then, and the
                              ///< decay e^neg_a (lightning attention: x are values, b keys, c queries)
  std::span<const float> dt_bias, d;  ///< [dt.cols], [dt.cols]
  std::span<const float> neg_a;       ///< [heads], or panels of sixteen channels [ceil(dim / 16), states, 16] for Mamba 1
  float dt_low = 0, dt_high = 0;
  int heads = 0, dim = 0, states = 0, groups = 1;
  bool per_channel = false;   ///< Mamba 1
  StatePlace at;
  int64_t panels() const { return int64_t{heads} * ((dim + 15) / 16); }  ///< of sixteen channels
  int64_t matrix_floats() const { return panels() * states * 16; }
  /// Mamba 2, of the open chunk: dt·x [panels, kStateChunk, 16], decays [heads, kStateChunk], B [groups, kStateChunk, states]. Mamba 1 has none.
  int64_t open_floats() const { return per_channel ? 0 : kStateChunk * (panels() * 16 + heads + int64_t{groups} * states); }
  int64_t state_floats() const { return matrix_floats() + open_floats(); }
};

}  // namespace isotope::ops
