// Weights of attention that does not see every key: the indexer that chooses them, and DeepSeek V4's compressed attention.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/sparse.h"

namespace isotope::models {

/// What turns comes first in its heads.
struct Indexer {
  ops::Linear q;                     ///< [heads * dim, D or the rank of compressed queries]
  ops::Linear k;                     ///< [dim, D]; empty where keys are compressed
  ops::Linear pool_gate;             ///< [dim, D], where several tokens make a key by gates
  std::vector<float> pool_bias;      ///< [tokens to a key, dim]
  ops::Linear weights;               ///< [heads, D]; empty where each head chooses for itself
  std::vector<float> q_norm;         ///< [dim] or empty
  std::vector<float> k_norm, k_bias; ///< [dim]; a bias makes it a LayerNorm
};

/// Makes compressed keys: see ops::CompressArgs.
struct Compressor {
  ops::Linear inputs, gates;         ///< [series * dim, D]
  std::vector<float> bias;           ///< [ratio, series * dim]
  std::vector<float> norm;           ///< [dim]
  explicit operator bool() const { return bool(inputs); }
};

/// A layer of DeepSeek V4 but for its norms and experts.
struct CompressedWeights {
  ops::Linear q_a, q_b, kv;          ///< [q_rank, D], [H * d, q_rank], [d, D]
  std::vector<float> q_norm, kv_norm;///< [q_rank], [d]
  std::vector<ops::Linear> o_a;      ///< of each group of heads [out_rank, its heads * d]
  Compressor entries, index;         ///< empty where the layer has no compressed keys, no indexer
};

/// Residual streams around a layer's blocks.
struct LayerStreams {
  ops::Streams attn, ffn;            ///< around attention or the mixer, around the feed-forward block
};

/// Beside an n-gram table, which stays in the file.
struct EngramWeights {
  ops::Linear kv;                             ///< [(N + 1) D, rows of a token]: a key for each residual stream, then the value
  std::vector<float> q_weight, k_weight;      ///< [N, D] norms of the streams and of the keys
};

struct ModelConfig;
struct LayerConfig;
/// Tokens back to which the inputs of a layer's next compressed key, or of its indexer's, reach; 0 = the layer has none.
int64_t kept_inputs(const ModelConfig&, const LayerConfig&);

}  // namespace isotope::models
