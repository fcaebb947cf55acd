// Token texts back to text. One implementation for whole lists and for streams: decode() of a list is its stream, so that the two cannot differ.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"

namespace isotope::text {

/// What becomes of byte tokens (<0xE4> …) that do not form UTF-8. For byte-level vocabularies the two are the same.
enum class InvalidBytes {
  one_per_part,   ///< one U+FFFD for each maximal invalid part, as soon as it is certain; valid characters come through at once
  as_published,   ///< as the `tokenizers` library: if a run of byte tokens is not valid as a whole, every byte of it becomes U+FFFD
};

/// One decoder of the chain, as in tokenizer.json; `bytes` takes tokens that are raw bytes already.
struct DecoderStep {
  enum class Kind { bytes, byte_level, byte_fallback, metaspace, fuse, strip, replace, word_piece, ctc, bpe } kind;
  std::string content;              ///< metaspace: replacement; strip: the character; replace: what to put; word_piece: prefix; ctc: pad token; bpe: suffix
  std::string literal;              ///< replace: what to look for (or `regex`); ctc: word delimiter
  std::shared_ptr<const Regex> regex;
  size_t start = 0, stop = 0;       ///< strip
  bool flag = false;                ///< word_piece, ctc: clean up; metaspace: the first token loses its replacement characters
};

/// The state of one stream.
class DecodeRun {
 public:
  class Stage;
  DecodeRun(const std::vector<DecoderStep>& steps, InvalidBytes);
  ~DecodeRun();
  void put(std::string_view token_text);
  void finish();
  /// Nothing waits for a later token: what comes next adds to a finished text.
  bool idle() const;
  /// The text that has become certain since the last call.
  std::string take();

 private:
  std::vector<std::unique_ptr<Stage>> stages_;
  std::string out_;
};

/// The bytes a token stands for in the middle of a text.
std::string token_text_bytes(const std::vector<DecoderStep>& steps, std::string_view token);

}  // namespace isotope::text
