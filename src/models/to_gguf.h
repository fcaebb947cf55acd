// A Hugging Face checkpoint in GGUF's words: keys, names and order of tensors. The vocabulary is added by who knows tokenizers.
#pragma once

#include <vector>

#include "weights/checkpoint.h"
#include "weights/convert.h"
#include "weights/gguf_writer.h"

namespace isotope::models {

struct GgufModel {
  weights::GgufValues values = {};
  std::vector<weights::Conversion> tensors = {};  ///< their types are F32 for numbers that must stay exact and the source's own for the rest
  int64_t layers = 0, experts = 0, vocab = 0;
  bool tied = false;
};

/// Fails for families without such a conversion, naming those that have one, and for settings that GGUF cannot say.
Result<GgufModel> to_gguf(const weights::Checkpoint&);

}  // namespace isotope::models
