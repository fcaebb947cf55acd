// What an engine may ask of the text layer about its vocabulary: models with n-gram tables tell tokens by what they say, not by their ids.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "isotope/result.h"

namespace isotope {

struct VocabSource;

class TokenTexts {
 public:
  virtual ~TokenTexts() = default;
  virtual int64_t size() const = 0;                         ///< highest id + 1
  virtual std::string_view spelling(int32_t id) const = 0;  ///< as in the vocabulary ("Ġthe", "<0x0A>")
  /// What tokens that say the same have in common: the text of the token by itself in NFKC, without accents, in lower case, with one space for runs of white
  /// space and none at its ends, unless it is one space alone. The text itself if that leaves nothing; the spelling if the token's bytes are no text.
  virtual std::string key(int32_t id) const = 0;
};

/// Reads a vocabulary.
using MakeTokenTexts = std::function<Result<std::shared_ptr<const TokenTexts>>(const VocabSource&)>;

}  // namespace isotope
