// What the families with sparse attention call beyond Ops: an indexer's choice of keys, attention to the chosen ones, compressed keys, residual streams.
// A backend has all of it or none (Ops::sparse()). As in Ops a row's result depends on that row and on the KV it may see alone (contract 1).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/ngram.h"
#include "ops/engram.h"
#include "ops/ops.h"

namespace isotope::ops {

/// Queries and keys of an indexer (DeepSeek V3.2, arXiv:2512.02556): the score of key s for token t is the sum over heads, in ascending order, of
/// weights[t, h] · max(0, scale · q[t, h]·k[s]). Keys are read as the cache stores them. Of equal scores the lower position wins.
struct IndexArgs {
  Tensor q;                ///< [T, heads * dim], normed and rotated
  Tensor k;                ///< [T, dim] normed and rotated, stored by the op; empty: `layer` holds compressed keys already
  Tensor weights;          ///< [T, heads]; empty: each head chooses for a kv head of its own, by the products themselves
  bool summed = false;     ///< without weights: one choice for all kv heads, as if every weight were one
  int layer = 0;           ///< KvForm::keys, or KvForm::rows for compressed keys
  int heads = 0, dim = 0;
  float scale = 1.0f;
  int64_t top = 0;         ///< how many keys, or blocks of them, a token gets
  int block = 1, local = 0;///< keys of a block, which counts by its best one; so many blocks up to the query's own are among the chosen in any case
  bool tokens = false;     ///< compressed keys: chosen are the tokens that they stand for, and in any case those that no whole key stands for yet
  // DeepSeek V4.1 chooses in two steps: one layer finds the best blocks, later ones look at keys of those alone.
  int64_t blocks = 0;      ///< above 0: the best so many blocks of `block_keys` keys are remembered, the newest one in any case
  int block_keys = 0;
  bool within = false;     ///< chosen are keys of the blocks that were remembered last. REQUIRES: as many keys to see as there were then
};

/// Makes an entry of each `ratio` tokens, once the last of them is there: the mean of the tokens' inputs, for each dimension weighted by the softmax of its
/// gates, then a norm and a rotation by the first token's position. With two series an entry covers the tokens of the window before it as well: those give
/// their first series, its own the second one.
struct CompressArgs {
  Tensor inputs, gates;    ///< [T, series * dim]; without gates all tokens weigh the same
  std::span<const float> bias;  ///< [ratio, series * dim] added to the gates by place in the window
  std::optional<Norm> norm;
  const Rope* rope = nullptr;   ///< null = entries do not turn
  int ratio = 0, series = 1, dim = 0;
  int kept = 0;            ///< KvForm::floats: where inputs and gates of the last windows are kept
  int64_t offset = 0;      ///< and from which of its numbers on: series * dim inputs, then as many gates
  int entries = 0;         ///< KvForm::rows with `every` = ratio
};

/// Attention to vectors that are key and value in one: of the last `window` tokens, then of compressed entries, those that were chosen last or all.
struct CompressedArgs {
  Tensor q, kv;            ///< [T, heads * dim], [T, dim], normed and rotated; kv is stored by the op
  int heads = 0, dim = 0;
  float scale = 1.0f;
  std::span<const float> sinks;  ///< [heads] or empty
  int recent = 0;          ///< KvForm::rows of the tokens
  int64_t window = 0;
  int entries = -1;        ///< KvForm::rows of compressed keys; -1 = none
  bool chosen = false;     ///< only entries that choose_keys() chose last
};

/// Residual streams (hyper-connections constrained to a manifold, mHC): what a block reads is a mixture of N streams, what it gives is added to each of them
/// with a weight of its own, and the streams are mixed by a doubly stochastic matrix. All weights come from the streams themselves.
/// Without iterations the streams are not mixed with each other. With `down` (Qwen4-Exp) the mixture is one of each dimension by itself: the mean of the normed
/// streams, each times sigmoid(up(silu(down(x) / N))), and what is given is added with 2 · sigmoid(mix(x) / N); there are no base and no scale then.
struct Streams {
  Linear mix;              ///< [(2 + N) N, N D] held as float32; [2 N, N D] without iterations; [N, N D] where the streams come together for good, or empty:
                           ///< their mean is taken. With `down` [N, N D], or empty where they come together
  std::vector<float> base; ///< as many as mix has rows
  std::vector<float> scale;///< [3]: of what is read, of what is added, of the matrix, [2] without it; [1] where they come together
  int streams = 0, iterations = 0;
  float eps = 0, norm_eps = 0;
  float magnitude = 2, added_eps = 0;  ///< what a block gives is added times magnitude · sigmoid + added_eps
  Linear down, up;         ///< [r, N D], [N D, r]; or empty
  std::vector<float> norm; ///< [N D] of each stream by itself, with `down`
  explicit operator bool() const { return streams > 0; }
};

/// What a block reads, and with which weights its result goes back.
struct StreamStep {
  Tensor x;                ///< [T, D]
  Tensor weights;          ///< [T, N + N * N]: of the result for each stream, then the matrix; [T, N] where streams are not mixed
};

/// What a token's n-grams add to its streams: stream s of the result is sigmoid(g) · values, g the signed root of keys · queries / sqrt(D) of that stream.
struct StreamGateArgs {
  Tensor keys, queries;    ///< [T, N * D], normed
  Tensor values;           ///< [T, D]
  int streams = 0;
};

/// REQUIRES of all: Ops::begin() has been called; tensors live as long as those of Ops.
class SparseOps {
 public:
  virtual ~SparseOps() = default;

