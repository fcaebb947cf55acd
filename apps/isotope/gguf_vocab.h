// A published tokenizer.json as the vocabulary of a GGUF file.
#pragma once

#include <cstdint>
#include <string>

#include "isotope/engine.h"
#include "isotope/result.h"
#include "weights/gguf_writer.h"

namespace isotope::app {

/// Puts tokenizer.ggml.* and the chat template. `rows` is the height of the embedding: tokens are padded to it with unused ones. `pre` names the rule that cuts
/// texts before merging (tokenizer.ggml.pre); empty: found by the rule in tokenizer.json. Fails for tokenizers that GGUF has no form for, by name.
Result<void> put_vocab(weights::GgufValues&, const VocabSource&, int64_t rows, const std::string& pre);

}  // namespace isotope::app
