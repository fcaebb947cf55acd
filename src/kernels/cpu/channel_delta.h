// Kernels of the gated delta rule with a decay for each channel of the keys (Kimi Delta Attention).
#pragma once

#include <cstdint>

#include "kernels/cpu/recurrent.h"

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

// The same in chunks, as recurrent.h has them. Decays are vectors over the channels of the keys: with g(i) = alpha(0) ∘ … ∘ alpha(i) and
// w(i, j) = alpha(j + 1) ∘ … ∘ alpha(i)
//   u(i) = beta(i) · (v(i) - Sᵀ(g(i) ∘ k(i)) - sum over j < i of ((w(i, j) ∘ k(j))·k(i)) u(j))
//   out(i) = Sᵀ(g(i) ∘ q(i)) + sum over j <= i of ((w(i, j) ∘ k(j))·q(i)) u(j)
//   S at the next start = diag(g(last)) S + sum over j of (w(last, j) ∘ k(j)) u(j)ᵀ
// Decays are multiplied up row by row and never divided by, so that strong ones do no harm. A chunk that is not complete keeps u, g and the keys as
// decayed so far, w(last, j) ∘ k(j).

/// Rows of one head over some tokens of one sequence. The first token is the step's first or begins a chunk.
struct ChannelRowsJob {
  StateRow* rows;             ///< [tokens]
  float *q, *k;               ///< of the first token; multiplied by g
  const float *alpha, *beta;  ///< of the first token
  int64_t qk_stride, alpha_stride, beta_stride;  ///< elements between tokens
  int64_t tokens;
  float* carried;             ///< [1 + kStateChunk, dk] of the first token's chunk: g, then its keys; read where `at` is above 0, replaced
  float* next;                ///< the same of the chunks behind it, one after the other
  int at;                     ///< rows that the chunk of the first token has already
  int dk;
};

/// Sixteen columns of one head's matrix over the tokens of one sequence.
struct ChannelChunksJob {
  StateChunksJob walk;        ///< with q and k as the rows' job left them; open_keys is not read
  const float *carried, *next;///< as the rows' job left them
};

struct ChannelDeltaKernels {
  void (*delta)(const ChannelDeltaJob&) noexcept;
  /// x = e^(-rate · softplus(x + bias)), or, where floor is below 0, e^(floor · sigmoid(rate · (x + bias))).
  void (*decays)(float* x, const float* rate, const float* bias, int64_t n, float floor) noexcept;
  void (*rows)(const ChannelRowsJob&) noexcept;
  void (*chunks)(const ChannelChunksJob&) noexcept;  ///< what delta() computes token by token, but for rounding
};

}  // namespace isotope::kernels::cpu
