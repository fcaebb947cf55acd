// The step from words to ids. A model is read-only; what an encoding needs to write lives in its Scratch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/vocab.h"

namespace isotope::text {

/// Ids of short words seen before: direct-mapped, 64 bytes an entry, never more than kEntries words.
class WordCache {
 public:
  static constexpr size_t kEntries = size_t{1} << 14, kMaxWord = 26, kMaxIds = 8;
  /// Appends the ids of `word` if it is known.
  bool find(std::string_view word, uint64_t hash, std::vector<int32_t>& out) const;
  void store(std::string_view word, uint64_t hash, const int32_t* ids, size_t n);

 private:
  struct Entry {
    uint32_t tag = 0;
    uint8_t length = 0, count = 0;
    char word[kMaxWord];
    int32_t ids[kMaxIds];
  };
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

/// One unit of a word while merges run. `next` and `prev` are indices; a symbol that was merged away has length 0 and is not linked.
struct Symbol {
  int32_t id = -1;
  uint32_t begin = 0, length = 0;
  uint32_t prev = 0, next = 0;
};

struct Scratch {
  WordCache cache;
  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;
  struct KeyedPair { uint64_t key; uint32_t id, left; };
  std::vector<KeyedPair> keyed_heap;
  struct PairMemo { uint64_t pair = ~uint64_t{0}, key = 0; int32_t id = -1; };
  std::vector<PairMemo> pairs;         ///< of ScoredBpe, direct-mapped; filled on first use
  struct PathNode { double score; int32_t id; uint32_t start; };
  std::vector<PathNode> path;
  bool allow_special = true;  ///< false: text that must not become a control token, whatever the model's own vocabulary says
};

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of one word (valid UTF-8, or raw bytes where the model was built for them).
  virtual void tokenize(std::string_view word, Scratch&, std::vector<int32_t>& out) const = 0;
  /// Ids that text may not become when Scratch::allow_special is false.
  void set_special(std::vector<bool> special) {
    special_ = std::move(special);
    specials_changed();
  }
  /// Words are bytes, not their printable stand-ins.
  virtual bool raw_bytes() const { return false; }

 protected:
  bool special(int32_t id) const { return size_t(id) < special_.size() && special_[size_t(id)]; }
  virtual void specials_changed() {}

 private:
  std::vector<bool> special_;
};

}  // namespace isotope::text
