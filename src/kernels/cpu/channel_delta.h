// Kernels of the gated delta rule with a decay for each channel of the keys (Kimi Delta Attention).
#pragma once

#include <cstdint>

namespace isotope::kernels::cpu {

/// Sixteen columns of one head's matrix S [dk, dv]. For each token, with the state before it: S = diag(alpha)·S, u = beta · (v - Sᵀk), S = S + k uᵀ, out = Sᵀq.
struct ChannelDeltaJob {
  float* state;                 ///< [dk, 16], read and replaced
  const float *q, *k, *alpha;   ///< [dk] of the first token each
  const float* v;               ///< of the first token's first column
  const float* beta;            ///< of the first token
  float* out;
  int64_t q_stride, k_stride, alpha_stride, v_stride, beta_stride, out_stride;  ///< elements between tokens
  int64_t tokens;
  int dk, lanes;                ///< columns that exist, 1 to 16
};

struct ChannelDeltaKernels {
  void (*delta)(const ChannelDeltaJob&) noexcept;
  /// x = e^(-rate · softplus(x + bias)), or, where floor is below 0, e^(floor · sigmoid(rate · (x + bias))).
  void (*decays)(float* x, const float* rate, const float* bias, int64_t n, float floor) noexcept;
};

}  // namespace isotope::kernels::cpu
