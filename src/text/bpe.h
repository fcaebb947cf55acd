// Byte pair encoding, as Hugging Face tokenizers runs it: of all adjacent pairs the one with the lowest rank, leftmost first, until none is left.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "text/model.h"

namespace isotope::text {

/// (left id, right id) -> rank and merged id, as a flat hash table.
class MergeTable {
 public:
  struct Merge { uint32_t rank; int32_t id; };
  void reserve(size_t merges);
  void set(int32_t left, int32_t right, Merge m);  ///< the last one wins
  const Merge* find(int32_t left, int32_t right) const {
    if (slots_.empty()) return nullptr;
    const uint64_t key = pack(left, right);
    for (size_t i = index(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return &slots_[i].merge;
      if (slots_[i].key == kEmpty) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot { uint64_t key = kEmpty; Merge merge{}; };
  static uint64_t pack(int32_t l, int32_t r) { return uint64_t(uint32_t(l)) << 32 | uint32_t(r); }
  size_t index(uint64_t key) const { return size_t((key * 0x9E3779B97F4A7C15ull) >> shift_); }
  std::vector<Slot> slots_;
  size_t mask_ = 0, used_ = 0;
  int shift_ = 63;
};

inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";  ///< "▁", which stands for a space

/// Where a text may be cut before "▁" without any merge noticing, so that words can be merged and remembered one by one: not inside a run of "▁", and not
/// where some merged token has such a border inside ("<td>▁" in Gemma's vocabulary). The byte before "▁" decides, which may forbid more than it has to.
class MetaspaceCuts {
 public:
  void enable(bool on = true) { enabled_ = on; }
  bool enabled() const { return enabled_; }
  /// Forbids the borders that are inside a merged token. A byte token in it ("<0xE4>▁") stands for its byte.
  void keep_together(std::string_view merged);
  /// Calls f with each part.
  template <class F>
  void for_each(std::string_view text, F f) const {
    if (!enabled_) return f(text);
    size_t begin = 0, at = 0;
    while ((at = text.find(kMetaspace, at)) != std::string_view::npos) {
      if (at > begin && !together_[uint8_t(text[at - 1])]) {
        f(text.substr(begin, at - begin));
        begin = at;
      }
      while (text.substr(at, 3) == kMetaspace) at += 3;
    }
    if (begin < text.size()) f(text.substr(begin));
  }

 private:
  bool enabled_ = false;
  std::array<bool, 256> together_{};
};

struct BpeOptions {
  bool byte_level = false;      ///< words come as raw bytes; the vocabulary spells them in the byte alphabet
  bool byte_fallback = false;   ///< characters outside the vocabulary become <0xXX> tokens
  bool fuse_unk = false;        ///< neighbouring unknown characters give one unknown token
  bool ignore_merges = false;   ///< a word that is a token is that token
  std::string unk_token, continuing_subword_prefix, end_of_word_suffix;
};

/// Merges by their position in a list (tokenizer.json, GGUF "gpt2"). `merges` are pairs of texts; both and their concatenation must be in the vocabulary.
class Bpe final : public Model {
 public:
  /// `merge(i)` gives the i-th pair of `count`.
  template <class F>
  static Result<std::unique_ptr<Bpe>> create(const Vocab& vocab, BpeOptions options, size_t count, F merge) {
    ISO_TRY(auto bpe, prepare(vocab, std::move(options), count));
    for (size_t i = 0; i < count; i++) {
      const std::pair<std::string_view, std::string_view> m = merge(i);
      ISO_CHECK_OK(bpe->add_merge(m.first, m.second, i));
    }
    bpe->finish();
    return bpe;
  }
  void tokenize(std::string_view word, Scratch&, std::vector<int32_t>& out) const override;
  bool raw_bytes() const override { return options_.byte_level; }

 private:
  Bpe(const Vocab& vocab, BpeOptions options) : vocab_(vocab), options_(std::move(options)) {}
  static Result<std::unique_ptr<Bpe>> prepare(const Vocab&, BpeOptions, size_t merges);
  Result<void> add_merge(std::string_view left, std::string_view right, size_t rank);
  void finish();
  void specials_changed() override;
  void tokenize_word(std::string_view word, Scratch&, std::vector<int32_t>& out) const;
  void split_bytes(std::string_view word, std::vector<Symbol>&) const;
  void split_chars(std::string_view word, std::vector<Symbol>&) const;
  int32_t char_id(std::string_view text) const;
  int32_t whole_word(std::string_view word) const;
  const MergeTable::Merge* pair(int32_t left, int32_t right, bool allow_special) const;
  void merge_short(std::vector<Symbol>&, bool allow_special, std::vector<int32_t>& out) const;
  void merge_long(Scratch&, std::vector<int32_t>& out) const;

  const Vocab& vocab_;
  BpeOptions options_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_{};      ///< byte level: id of the byte; else id of <0xXX>
  std::array<int32_t, 128> ascii_ids_{};
  std::unique_ptr<Vocab> raw_vocab_;         ///< byte level with ignore_merges: raw bytes -> id
  int32_t unk_id_ = -1;
  bool all_bytes_ = false;                   ///< all 256 byte tokens exist
  MetaspaceCuts cuts_;
  bool merges_make_specials_ = false;
};

/// Merges by the score of the merged piece (SentencePiece BPE in GGUF files).
class ScoredBpe final : public Model {
 public:
  struct Options {
    std::vector<float> scores;              ///< by id
    std::vector<bool> mergeable;            ///< by id: may be the result of a merge or a symbol (not control, byte, unknown)
    std::vector<bool> first;                ///< by id: user-defined pieces come before all scores
    int32_t unk_id = -1;
  };
  static std::unique_ptr<ScoredBpe> create(const Vocab& vocab, Options options);
  void tokenize(std::string_view word, Scratch&, std::vector<int32_t>& out) const override;

 private:
  ScoredBpe(const Vocab& vocab, Options options) : vocab_(vocab), options_(std::move(options)) {}
  void tokenize_word(std::string_view word, Scratch&, std::vector<int32_t>& out) const;
  void split_chars(std::string_view word, std::vector<Symbol>&) const;
  /// The merge of two neighbours, or nothing; remembers what it looked up.
  std::optional<Scratch::KeyedPair> pair(std::string_view word, uint32_t left, Scratch&) const;
  Scratch::PairMemo look_up(std::string_view word, const Symbol& a, const Symbol& b) const;
  int32_t piece(std::string_view text) const;

  const Vocab& vocab_;
  Options options_;
  std::vector<uint32_t> rank_;              ///< by id: dense rank of the score, best first
  std::array<int32_t, 256> byte_ids_{};
  bool all_bytes_ = false;
  MetaspaceCuts cuts_;
};

/// Ids of <0x00> … <0xFF>, -1 where absent. True if all are there.
bool find_byte_tokens(const Vocab&, std::array<int32_t, 256>& ids);

}  // namespace isotope::text
