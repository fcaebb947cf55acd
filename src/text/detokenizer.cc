#include "text/detokenizer.h"

#include <algorithm>

namespace isotope::text {
namespace {

constexpr size_t kLongestWindow = 256;  // tokens; a character has four bytes, so only odd decoders hold text for longer

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tok, bool skip_special, InvalidBytes invalid, DeltaReuse& reuse)
    : tok_(&tok), skip_special_(skip_special), invalid_(invalid), reuse_(&reuse), run_(tok.decoder(), invalid) {}

bool Detokenizer::put(int32_t token) {
  const auto text = tok_->decoder_text(token, skip_special_);
  if (text) run_.put(*text);
  return text.has_value();
}

void Detokenizer::prime(std::span<const int32_t> context) {
  for (const int32_t id : context) {
    put(id);
    run_.take();
  }
  window_.assign(context.begin(), context.end());
  read_ = window_.size();
}

/// An update after which nothing waits for later tokens ends the window; the next one begins with that update, whose text gives the place. An update of
/// tokens that are nothing gives no place.
void Detokenizer::settle(std::span<const int32_t> update, bool idle, bool nothing) {
  if (nothing) {
    window_.resize(std::min(read_, window_.size()));
  } else if (idle) {
    window_.assign(update.begin(), update.end());
    lost_ = false;
  }
  lost_ = lost_ || window_.size() > kLongestWindow;
  if (lost_) window_.clear();
  read_ = window_.size();
}

/// The text of the window's first tokens that is certain, or with what would be left at the end.
std::string Detokenizer::decode_window(size_t tokens, bool finish, bool* idle) const {
  DecodeRun run(tok_->decoder(), invalid_);
  for (size_t i = 0; i < tokens; i++)
    if (const auto text = tok_->decoder_text(window_[i], skip_special_)) run.put(*text);
  if (idle) *idle = run.idle();
  if (finish) run.finish();
  return run.take();
}

/// What the tokens behind `read_` add, by two decodes from the same place.
std::string Detokenizer::decoded_delta(bool& idle) const {
  const std::string before = decode_window(read_, false), after = decode_window(window_.size(), false, &idle);
  return after.substr(std::min(before.size(), after.size()));
}

std::string Detokenizer::add(std::span<const int32_t> tokens) {
  bool nothing = true;
  for (const int32_t id : tokens) nothing &= !put(id);
  std::string text = run_.take();
  bool idle = run_.idle();
  if (!lost_) window_.insert(window_.end(), tokens.begin(), tokens.end());
  const bool audit = reuse_->count_call(), reuse = reuse_->on();
  if (!reuse) reuse_->count_call_without_reuse();
  if ((audit || !reuse) && !lost_) {
    std::string decoded = decoded_delta(idle);
    if (reuse) {
      reuse_->count_audit();
      if (decoded != text) reuse_->mismatch();
    }
    text = std::move(decoded);
  } else {
    reuse_->count_reused();
  }
  settle(tokens, idle, nothing);
  return text;
}

std::string Detokenizer::finish() {
  run_.finish();
  std::string text = run_.take();
  if (reuse_->on() || lost_) return text;
  const std::string before = decode_window(window_.size(), false), after = decode_window(window_.size(), true);
  return after.substr(std::min(before.size(), after.size()));
}

}  // namespace isotope::text
