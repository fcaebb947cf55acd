// Text to token ids and back, id for id as the published tokenizer does it. An unknown component is a load error, never a guess.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isotope/engine.h"
#include "isotope/result.h"
#include "text/decoder.h"

namespace isotope::text {

class SegmentedEncoder;

class Tokenizer {
 public:
  /// From tokenizer.json when the source has one, else from GGUF vocabulary facts.
  static Result<std::unique_ptr<Tokenizer>> create(const VocabSource&);
  virtual ~Tokenizer() = default;

  /// add_special: run the post-processor (BOS, EOS). parse_special: text that spells a control token becomes that token; off for user content.
  /// Invalid UTF-8 is replaced by U+FFFD per maximal invalid part, a surrogate's three bytes by one. Thread-safe. Texts of 2 GiB or more give no ids.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const = 0;

  /// Pieces of a rendered template: `special` says whether control-token text in the piece may become control tokens (template text: yes, content: no).
  /// The pieces are encoded as one text, so that merges cross piece borders exactly as the reference would.
  struct Piece { std::string text; bool special = true; };
  virtual std::vector<int32_t> encode_pieces(std::span<const Piece> pieces, bool add_special) const = 0;
  /// The same, with an error where encode_pieces() leaves a text uncut: the tokenizer's own regular expression cannot be run on it within its limits.
  virtual Result<std::vector<int32_t>> try_encode(std::span<const Piece> pieces, bool add_special) const { return encode_pieces(pieces, add_special); }

  /// As `tokenizers` decode(): includes the decoder's clean-ups. Ids outside the vocabulary are skipped. Byte tokens that do not form UTF-8 become one
  /// U+FFFD for each maximal invalid part, so that a stream gives the same text; the second form can follow the library's own rule.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special) const { return decode(ids, skip_special, InvalidBytes::one_per_part); }
  std::string decode(std::span<const int32_t> ids, bool skip_special, InvalidBytes invalid) const;
  /// The raw bytes a token stands for in the middle of a text (byte tokens: one byte). Control tokens: their text.
  virtual std::string token_bytes(int32_t id) const = 0;
  virtual std::string_view token_text(int32_t id) const = 0;   ///< as in the vocabulary ("Ġthe", "▁the", "<0x0A>"); empty if out of range
  virtual int32_t token_id(std::string_view text) const = 0;   ///< -1 if absent
  virtual bool is_special(int32_t id) const = 0;
  virtual int64_t size() const = 0;                            ///< highest id + 1
  virtual int32_t bos_id() const = 0;                          ///< -1 if there is none; eos_id likewise
  virtual int32_t eos_id() const = 0;
  virtual bool adds_bos() const = 0;                           ///< encode(…, add_special) puts BOS in front
  /// Tokens that end a turn or a text: the EOS of the files and tokens known by name (<|im_end|>, <end_of_turn>, <|eot_id|> …).
  virtual std::vector<int32_t> eog_ids() const { return eos_id() < 0 ? std::vector<int32_t>{} : std::vector<int32_t>{eos_id()}; }

  /// For the tokenize cache; null if texts of this tokenizer do not fall into independent segments.
  virtual const SegmentedEncoder* segments() const { return nullptr; }

  /// The decoder chain of decode() and of streams, and what it is given for a token: nothing if the token is dropped. The default takes token_bytes().
  virtual const std::vector<DecoderStep>& decoder() const;
  virtual std::optional<std::string> decoder_text(int32_t id, bool skip_special) const;
};

}  // namespace isotope::text
