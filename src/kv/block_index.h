// Hash -> block id with a fixed capacity: open addressing, no allocation after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"

namespace isotope::kv {

class BlockIndex {
 public:
  /// Holds at most `blocks` entries.
  explicit BlockIndex(int64_t blocks);
  int32_t find(uint64_t hash) const noexcept;          ///< -1 if absent
  /// Looks up the links one after another until one is absent; ids[i] gets the block of the i-th. Returns how many were found. The
  /// slots are fetched ahead, so that a long run costs memory bandwidth, not latency. REQUIRES: ids.size() >= links.size().
  int64_t find_run(std::span<const base::BlockLink> links, std::span<int32_t> ids) const noexcept;
  void insert(uint64_t hash, int32_t block) noexcept;  ///< REQUIRES: find(hash) == -1
  void erase(uint64_t hash) noexcept;                  ///< absent hashes are ignored
  void clear() noexcept;
  int64_t size() const noexcept { return size_; }

 private:
  struct Slot {
    uint64_t hash;
    int32_t block;  ///< -1 = empty
  };
  /// xxh64 hashes are well mixed already; the multiplication guards against chosen values.
  size_t home(uint64_t hash) const noexcept { return size_t((hash * 0x9E3779B97F4A7C15u) >> shift_); }
  size_t next(size_t i) const noexcept { return (i + 1) & (slots_.size() - 1); }

  std::vector<Slot> slots_;
  int shift_ = 63;
  int64_t size_ = 0;
};

}  // namespace isotope::kv