  /// Chooses for each token of the batch; the choice holds until the next one in this step.
  virtual void choose_keys(const IndexArgs&) = 0;
  /// Ops::attend() to the keys that choose_keys() chose last: one choice for all kv heads, or one for each. [T, H*d]
  virtual Tensor attend_chosen(AttentionArgs) = 0;
  virtual void compress(const CompressArgs&) = 0;
  virtual Tensor attend_compressed(const CompressedArgs&) = 0;          ///< [T, heads * dim]

  /// act(g) · u with g at most `limit` and u within ±limit; alpha above 0: g · sigmoid(alpha · g) · (u + 1).
  virtual Tensor clamped_act_mul(Tensor gate, Tensor up, Activation, float limit, float alpha) = 0;

  virtual Tensor spread(Tensor x, int streams) = 0;                     ///< every stream begins as x: [T, N * D]
  virtual StreamStep enter(Tensor streams, const Streams&) = 0;
  virtual void leave(Tensor streams, const StreamStep&, Tensor y) = 0;  ///< stream k = weight k · y + sum over j of matrix[j, k] · stream j
  virtual Tensor join(Tensor streams, const Streams&) = 0;              ///< [T, D]

  virtual Tensor embed_ngrams(const NgramArgs&) = 0;                    ///< [T, heads * dim]
  virtual Tensor gate_streams(const StreamGateArgs&) = 0;               ///< [T, N * D]
  // ---- DeepSeek V4.1; see engram.h --------------------------------------------------------------------------------------------------
  /// enter() where a block reads the streams by the weights that the one before it left, [T, N]; `read` becomes the next one's. Empty: the first stream.
  virtual StreamStep enter_late(Tensor streams, const Streams&, Tensor& read) = 0;
  virtual Tensor blend(Tensor streams, Tensor weights) = 0;             ///< the streams of a row by its weights [T, N]: [T, D]
  /// compress() up to the norm: one row for each window that ends in the batch, [W, dim]; empty if none does. `rope` and `entries` do not matter.
  virtual Tensor pool(const CompressArgs&) = 0;
  virtual void store_entries(const EntryArgs&) = 0;
  virtual void prefetch_rows(const RowsArgs&) = 0;                      ///< asks for the memory of rows that take_rows() will read
  virtual Tensor take_rows(const RowsArgs&) = 0;                        ///< [T, each * dim]
  virtual void add_memory(Tensor streams, const MemoryArgs&) = 0;
};

}  // namespace isotope::ops
