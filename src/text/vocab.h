// Token texts and their ids: one arena, one flat hash table. Built once, then read by any number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isotope/result.h"

namespace isotope::text {

uint64_t hash_bytes(std::string_view s);

class Vocab {
 public:
  static constexpr int64_t kMaxId = int64_t{1} << 22;  ///< far above any published vocabulary; bounds memory for hostile ids

  void reserve(size_t tokens, size_t bytes);
  /// A text that exists already moves to the new id; an id that exists already gets the new text (the last one wins, as in the reference's maps).
  Result<void> add(std::string_view text, int64_t id);

  int32_t find(std::string_view text) const;         ///< -1 if absent
  std::string_view text(int32_t id) const;           ///< data() is null if absent
  bool has(int32_t id) const { return id >= 0 && id < size() && spans_[size_t(id)].length != kAbsent; }
  int64_t size() const { return int64_t(spans_.size()); }  ///< highest id + 1
  size_t count() const { return count_; }            ///< number of texts
  size_t longest() const { return longest_; }        ///< bytes of the longest text

 private:
  static constexpr uint32_t kAbsent = ~0u;
  struct Span { uint64_t offset = 0; uint32_t length = kAbsent; };
  struct Slot { uint32_t tag = 0; int32_t id = -1; Span key; };
  void grow();
  Slot& slot(std::string_view text, uint64_t hash);
  std::string_view view(Span s) const { return {arena_.data() + s.offset, s.length}; }

  std::string arena_;
  std::vector<Span> spans_;
  std::vector<Slot> slots_;
  size_t count_ = 0, longest_ = 0;
};

}  // namespace isotope::text
