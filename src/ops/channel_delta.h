// The gated delta rule with a decay for each channel of the keys: Kimi Delta Attention (arXiv:2510.26692).
#pragma once

#include <cstdint>
#include <span>

#include "ops/recurrent.h"
#include "tensor/tensor.h"

namespace isotope::ops {

/// For each head, S = diag(alpha)·S, then S = S + k uᵀ with u = beta·(v - Sᵀk), out = Sᵀq, where beta = sigmoid(b) and, for each channel of the keys,
/// alpha = e^(-rate · softplus(f + dt_bias)), or, with a bound (`floor` below 0), alpha = e^(floor · sigmoid(rate · (f + dt_bias))).
struct ChannelDeltaArgs {
  tensor::Tensor q, k, v;     ///< [T, heads * dk] twice, normed and scaled, overwritten; [T, heads * dv]
  tensor::Tensor f;           ///< [T, heads * dk]; overwritten
  tensor::Tensor b;           ///< [T, heads]; overwritten
  std::span<const float> rate, dt_bias;  ///< [heads * dk]; rate is e^A_log
  float floor = 0;
  int heads = 0, dk = 0, dv = 0;
  StatePlace at;
  int64_t panels() const { return int64_t{heads} * ((dv + 15) / 16); }  ///< of sixteen columns
  int64_t matrix_floats() const { return panels() * dk * 16; }
  /// Of the open chunk: u [panels, kStateChunk, 16]; for each head, the decays since the chunk's start [dk], then its keys, decayed since [kStateChunk, dk].
  int64_t open_floats() const { return panels() * kStateChunk * 16 + int64_t{heads} * (1 + kStateChunk) * dk; }
  int64_t state_floats() const { return matrix_floats() + open_floats(); }
};

}  // namespace isotope::ops
