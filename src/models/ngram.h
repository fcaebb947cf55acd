// Embeddings of n-grams that a layer adds to its residual streams (Qwen4-Exp): hashed rows of a table, a gate for each stream, a dilated short convolution.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/ngram.h"

namespace isotope::models {

struct ModelConfig;

/// What a layer that adds them keeps for each sequence: inputs of the convolution, then the last tokens.
int64_t ngram_floats(const ModelConfig&);

/// The numbers by which n-grams are hashed: all of them follow from the configuration and the layer's place among those that have such embeddings.
struct NgramHash {
  std::vector<int64_t> multipliers;            ///< [size]
  std::vector<int64_t> vocabularies, offsets;  ///< [(size - 1) * heads]
  int64_t rows = 0;                            ///< of the table
};
/// The vocabularies of all layers' heads, in their order: the primes from the configured size on.
std::vector<int64_t> ngram_primes(const ModelConfig&);
/// `primes`: of all layers.
NgramHash ngram_hash(const ModelConfig&, int place, const std::vector<int64_t>& primes);

struct NgramWeights {
  std::vector<ops::Linear> tables;      ///< one after the other [all vocabularies, width / heads]
  NgramHash hash;
  ops::Linear key, value;               ///< [N D, width], [D, width]
  std::vector<float> key_norm, query_norm, conv_norm;  ///< [N D], of each stream by itself
  ops::ShortConv conv;                  ///< over N D channels
};

}  // namespace isotope::models
