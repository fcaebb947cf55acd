// The blocks of one KV group: who uses them, which are free, which hold a prefix worth keeping. Knows ids and tokens, never the
// KV bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "kv/block_index.h"

namespace isotope::kv {

/// A block is in one of three states: in use (references > 0), free, or evictable (no reference, still holding a published
/// prefix). Eviction is lazy: an evictable block keeps its content until it is taken. Free blocks are taken first, lowest id
/// first; then evictable ones, least recently freed first.
class BlockPool {
 public:
  BlockPool(int64_t blocks, int block_size);

  int32_t take() noexcept;             ///< one reference; -1 when nothing is free or evictable
  void ref(int32_t block) noexcept;    ///< one more user; revives an evictable block
  void unref(int32_t block) noexcept;  ///< at zero the block becomes evictable if published, else free

  /// Files a full block under its link. False if another block holds that hash already: the first stays canonical.
  bool publish(int32_t block, const base::BlockLink&, std::span<const int32_t> tokens) noexcept;
  /// The block filed under the link whose tokens are these, or -1. A block of a colliding hash is not returned.
  int32_t find(const base::BlockLink&, std::span<const int32_t> tokens) const noexcept;
  void forget_all() noexcept;  ///< empties the index; blocks in use stay with their users

  int refs(int32_t block) const noexcept { return meta_[size_t(block)].refs; }
  bool published(int32_t block) const noexcept { return meta_[size_t(block)].published; }
  int64_t total() const noexcept { return int64_t(meta_.size()); }
  int64_t free() const noexcept { return int64_t(free_.size()); }
  int64_t evictable() const noexcept { return evictable_; }
  int64_t available() const noexcept { return free() + evictable_; }
  int64_t evictions() const noexcept { return evictions_; }  ///< prefixes lost to make room, since the start

  /// Recounts everything; empty when consistent, else what is wrong. `users[b]` = how many tables name block b.
  const char* check(std::span<const int32_t> users) const;

 private:
  struct Meta {
    base::BlockLink link;
    int32_t refs = 0;
    int32_t prev = -1, next = -1;  ///< neighbours in the evictable list
    bool published = false;
  };
  void push_evictable(int32_t) noexcept;
  void drop_evictable(int32_t) noexcept;
  void push_free(int32_t) noexcept;
  int32_t pop_free() noexcept;
  std::span<const int32_t> tokens_of(int32_t b) const noexcept {
    return {tokens_.data() + size_t(b) * size_t(block_size_), size_t(block_size_)};
  }

  int block_size_;
  std::vector<Meta> meta_;
  std::vector<int32_t> tokens_;  ///< [blocks, block_size]
  std::vector<int32_t> free_;    ///< min-heap of ids
  int32_t oldest_ = -1, newest_ = -1;
  int64_t evictable_ = 0, evictions_ = 0;
  BlockIndex index_;
};

}  // namespace isotope::kv
