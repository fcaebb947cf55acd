// Unigram language model (Kudo 2018): the segmentation with the highest sum of scores.
#pragma once

#include "text/model.h"
#include "text/trie.h"

namespace isotope::text {

class Unigram final : public Model {
 public:
  struct Options {
    std::vector<double> scores;       ///< by id
    std::vector<bool> usable;         ///< by id: may be a piece of text; empty = all
    int32_t unk_id = -1;
    bool byte_fallback = false;
  };
  static constexpr size_t kLongestPiece = 1024;  ///< bytes; bounds the time that a text can take
  static Result<std::unique_ptr<Unigram>> create(const Vocab& vocab, Options options);
  void tokenize(std::string_view word, Scratch&, std::vector<int32_t>& out) const override;

 private:
  Unigram(const Vocab& vocab, Options options) : vocab_(vocab), options_(std::move(options)) {}
  Result<void> build();
  void best_path(std::string_view word, Scratch&) const;
  void emit_unknown(std::string_view text, std::vector<int32_t>& out) const;

  const Vocab& vocab_;
  Options options_;
  Trie trie_;
  std::array<int32_t, 256> byte_ids_{};
  double unk_score_ = 0;
};

}  // namespace isotope::text
