// What has happened to published blocks, as a ring of the latest changes. A remembered walk reads on from where it last looked and
// so learns in O(changes) whether it still holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace isotope::kv {

struct Change {
  enum class Kind : uint8_t {
    published,  ///< the index gained the hash
    withdrawn,  ///< the index lost it
    used,       ///< the block left the evictable ones
    idle,       ///< the block joined them
  };
  uint64_t hash = 0;
  int32_t position = 0;  ///< of the block in its chain: whose walk the change concerns is one comparison
  uint8_t group = 0;
  Kind kind = Kind::published;
};

class ChangeLog {
 public:
  static constexpr size_t kSize = 8192;
  void add(const Change& c) noexcept { ring_[end_++ % kSize] = c; }
  /// Counts the changes since the start; a walk remembers it as its cursor.
  uint64_t end() const noexcept { return end_; }
  /// Whether all changes since that cursor are still here.
  bool covers(uint64_t cursor) const noexcept { return end_ - cursor <= kSize; }
  const Change& at(uint64_t cursor) const noexcept { return ring_[cursor % kSize]; }

 private:
  std::array<Change, kSize> ring_;
  uint64_t end_ = 0;
};

}  // namespace isotope::kv
