// From tokens to the text of one choice: detokenizer, stop strings, log-probability entries whose texts join to exactly the text that is sent.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "isotope/engine.h"
#include "serve/mailbox.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace isotope::serve {

struct Prompt {
  std::vector<int32_t> ids;
  std::string text;          ///< as the client wrote it; empty when it sent ids
  bool has_text = false;
  int64_t max_tokens = 16;
  int64_t salt_from = 0;     ///< first token that only requests of the same cache_salt share
  int64_t pin_tokens = 0;    ///< leading tokens to keep in the prefix cache
  int64_t truncated = 0;     ///< tokens cut off because the client asked for it
};

/// What the client wants of the text; the same for all choices of a call.
struct OutputOptions {
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop = false;
  bool skip_special = true;
  bool echo = false;          ///< the prompt's text comes first
  bool chat = false;          ///< a fresh text, not a continuation of the prompt's
  int64_t min_tokens = 0;     ///< stop strings count only in text after that many tokens
  int logprobs = -1;          ///< entries with that many alternatives; -1 = none
  int prompt_logprobs = -1;   ///< vLLM's own list for the prompt
  std::string prefix;         ///< text before the first token (chat with echo)
};

/// A token with the piece of text that it made certain. The pieces of all entries join to the choice's text.
struct Entry {
  int32_t token = -1;
  std::string text;
  float logprob = 0;
  bool known = true;                       ///< false: a prompt's first token has no probability
  std::vector<TokenLogprob> top;           ///< most likely first
};

class Choice {
 public:
  Choice(const text::Tokenizer&, const OutputOptions&, const Prompt&);

  void take(const Event&);

  bool finished() const { return finish_ != FinishReason::none; }
  FinishReason finish() const { return finish_; }
  /// The client's stop string was found: the engine does not know yet.
  bool stopped_by_text() const { return stopped_by_text_; }
  const std::string* stop_text() const { return stop_.matched(); }
  int32_t stop_token() const { return stop_token_; }
  /// stop_token() is one that the request named, not one of the model's own.
  bool stop_token_asked() const;

  /// What became certain since the last call.
  std::string take_text() { return std::exchange(text_, {}); }
  std::vector<Entry> take_entries() { return std::exchange(entries_, {}); }
  std::vector<int32_t> take_ids() { return std::exchange(ids_, {}); }
  bool has_news() const { return !text_.empty() || !entries_.empty() || !ids_.empty(); }

  int64_t tokens() const { return count_; }       ///< generated, the end token included
  double cumulative_logprob() const { return cumulative_; }
  const std::vector<std::vector<TokenLogprob>>& prompt_logprobs() const { return prompt_logprobs_; }

 private:
  void take_prompt(const Event&);
  void take_token(const Event&, size_t i);
  void add_piece(Entry entry, std::string piece, bool through_stops);
  void release(std::string text);
  void end(FinishReason);
  void release_entries();

  const text::Tokenizer& tok_;
  const OutputOptions& options_;
  const Prompt& prompt_;
  text::Detokenizer detok_;
  text::StopMatcher stop_;
  FinishReason finish_ = FinishReason::none;
  int32_t stop_token_ = -1;
  bool stopped_by_text_ = false, prompt_done_ = false;
  int64_t count_ = 0;
  double cumulative_ = 0;

  struct Waiting {
    Entry entry;
    size_t end;     ///< bytes of text up to and with this entry's piece
    bool may_grow;  ///< holds the beginning of a character
  };
  std::deque<Waiting> waiting_;
  size_t produced_ = 0, released_ = 0;  ///< bytes of text so far: made by tokens, let through by the stop matcher

  std::string text_;
  std::vector<Entry> entries_;
  std::vector<int32_t> ids_;
  std::vector<std::vector<TokenLogprob>> prompt_logprobs_;
};

}  // namespace isotope::serve
