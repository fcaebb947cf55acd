#include "text/word_piece.h"

#include <algorithm>

#include "text/unicode.h"

namespace isotope::text {

void WordPiece::tokenize(std::string_view word, Scratch& s, std::vector<int32_t>& out) const {
  const size_t first = out.size();
  const auto unknown = [&] {
    out.resize(first);
    if (options_.unk_id >= 0) out.push_back(options_.unk_id);
  };
  if (count_chars(word) > options_.max_chars) return unknown();
  std::string key;
  for (size_t at = 0; at < word.size();) {
    const size_t prefix = at ? options_.continuing_prefix.size() : 0;
    size_t end = std::min(word.size(), at + vocab_.longest());
    key.assign(at ? options_.continuing_prefix : "").append(word, at, end - at);
    int32_t id = -1;
    for (; end > at; end--) {
      if (end < word.size() && (uint8_t(word[end]) & 0xC0) == 0x80) continue;  // inside a character
      id = vocab_.find(std::string_view(key).substr(0, prefix + end - at));
      if (id >= 0 && (s.allow_special || !special(id))) break;
      id = -1;
    }
    if (id < 0) return unknown();
    out.push_back(id);
    at = end;
  }
}

void WordLevel::tokenize(std::string_view word, Scratch& s, std::vector<int32_t>& out) const {
  int32_t id = vocab_.find(word);
  if (id >= 0 && !s.allow_special && special(id)) id = -1;
  if (id < 0) id = unk_id_;
  if (id >= 0) out.push_back(id);
}

}  // namespace isotope::text
