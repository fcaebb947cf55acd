// Words that a request names, as the token sequences the sampler works with.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace isotope::serve {

/// A word may begin a text or follow a space; both spellings are forbidden where they are sequences of the same length
/// (vLLM's rule, so that the same list forbids the same tokens).
void add_bad_word(const text::Tokenizer&, const std::string& word, std::vector<std::vector<int32_t>>& out);

/// Every token whose text contains a breaker ends a match, and the breaker's own spelling does.
std::vector<std::vector<int32_t>> breaker_sequences(const text::Tokenizer&, const std::vector<std::string>& breakers);

}  // namespace isotope::serve
