// What a model's files say about making one vector of a text: modules.json and its folders (sentence-transformers), or GGUF's pooling_type.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isotope/options.h"
#include "isotope/result.h"
#include "weights/checkpoint.h"

namespace isotope::weights {

struct PoolingFacts {
  std::optional<Pooling> pooling;
  std::optional<bool> normalize;
  int64_t max_length = 0;           ///< tokens of one text; 0 = the files do not say
  bool shortens = false;            ///< vectors may be cut ("Matryoshka")
  std::vector<int64_t> lengths;     ///< to these; empty = any
};

/// `path`: what the checkpoint was opened from. A step that is not known (a dense layer behind the pooling, several poolings side by side) is an error.
Result<PoolingFacts> pooling_facts(const Checkpoint&, const std::string& path);

}  // namespace isotope::weights
