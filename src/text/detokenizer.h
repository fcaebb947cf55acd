// Incremental decoding: what is emitted is always whole UTF-8, and the pieces concatenate to decode() of all ids.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/decoder.h"
#include "text/delta_reuse.h"
#include "text/tokenizer.h"

namespace isotope::text {

class Detokenizer {
 public:
  Detokenizer(const Tokenizer&, bool skip_special, InvalidBytes invalid = InvalidBytes::one_per_part, DeltaReuse& reuse = DeltaReuse::process());
  /// For text that continues a prompt (completions): earlier ids give the decoder its context (leading-space rules) without being emitted.
  void prime(std::span<const int32_t> context);
  /// Text that has become certain with this token; may be empty. Cost does not grow with the number of tokens so far; a byte that can no longer become
  /// a character is emitted as U+FFFD at once.
  std::string add(int32_t token) { return add({&token, 1}); }
  std::string add(std::span<const int32_t> tokens);   ///< of several tokens at once
  /// The incomplete tail, as U+FFFD per maximal invalid part.
  std::string finish();

 private:
  friend class ReuseProbe;
  bool put(int32_t token);   ///< false: the token is nothing
  void settle(std::span<const int32_t> update, bool idle, bool nothing);
  std::string decode_window(size_t tokens, bool finish, bool* idle = nullptr) const;
  std::string decoded_delta(bool& idle) const;

  const Tokenizer* tok_;
  bool skip_special_;
  InvalidBytes invalid_;
  DeltaReuse* reuse_;
  DecodeRun run_;                    ///< has read every token, whether its text is used or not
  // The window that a decode without reuse needs: the tokens of the last finished update and those behind it.
  std::vector<int32_t> window_;
  size_t read_ = 0;                  ///< of these, the text of so many has been given out
  bool lost_ = false;                ///< the window grew too long without a finished update; only the run knows the text
};

/// Finds stop strings in a growing text. Text is held back only while it may still become a stop string.
class StopMatcher {
 public:
  /// Empty stop strings are ignored. Of several that match, the one that is complete first wins, so that the result does not depend on how the text was
  /// cut; of those that end together the one that starts first.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false);
  /// Returns text that may be sent now. Once a stop string was found, returns the text before it (and the string itself if asked) and nothing more after.
  std::string add(std::string_view text);
  std::string finish();                       ///< held text when generation ended otherwise
  bool stopped() const { return found_ >= 0; }
  const std::string* matched() const { return found_ < 0 ? nullptr : &stops_[size_t(found_)]; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool include_;
  int found_ = -1;
};

}  // namespace isotope::text
