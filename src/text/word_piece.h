// WordPiece (greedy longest match) and WordLevel (whole words).
#pragma once

#include <string>

#include "text/model.h"
#include "text/trie.h"

namespace isotope::text {

class WordPiece final : public Model {
 public:
  struct Options {
    int32_t unk_id = -1;
    std::string continuing_prefix = "##";
    size_t max_chars = 100;   ///< longer words are unknown as a whole
  };
  WordPiece(const Vocab& vocab, Options options);
  void tokenize(std::string_view word, Scratch&, std::vector<int32_t>& out) const override;

 private:
  Options options_;
  Trie first_, continuing_;   ///< of the words' beginnings, and of what may follow (without the prefix)
};

class WordLevel final : public Model {
 public:
  WordLevel(const Vocab& vocab, int32_t unk_id) : vocab_(vocab), unk_id_(unk_id) {}
  void tokenize(std::string_view word, Scratch&, std::vector<int32_t>& out) const override;

 private:
  const Vocab& vocab_;
  int32_t unk_id_;
};

}  // namespace isotope::text
