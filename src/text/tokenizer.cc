#include "text/tokenizer.h"

#include "text/tokenizer_gguf.h"
#include "text/tokenizer_json.h"

namespace isotope::text {

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(const VocabSource& source) {
  if (source.tokenizer_json.empty() && source.gguf_model.empty() && source.tokens.empty()) {
    return fail(Code::not_found, "the model has no tokenizer: neither a tokenizer.json nor a vocabulary in a GGUF file", {},
                "put the model's tokenizer.json into its folder; `isotope logits` needs none");
  }
  ISO_TRY(Parts parts, source.tokenizer_json.empty() ? parts_from_gguf(source) : parts_from_json(source));
  collect_end_tokens(parts, source);
  return std::make_unique<Pipeline>(std::move(parts));
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special, InvalidBytes invalid) const {
  DecodeRun run(decoder(), invalid);
  for (const int32_t id : ids)
    if (const auto text = decoder_text(id, skip_special)) run.put(*text);
  run.finish();
  return run.take();
}

const std::vector<DecoderStep>& Tokenizer::decoder() const {
  static const std::vector<DecoderStep> kBytes{{.kind = DecoderStep::Kind::bytes}};
  return kBytes;
}

std::optional<std::string> Tokenizer::decoder_text(int32_t id, bool skip_special) const {
  if (skip_special && is_special(id)) return std::nullopt;
  return token_bytes(id);
}

}  // namespace isotope::text
