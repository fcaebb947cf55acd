// What a vocabulary's tokens say, each by itself: isotope/token_texts.h for models with n-gram tables.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "isotope/token_texts.h"
#include "text/tokenizer.h"

namespace isotope::text {

/// NFKC, NFD, without accents, lower case, runs of space, tab and line ends as one space, trimmed unless it is one space: the steps of the released model's
/// own table, in their order. `text` is valid UTF-8.
std::string normalized_token(std::string_view text);

std::shared_ptr<const TokenTexts> token_texts(std::shared_ptr<const Tokenizer>);
/// For EngineOptions::token_texts.
Result<std::shared_ptr<const TokenTexts>> read_token_texts(const VocabSource&);

}  // namespace isotope::text
