#include "serve/sampling_words.h"

#include <algorithm>
#include <utility>

namespace isotope::serve {

void add_bad_word(const text::Tokenizer& tok, const std::string& word, std::vector<std::vector<int32_t>>& out) {
  const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
  auto plain = tok.encode(bare, false, true);
  if (plain.empty()) return;
  auto spaced = tok.encode(" " + bare, false, true);
  const bool other_word = !spaced.empty() && spaced[0] != plain[0] && spaced.size() == plain.size();
  out.push_back(std::move(plain));
  if (other_word) out.push_back(std::move(spaced));
}

std::vector<std::vector<int32_t>> breaker_sequences(const text::Tokenizer& tok, const std::vector<std::string>& breakers) {
  std::vector<std::vector<int32_t>> out;
  for (const std::string& b : breakers) {
    if (b.empty()) continue;
    auto own = tok.encode(b, false, false);
    if (own.size() > 1) out.push_back(std::move(own));
  }
  const auto n = int32_t(tok.size());
  for (int32_t id = 0; id < n; ++id) {
    const std::string bytes = tok.token_bytes(id);
    for (const std::string& b : breakers) {
      if (b.empty() || bytes.find(b) == std::string::npos) continue;
      out.push_back({id});
      break;
    }
  }
  return out;
}

}  // namespace isotope::serve
