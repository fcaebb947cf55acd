// What the tokenize cache needs of a tokenizer: a text falls apart at its added tokens, and what lies between them is encoded on its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer.h"

namespace isotope::text {

/// A prompt as one text, with the places where control tokens may be found.
struct JoinedText {
  std::string text;  ///< valid UTF-8
  SpecialZones zones = SpecialZones::all();
};
JoinedText join_pieces(std::span<const Tokenizer::Piece>);

class SegmentedEncoder {
 public:
  virtual ~SegmentedEncoder() = default;
  /// Appends the parts of `text` from an added token on: `from` is how an earlier cut of a text with the same beginning ended there.
  virtual void cut(std::string_view text, const SpecialZones&, CutPoint from, std::vector<AddedTokens::Part>& out) const = 0;
  virtual int32_t added_id(const AddedTokens::Part&) const = 0;
  /// Appends the ids of one stretch between added tokens. They depend on its text, on whether it begins the whole text, and on the zones inside it.
  /// An error is that of try_encode(), and the ids are then those of an uncut text.
  virtual Result<void> encode_segment(std::string_view text, Span segment, const SpecialZones&, std::vector<int32_t>& out) const = 0;
  /// How many bytes behind the start of an added token, and behind its end, may decide about it.
  virtual size_t look_ahead() const = 0;
  /// What the post-processor makes of the ids of a text.
  virtual std::vector<int32_t> add_special(std::vector<int32_t>) const = 0;
};

}  // namespace isotope::text
