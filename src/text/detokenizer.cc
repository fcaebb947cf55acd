#include "text/detokenizer.h"

namespace isotope::text {

Detokenizer::Detokenizer(const Tokenizer& tok, bool skip_special, InvalidBytes invalid) : tok_(&tok), skip_special_(skip_special), run_(tok.decoder(), invalid) {}

void Detokenizer::put(int32_t token) {
  if (const auto text = tok_->decoder_text(token, skip_special_)) run_.put(*text);
}

void Detokenizer::prime(std::span<const int32_t> context) {
  for (const int32_t id : context) {
    put(id);
    run_.take();
  }
}

std::string Detokenizer::add(int32_t token) {
  put(token);
  return run_.take();
}

std::string Detokenizer::finish() {
  run_.finish();
  return run_.take();
}

}  // namespace isotope::text
