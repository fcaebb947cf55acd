// Kernels of layers that carry a state from token to token: short convolutions, the gated delta rule, selective state spaces. Each walks the tokens of one
// sequence one after the other, or in chunks anchored at position 0, so that its result does not depend on where a prompt is cut; sixteen lanes are sixteen
// channels of the output.
#pragma once

#include <cstdint>

namespace isotope::kernels::cpu {

constexpr int kMaxConvWidth = 8;
constexpr int kStateChunk = 8;  ///< tokens between two matrix states: a build constant, it decides bits

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

// The matrix states of the gated delta rule and of Mamba 2 in chunks. A chunk is kStateChunk tokens aligned to absolute position 0; with S the state at its
// start, key k and decay alpha of its rows 0 … i, w(i, j) = alpha(j + 1) · … · alpha(i) and reach(i) = alpha(0) · … · alpha(i):
//   gated delta rule  u(i) = beta(i) · (v(i) - reach(i) · Sᵀk(i) - sum over j < i of w(i, j) (k(j)·k(i)) u(j))
//   Mamba 2           u(i) = dt(i) · x(i), with k = B and q = C
//   out(i) = reach(i) · Sᵀq(i) + sum over j <= i of w(i, j) (k(j)·q(i)) u(j)
//   S at the next start = reach(last) · S + sum over j of k(j) (w(last, j) u(j))ᵀ
// All sums over j ascend; Sᵀk and Sᵀq are two chains over the even and the odd rows of S. No product depends on where a step begins or ends: the rows of
// a chunk that is not complete are kept (u, k, alpha) and the state stays as it was. Decoding so reads the state and writes it once a chunk.
// Chunked delta rule: Yang et al. 2024 (arXiv:2406.06484); state space duality: Dao, Gu 2024.

/// What multiplies what in one row i of a chunk, of one head; entries j > i are not read.
struct StateRow {
  float kk[kStateChunk];     ///< -w(i, j) · (k(j)·k(i)), j < i
  float kq[kStateChunk];     ///< w(i, j) · (k(j)·q(i))
  float carry[kStateChunk];  ///< w(i, j)
  float reach, step;         ///< step: beta or dt
  float unused[6];
};

/// The rows of some tokens of one sequence, of all heads with the same keys. The first token is the step's first or begins a chunk.
struct StateRowsJob {
  StateRow* rows;             ///< of the first token and head, tokens side by side
  const float *q, *k;         ///< of the first token
  const float *alpha, *step;  ///< of the first token and head
  float* open_keys;           ///< [kStateChunk, depth]
  float* open_alpha;          ///< [kStateChunk] of the first head, then of the next
  int64_t next_head;          ///< heads from one of these to the next
  int64_t head_rows;          ///< rows that each head has
  int64_t qk_stride, gate_stride;  ///< elements between tokens
  int64_t tokens;
  int at;                     ///< rows that the chunk of the first token has already
  int keep;                   ///< so many of the first tokens join the open rows
  int depth, heads;
};

/// Sixteen columns of one head's matrix over the tokens of one sequence.
struct StateChunksJob {
  float* state;             ///< [depth, 16] at the start of the open chunk, read and replaced
  float* open;              ///< [kStateChunk, 16]: u of its rows, read and replaced
  const float* open_keys;   ///< [kStateChunk, depth]
  const StateRow* rows;     ///< [tokens]
  const float *q, *k, *x;   ///< of the first token; x (v of the delta rule) of the first column
  float skip;               ///< Mamba 2: out += skip · x
  float* out;
  int64_t qk_stride, x_stride, out_stride;  ///< elements between tokens
  int64_t tokens;
  int at, depth, lanes;
};

struct RecurrentKernels {
  void (*conv)(const ConvJob&) noexcept;
  void (*delta)(const DeltaJob&) noexcept;
  void (*ssd)(const ScanJob&) noexcept;   ///< Mamba 2: dt, alpha and d are those of one head
  void (*scan)(const ScanJob&) noexcept;  ///< Mamba 1: each lane has its own
  void (*state_rows)(const StateRowsJob&) noexcept;
  void (*delta_chunks)(const StateChunksJob&) noexcept;  ///< what delta() computes token by token, but for rounding
  void (*ssd_chunks)(const StateChunksJob&) noexcept;    ///< the same of ssd()
  /// dt = clamp(softplus(x + bias), low, high); alpha = e^(neg_a · dt) if neg_a is given. bias may be null.
  void (*gates)(float* dt, float* alpha, const float* x, const float* bias, const float* neg_a, int64_t n, float low, float high) noexcept;
  /// x = x · sigmoid(gate)
  void (*sigmoid_mul)(float* x, const float* gate, int64_t n) noexcept;
  /// x = x · y
  void (*mul)(float* x, const float* y, int64_t n) noexcept;
};

}  // namespace isotope::kernels::cpu
