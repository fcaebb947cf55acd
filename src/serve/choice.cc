#include "serve/choice.h"

#include <algorithm>
#include <utility>

namespace isotope::serve {
namespace {

// The token's last byte has not been given out: it may be the beginning of a character, and what becomes of it belongs to this token.
bool may_grow(const text::Tokenizer& tok, int32_t token, std::string_view piece) {
  const std::string bytes = tok.token_bytes(token);
  if (bytes.empty() || static_cast<unsigned char>(bytes.back()) < 0x80) return false;
  return piece.empty() || piece.back() != bytes.back();
}

}  // namespace

Choice::Choice(const text::Tokenizer& tok, const OutputOptions& options, const Prompt& prompt)
    : tok_(tok), options_(options), prompt_(prompt), detok_(tok, options.skip_special), stop_(options.stop, options.include_stop) {
  if (!options.chat && !options.echo) {
    // Only whether a text went before and how its last character ended matters, so the end of a long prompt will do.
    const std::span<const int32_t> ids = prompt.ids;
    detok_.prime(ids.last(std::min<size_t>(ids.size(), 64)));
  }
  produced_ = options.prefix.size();  // belongs to no token
  release(options.prefix);
  if (options.echo && options.logprobs < 0) {
    // Without log-probabilities nothing has to be waited for.
    std::string pieces;
    for (const int32_t id : prompt.ids) pieces += detok_.add(id);
    release(prompt.has_text ? prompt.text : std::move(pieces));
    produced_ = released_;
    prompt_done_ = true;
  }
}

bool Choice::stop_token_asked() const {
  const auto& asked = options_.stop_token_ids;
  return stop_token_ >= 0 && std::find(asked.begin(), asked.end(), stop_token_) != asked.end();
}

void Choice::take(const Event& e) {
  if (finished()) return;
  if (options_.prompt_logprobs >= 0 && !e.prompt.empty()) prompt_logprobs_ = e.prompt;   // also where an echo went out before
  if (!prompt_done_) take_prompt(e);
  for (size_t i = 0; i < e.tokens.size() && !stopped_by_text_; ++i) take_token(e, i);
  if (!stopped_by_text_ && e.stop_token >= 0) {
    stop_token_ = e.stop_token;
    take_token(e, e.tokens.size());
  }
  if (stopped_by_text_) {
    end(FinishReason::stop);
  } else if (e.finish != FinishReason::none) {
    end(e.finish);
  }
}

void Choice::take_prompt(const Event& e) {
  prompt_done_ = true;
  if (!options_.echo) return;
  for (size_t i = 0; i < prompt_.ids.size(); ++i) {
    Entry entry{.token = prompt_.ids[i], .known = false};
    if (i < e.prompt.size() && !e.prompt[i].empty()) {
      const auto& list = e.prompt[i];
      entry.known = true;
      entry.logprob = list[0].logprob;
      const size_t most = 1 + size_t(std::max(options_.logprobs, 0));
      entry.top.assign(list.begin() + 1, list.begin() + ptrdiff_t(std::min(list.size(), most)));
    }
    add_piece(std::move(entry), detok_.add(prompt_.ids[i]), false);
  }
}

void Choice::take_token(const Event& e, size_t i) {
  const bool is_end = i == e.tokens.size();
  const int32_t token = is_end ? e.stop_token : e.tokens[i];
  Entry entry{.token = token};
  const bool counted = options_.logprobs >= 0 && i < e.logprobs.size();
  if (i < e.logprobs.size()) {
    entry.logprob = std::max(e.logprobs[i].logprob, -9999.0f);
    cumulative_ += entry.logprob;
  }
  if (i < e.top.size()) {
    entry.top = e.top[i];
    if (entry.top.size() > size_t(std::max(options_.logprobs, 0))) entry.top.resize(size_t(std::max(options_.logprobs, 0)));
  }
  ids_.push_back(token);
  const bool through_stops = count_ >= options_.min_tokens;
  ++count_;
  std::string piece = is_end && !options_.include_stop ? std::string() : detok_.add(token);
  if (is_end && !options_.include_stop && !counted) return;
  add_piece(std::move(entry), std::move(piece), through_stops);
}

void Choice::add_piece(Entry entry, std::string piece, bool through_stops) {
  produced_ += piece.size();
  if (options_.logprobs >= 0) {
    entry.text = piece;
    const bool grows = may_grow(tok_, entry.token, piece);
    waiting_.push_back({std::move(entry), produced_, grows});
  }
  if (!through_stops) return release(std::move(piece));
  std::string certain = stop_.add(piece);
  stopped_by_text_ = stop_.stopped();
  release(std::move(certain));
}

void Choice::release(std::string text) {
  released_ += text.size();
  text_ += text;
  release_entries();
}

void Choice::release_entries() {
  while (!waiting_.empty() && waiting_.front().end <= released_) {
    if (waiting_.size() == 1 && waiting_.front().may_grow && finish_ == FinishReason::none) return;
    entries_.push_back(std::move(waiting_.front().entry));
    waiting_.pop_front();
  }
}

void Choice::end(FinishReason reason) {
  finish_ = reason;
  if (stopped_by_text_) {
    release_entries();
  } else {
    std::string tail = detok_.finish();
    produced_ += tail.size();
    if (!waiting_.empty()) {
      waiting_.back().entry.text += tail;
      waiting_.back().end = produced_;
    }
    std::string rest = stop_.add(tail);
    if (!stop_.stopped()) rest += stop_.finish();
    release(std::move(rest));
    if (stop_.stopped()) {
      stopped_by_text_ = true;
      finish_ = FinishReason::stop;
    }
  }
  // A stop string cut the text: the entry that straddles the cut is shortened, what lies behind it is gone.
  for (Waiting& w : waiting_) {
    const size_t begin = w.end - w.entry.text.size();
    if (begin >= released_) break;
    w.entry.text.resize(released_ - begin);
    entries_.push_back(std::move(w.entry));
  }
  waiting_.clear();
}

}  // namespace isotope::serve
