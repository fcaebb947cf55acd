// Ids of earlier prompts and of their segments, so that the next turn of a long conversation is not encoded again. One budget of retained bytes for both.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/segments.h"

namespace isotope::text {

struct TokenizeCacheStats {
  uint64_t prompt_hits = 0, segment_hits = 0, misses = 0, evictions = 0;  ///< misses: segments that had to be encoded
  uint64_t bypassed = 0, checked = 0, disabled = 0;                       ///< short prompts; prompts compared with the plain encoder; 1 after a difference
  int64_t bytes = 0, budget = 0, entries = 0;
};

/// Places where control tokens may be found, cut to a stretch of text and counted from its beginning.
std::vector<Span> zones_within(const SpecialZones&, Span stretch);

/// The least recently used entries go first. Thread-safe.
class TokenizeCache {
 public:
  static constexpr int64_t kEntryOverhead = 256;  ///< list and table nodes, allocator headers, vectors

  explicit TokenizeCache(int64_t budget_bytes) : budget_(budget_bytes) {}

  /// A stretch between added tokens and all that its ids depend on.
  struct Segment {
    std::string_view text;
    std::vector<Span> zones;
    bool at_start = false;   ///< it begins the whole text
  };
  /// Appends the ids if the segment is known.
  bool find(const Segment&, std::vector<int32_t>& ids);
  void store(const Segment&, std::span<const int32_t> ids);

  /// Behind an added token of a prompt: where it begins, how a cut goes on behind it, and the number of ids up to it.
  struct Border {
    size_t begin = 0;
    CutPoint end;
    size_t ids = 0;
  };
  struct Prompt {
    std::string text;               ///< to the last added token, and what may decide about that
    std::vector<Span> zones;
    std::vector<Border> borders;
    std::vector<int32_t> ids;       ///< up to the last border
  };
  /// What a text shares with a stored prompt: the last border that `look_ahead` bytes on either side of its end make certain. ids is empty if there is none.
  struct Shared {
    Border border;
    std::vector<Border> borders;    ///< up to and with that one
    std::vector<int32_t> ids;
  };
  Shared find_prompt(std::string_view text, std::span<const Span> zones, size_t look_ahead);
  void store(Prompt);

  void count_misses(uint64_t n);
  TokenizeCacheStats stats() const;

 private:
  struct Key {
    uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const { return k.low; }
  };
  struct Entry {
    Key key;                          ///< of a segment
    std::shared_ptr<const Prompt> prompt;
    std::string text;
    std::vector<Span> zones;
    bool at_start = false;
    std::vector<int32_t> ids;
    int64_t bytes = 0;
  };
  using List = std::list<Entry>;
  static Key key_of(const Segment&);
  void add(Entry);                    ///< under the lock
  void drop(List::iterator);
  List::iterator* known(const Key&, const Segment&);

  const int64_t budget_;
  mutable std::mutex mutex_;
  List recent_;                       ///< first = last used
  std::unordered_map<Key, List::iterator, KeyHash> segments_;
  std::vector<List::iterator> prompts_;
  TokenizeCacheStats stats_;
};

}  // namespace isotope::text
