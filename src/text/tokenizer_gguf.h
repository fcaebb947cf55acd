// Tokenizers from the vocabulary facts of GGUF files (tokenizer.ggml.*).
#pragma once

#include "isotope/engine.h"
#include "text/pipeline.h"

namespace isotope::text {

Result<Parts> parts_from_gguf(const VocabSource&);
/// Fills eog_ids with the end tokens known by name that the vocabulary has as control tokens, and the file's own.
void collect_end_tokens(Parts&, const VocabSource&);

}  // namespace isotope::text
