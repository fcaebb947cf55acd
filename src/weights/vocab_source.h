// Fills VocabSource from either container: plain facts for the text layer.
#pragma once

#include <string>

#include "isotope/engine.h"
#include "isotope/result.h"
#include "weights/metadata.h"

namespace isotope::weights {

/// From GGUF's tokenizer.* keys. A file without a tokenizer gives an empty source. vocab_size is the number of tokens.
Result<VocabSource> vocab_from_gguf(const Metadata&);
/// From tokenizer.json, tokenizer_config.json, generation_config.json, special_tokens_map.json and the chat template files of
/// `dir`; each may be absent.
Result<VocabSource> vocab_from_directory(const std::string& dir, const Metadata& config);

}  // namespace isotope::weights
