#include "text/tokenizer.h"

#include "text/tokenizer_gguf.h"
#include "text/tokenizer_json.h"

namespace isotope::text {

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(const VocabSource& source) {
  ISO_TRY(Parts parts, source.tokenizer_json.empty() ? parts_from_gguf(source) : parts_from_json(source));
  collect_end_tokens(parts, source);
  return std::make_unique<Pipeline>(std::move(parts));
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special, InvalidBytes invalid) const {
  DecodeRun run(decoder(), invalid);
  for (const int32_t id : ids) {
    const std::string_view text = decoder_text(id, skip_special);
    if (text.data() != nullptr) run.put(text);
  }
  run.finish();
  return run.take();
}

}  // namespace isotope::text
