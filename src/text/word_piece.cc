#include "text/word_piece.h"

#include "text/unicode.h"

namespace isotope::text {

WordPiece::WordPiece(const Vocab& vocab, Options options) : options_(std::move(options)) {
  const std::string& prefix = options_.continuing_prefix;
  std::vector<std::pair<std::string_view, int32_t>> first, continuing;
  for (int32_t id = 0; id < vocab.size(); id++) {
    const std::string_view text = vocab.text(id);
    if (text.empty() || vocab.find(text) != id) continue;
    first.emplace_back(text, id);
    if (text.starts_with(prefix)) continuing.emplace_back(text.substr(prefix.size()), id);
  }
  first_.build(std::move(first));
  continuing_.build(std::move(continuing));
}

void WordPiece::tokenize(std::string_view word, Scratch& s, std::vector<int32_t>& out) const {
  const size_t first = out.size();
  bool known = count_chars(word) <= options_.max_chars;
  for (size_t at = 0; known && at < word.size();) {
    const Trie& trie = at ? continuing_ : first_;
    const Trie::Node* node = trie.root(uint8_t(word[at]));
    size_t stop = 0;
    int32_t id = -1;
    for (size_t end = at + 1; node; end++) {
      if (node->value >= 0 && (s.allow_special || !special(node->value))) stop = end, id = node->value;
      if (end == word.size()) break;
      node = trie.child(*node, uint8_t(word[end]));
    }
    known = id >= 0;
    out.push_back(id);
    at = stop;
  }
  if (known) return;
  out.resize(first);
  if (options_.unk_id >= 0) out.push_back(options_.unk_id);
}

void WordLevel::tokenize(std::string_view word, Scratch& s, std::vector<int32_t>& out) const {
  int32_t id = vocab_.find(word);
  if (id >= 0 && !s.allow_special && special(id)) id = -1;
  if (id < 0) id = unk_id_;
  if (id >= 0) out.push_back(id);
}

}  // namespace isotope::text
