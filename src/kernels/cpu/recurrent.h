// Kernels of layers that carry a state from token to token: short convolutions, the gated delta rule, selective state spaces. Each walks the tokens of one
// sequence one after the other, so that its result does not depend on where a prompt is cut; sixteen lanes are sixteen channels of the output.
#pragma once

#include <cstdint>

namespace isotope::kernels::cpu {

constexpr int kMaxConvWidth = 8;

/// Causal depthwise convolution of some channels over the tokens of one sequence; in and out may be the same.
struct ConvJob {
  const float* in;
  float* out;
  int64_t in_stride, out_stride;  ///< elements between tokens
  int64_t tokens;
  const float* weight;            ///< [width, channels], the oldest input first
  const float* bias;              ///< [channels] or null
  float* state;                   ///< [width - 1, channels]: the last inputs, the oldest first; read and replaced
  int64_t channels;
  int64_t begin, end;             ///< the channels to compute; begin is a multiple of 16
  int width;                      ///< 2 to kMaxConvWidth
  bool silu;
};

/// Sixteen columns of one head's matrix S [dk, dv]. For each token, with the state before it: u = beta · (v - alpha · Sᵀk), S = alpha · S + k uᵀ, out = Sᵀq.
struct DeltaJob {
  float* state;             ///< [dk, 16], read and replaced
  const float *q, *k, *v;   ///< of the first token; v of the first column
  const float *alpha, *beta;///< decay and step of the first token
  float* out;
  int64_t qk_stride, v_stride, gate_stride, out_stride;  ///< elements between tokens
  int64_t tokens;
  int dk, lanes;            ///< columns that exist, 1 to 16
};

/// Sixteen channels of a state space with N states each. For each token H = decay · H + (dt · x) Bᵀ, out = H C + d · x.
struct ScanJob {
  float* state;             ///< [N, 16], read and replaced
  const float *x, *b, *c;   ///< of the first token
  const float* dt;          ///< one number a token, or `lanes`
  const float* alpha;       ///< decay of the first token for all states (Mamba 2), or null
  const float* neg_a;       ///< [N, 16]: the decay is e^(dt · neg_a) for each channel and state (Mamba 1), or null
  const float* d;           ///< one number, or `lanes`
  float* out;
  int64_t x_stride, bc_stride, dt_stride, out_stride;
  int64_t tokens;
  int states, lanes;
};

struct RecurrentKernels {
  void (*conv)(const ConvJob&) noexcept;
  void (*delta)(const DeltaJob&) noexcept;
  void (*ssd)(const ScanJob&) noexcept;   ///< Mamba 2: dt, alpha and d are those of one head
  void (*scan)(const ScanJob&) noexcept;  ///< Mamba 1: each lane has its own
  /// dt = clamp(softplus(x + bias), low, high); alpha = e^(neg_a · dt) if neg_a is given. bias may be null.
  void (*gates)(float* dt, float* alpha, const float* x, const float* bias, const float* neg_a, int64_t n, float low, float high) noexcept;
  /// x = x · sigmoid(gate)
  void (*sigmoid_mul)(float* x, const float* gate, int64_t n) noexcept;
  /// x = x · y
  void (*mul)(float* x, const float* y, int64_t n) noexcept;
};

}  // namespace isotope::kernels::cpu
