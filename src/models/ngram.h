// Embeddings of n-grams that a layer adds to its residual streams (Qwen4-Exp): hashed rows of a table, a gate for each stream, a dilated short convolution.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/ngram.h"

namespace isotope::models {

struct NgramWeights {
  std::vector<ops::Linear> tables;      ///< one after the other [all vocabularies, width / heads]
  std::vector<int64_t> multipliers, vocabularies, offsets;  ///< see ops::NgramArgs
  ops::Linear key, value;               ///< [N D, width], [D, width]
  std::vector<float> key_norm, query_norm, conv_norm;  ///< [N D], of each stream by itself
  ops::ShortConv conv;                  ///< over N D channels
};

}  // namespace isotope::models
