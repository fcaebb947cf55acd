// Text to token ids and back, id for id as the published tokenizer does it. An unknown component is a load error, never a guess.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isotope/engine.h"
#include "isotope/result.h"

namespace isotope::text {

class Tokenizer {
 public:
  /// From tokenizer.json when the source has one, else from GGUF vocabulary facts.
  static Result<std::unique_ptr<Tokenizer>> create(const VocabSource&);
  virtual ~Tokenizer() = default;

  /// add_special: run the post-processor (BOS, EOS). parse_special: text that spells a control token becomes that token; off for user content.
  /// Invalid UTF-8 is replaced by U+FFFD per maximal invalid part. Thread-safe.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const = 0;

  /// Pieces of a rendered template: `special` says whether control-token text in the piece may become control tokens (template text: yes, content: no).
  /// The pieces are encoded as one text, so that merges cross piece borders exactly as the reference would.
  struct Piece { std::string text; bool special = true; };
  virtual std::vector<int32_t> encode_pieces(std::span<const Piece> pieces, bool add_special) const = 0;

  /// As `tokenizers` decode(): includes the decoder's clean-ups. Ids outside the vocabulary are skipped.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special) const = 0;
  /// The raw bytes a token stands for (byte tokens: one byte). Control tokens: their text.
  virtual std::string token_bytes(int32_t id) const = 0;
  virtual std::string_view token_text(int32_t id) const = 0;   ///< as in the vocabulary ("Ġthe", "▁the", "<0x0A>"); empty if out of range
  virtual int32_t token_id(std::string_view text) const = 0;   ///< -1 if absent
  virtual bool is_special(int32_t id) const = 0;
  virtual int64_t size() const = 0;                            ///< highest id + 1
  virtual int32_t bos_id() const = 0;
  virtual int32_t eos_id() const = 0;
  virtual bool adds_bos() const = 0;
};

}  // namespace isotope::text
