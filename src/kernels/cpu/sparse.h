// Kernels of attention to chosen and compressed keys: an indexer's scores, and keys brought from where they are kept into tiles that attention.h walks.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention.h"

namespace isotope::kernels::cpu {

/// One token's indexer against tiles of keys: out(t) = sum over heads h = 0, 1 … of weights[h] · max(0, scale · q_h·K[t]), one fused multiply-add a head; with
/// weights null (one head) scale · q_0·K[t]. The products are those of attention.h, in its order and with its roundings.
struct IndexJob {
  const void* q = nullptr;       ///< made by pack_index() of the same format
  const float* weights = nullptr;///< [heads] or null
  int heads = 1, d = 0;          ///< d is a multiple of 8, at most kMaxHeadDim
  float scale = 1.0f;
  const KvTile* tiles = nullptr; ///< [count], keys alone
  int count = 0;
  float* out = nullptr;          ///< [16 * count]
};

/// Bytes of a token's packed queries.
constexpr int64_t index_query_bytes(int heads, int d) { return int64_t{4} * heads * padded_dim(d); }

/// A vector that is key and value in one, in a cache's format.
struct KvRow {
  void* data = nullptr;    ///< [d]
  float* scale = nullptr;  ///< scaled formats only
};

/// A compressed entry: out[j] = sum over i of softmax over i (gates[i][j] + bias[i][j]) · inputs[i][j], i ascending; the weights' sum divides at the end.
struct CompressJob {
  const float* const* inputs = nullptr;  ///< [n] rows of d
  const float* const* gates = nullptr;
  const float* const* bias = nullptr;
  int n = 0, d = 0;
  float* out = nullptr;  ///< [d]
};

struct SparseKernels {
  /// Heads [heads, d] as index() wants them.
  void (*pack_index[int(KvFormat::count_)])(void* out, const float* q, int heads, int d) noexcept;
  /// Called between enter() and leave() of AttentionKernels, like chunk().
  void (*index[int(KvFormat::count_)])(const IndexJob&) noexcept;
  /// Stores one token's key [d] as number `t` of a tile without values.
  void (*write_key[int(KvFormat::count_)])(const KvTile& tile, int t, const float* k, int d) noexcept;
  void (*write_row[int(KvFormat::count_)])(const KvRow& row, const float* x, int d) noexcept;
  /// Token `from` of a tile becomes token `to` of another one, bit by bit; of a tile without values the key is the value as well.
  void (*copy_token[int(KvFormat::count_)])(const KvTile& out, int to, const KvTile& tile, int from, int d) noexcept;
  /// A row becomes key and, unless the tile has none, value of token `to`.
  void (*copy_row[int(KvFormat::count_)])(const KvTile& out, int to, const KvRow& row, int d) noexcept;
  void (*compress)(const CompressJob&) noexcept;
};

}  // namespace isotope::kernels::cpu
