// Tokenizers from tokenizer.json, as Hugging Face tokenizers 0.23 reads it.
#pragma once

#include "isotope/engine.h"
#include "text/json_read.h"
#include "text/pipeline.h"

namespace isotope::text {

/// tokenizer.json with what tokenizer_config.json adds (named special tokens, add_bos_token). The sections `truncation` and `padding` are not used: they
/// describe batches for training, and a server never cuts or pads a prompt.
Result<Parts> parts_from_json(const VocabSource&);

// The sections, one function each.
Result<std::unique_ptr<Normalizer>> read_normalizer(Json, int depth = 0);
/// `raw_bytes`: set if the last step is a ByteLevel and the model can do its mapping itself; the steps then leave the bytes as they are.
Result<PreSteps> read_pre_tokenizer(Json, bool model_takes_raw_bytes, bool& raw_bytes);
Result<std::vector<DecoderStep>> read_decoder(Json, int depth = 0);
Result<PostProcessor> read_post_processor(Json, int depth = 0);
/// The model is one that can do a ByteLevel step's mapping itself.
bool takes_raw_bytes(Json model);
/// Fills vocab and model.
Result<void> read_model(Json, Parts&, bool raw_bytes);

}  // namespace isotope::text
