// The blocks of one KV group: who uses them, which are free, which hold a prefix worth keeping. Knows ids and tokens, never the
// KV bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "kv/block_index.h"
#include "kv/change_log.h"

namespace isotope::kv {

class EventLog;

/// Under what a block is filed.
struct Filing {
  base::BlockLink link;
  uint64_t parent = 0;   ///< base::parent_of
  int32_t position = 0;  ///< in its chain, counted in blocks
};

/// Who is told of changes; both may be null.
struct Witnesses {
  ChangeLog* changes = nullptr;
  EventLog* events = nullptr;
  uint8_t group = 0;
};

/// A block is in one of three states: in use (references > 0), free, or evictable (no reference, still holding a published
/// prefix). Eviction is lazy: an evictable block keeps its content until it is taken. Free blocks are taken first, lowest id
/// first; then evictable ones, least recently freed first; pinned ones last, so that a pin keeps a prefix as long as there is
/// another one to give up, and never makes a request wait.
class BlockPool {
 public:
  BlockPool(int64_t blocks, int block_size, Witnesses = {});

  int32_t take() noexcept;             ///< one reference; -1 when nothing is free or evictable
  void ref(int32_t block) noexcept;    ///< one more user; revives an evictable block
  void unref(int32_t block) noexcept;  ///< at zero the block becomes evictable if published, else free

  /// Files a full block. False if another block holds that hash already: the first stays canonical.
  bool publish(int32_t block, const Filing&, std::span<const int32_t> tokens) noexcept;
  /// The block filed under the link whose tokens are these, or -1. A block of a colliding hash is not returned.
  int32_t find(const base::BlockLink&, std::span<const int32_t> tokens) const noexcept;
  /// BlockIndex::find_run: by hash alone.
  int64_t find_run(std::span<const base::BlockLink> links, std::span<int32_t> ids) const noexcept {
    return index_.find_run(links, ids);
  }
  bool indexed(const base::BlockLink&) const noexcept;
  /// Whether the block is filed under this link and holds these tokens.
  bool holds(int32_t block, const base::BlockLink&, std::span<const int32_t> tokens) const noexcept;
  /// The tokens of a block that was filed under that parent, the latest one if it is still there; else empty. A hint for people.
  std::span<const int32_t> child_of(uint64_t parent) const noexcept;
  /// The hash was evicted lately. A hint for people.
  bool evicted_lately(uint64_t hash) const noexcept { return evicted_[size_t(hash) & (evicted_.size() - 1)] == hash; }
  void forget_all() noexcept;  ///< empties the index; blocks in use stay with their users

  /// Keeps a published block until that time (any clock that never goes back); a later time wins.
  void pin(int32_t block, int64_t until) noexcept;
  void expire_pins(int64_t now) noexcept;
  int64_t pinned() const noexcept { return int64_t(pins_); }

  int refs(int32_t block) const noexcept { return meta_[size_t(block)].refs; }
  bool published(int32_t block) const noexcept { return meta_[size_t(block)].published; }
  int64_t total() const noexcept { return int64_t(meta_.size()); }
  int64_t free() const noexcept { return int64_t(free_.size()); }
  int64_t evictable() const noexcept { return evictable_; }
  int64_t available() const noexcept { return free() + evictable_; }
  int64_t indexed_blocks() const noexcept { return index_.size(); }
  int64_t evictions() const noexcept { return evictions_; }  ///< prefixes lost to make room, since the start

  /// Recounts everything; empty when consistent, else what is wrong. `users[b]` = how many tables name block b.
  const char* check(std::span<const int32_t> users) const;

 private:
  enum ListId : uint8_t { kPlain, kPinned };
  struct List {
    int32_t oldest = -1, newest = -1;
  };
  struct Meta {
    base::BlockLink link;
    uint64_t parent = 0;
    int32_t refs = 0;
    int32_t prev = -1, next = -1;  ///< neighbours in its list of evictable blocks
    int32_t position = 0;
    int64_t pinned_until = 0;  ///< 0 = not pinned
    bool published = false;
    ListId list = kPlain;
  };
  struct Child {
    uint64_t parent = 0;
    int32_t block = -1;
  };
  void push_evictable(int32_t, bool oldest = false) noexcept;
  void drop_evictable(int32_t) noexcept;
  void push_free(int32_t) noexcept;
  int32_t pop_free() noexcept;
  void withdraw(int32_t) noexcept;
  void unpin(int32_t) noexcept;
  void note(Change::Kind kind, const Meta& m) noexcept {
    if (witnesses_.changes) witnesses_.changes->add({m.link.hash, m.position, witnesses_.group, kind});
  }
  std::span<const int32_t> tokens_of(int32_t b) const noexcept {
    return {tokens_.data() + size_t(b) * size_t(block_size_), size_t(block_size_)};
  }

  int block_size_;
  Witnesses witnesses_;
  std::vector<Meta> meta_;
  std::vector<int32_t> tokens_;  ///< [blocks, block_size]
  std::vector<int32_t> free_;    ///< min-heap of ids
  std::array<List, 2> lists_;
  int64_t evictable_ = 0, evictions_ = 0, pins_ = 0;
  BlockIndex index_;
  std::vector<Child> children_;                       ///< by parent; a newer one overwrites
  std::vector<uint64_t> evicted_;                     ///< by hash; a newer one overwrites
  std::vector<std::pair<int64_t, int32_t>> pin_ends_; ///< min-heap of (time, block); stale entries are skipped
};

}  // namespace isotope::kv
