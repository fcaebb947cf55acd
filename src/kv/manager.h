// Paged KV bookkeeping for all KV groups of a model: block tables of sequences, prefix hits, growth, publishing, release. One
// thread owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/hash_chain.h"
#include "kv/block_pool.h"
#include "kv/change_log.h"
#include "kv/event_log.h"
#include "kv/seq_blocks.h"
#include "kv/walk.h"

namespace isotope::kv {

/// GroupConfig::window of a group of recurrent states: its blocks are slots, each the state of one running sequence or an image of one, filed under the last
/// block that it covers. A prefix can be reused up to a block that has an image.
inline constexpr int64_t kStateGroup = -1;

struct GroupConfig {
  int64_t blocks = 0;
  int64_t window = 0;  ///< 0 = full attention; else a query at p reads keys in (p - window, p]; or kStateGroup, in the last group only
};

/// How prefixes are looked up. No setting changes a hit.
struct ManagerOptions {
  bool fast_walk = true;
  bool walk_memo = true;
  bool events = false;  ///< keep a log of changes for routers
  std::function<void(int group, int32_t from, int32_t to)> copy_state = {};  ///< copies a slot's bytes; called between steps. Needed with a state group
  /// Above 0: so many tokens, computed once more, give a model's windows exactly what they held. Where full groups hold that much more of a prefix than
  /// windows do, the hit is what full groups hold, and those tokens are computed again without being written to them.
  int64_t replay_tokens = 0;
  std::function<void(int group, int32_t block)> clear_block = {};  ///< fills a block with zeros; needed with replay_tokens
};

class Manager {
 public:
  Manager(int block_size, std::span<const GroupConfig> groups, bool prefix_caching, ManagerOptions = {});

  int block_size() const { return block_size_; }
  int groups() const { return int(pools_.size()); }
  /// Groups whose blocks grow with a sequence: all but the state group.
  int paged_groups() const { return groups() - has_states(); }
  bool has_states() const { return windows_.back() == kStateGroup; }
  int64_t window(int group) const { return windows_[size_t(group)]; }
  const BlockPool& pool(int group) const { return pools_[size_t(group)]; }
  Counts available() const;
  const CacheCounters& counters() const { return counters_; }

  /// Fills s.links from the chain that came with the request if it stands for these tokens, else computes them. `chain` may be
  /// null: not rejected, there is none.
  base::ChainFault hash_prompt(SeqBlocks& s, std::span<const int32_t> tokens, base::HashChain* chain);

  /// Longest usable hit within the first `limit` tokens: all blocks in every full group and the last ceil(window / block) in
  /// every sliding group. `tokens` are the sequence's own.
  Hit match(const SeqBlocks&, std::span<const int32_t> tokens, int64_t limit) const;
  /// The same for those who ask again every step: remembers the walk in the sequence and only reads what has changed since.
  Hit probe(SeqBlocks&, std::span<const int32_t> tokens, int64_t limit);
  /// Takes the first `blocks` blocks of a hit, or as many as there are, into the (empty) tables; returns how many. Every claimed
  /// block's stored tokens are compared with the sequence's, so that no hash collision can hand out another prompt's KV.
  int64_t claim(SeqBlocks&, std::span<const int32_t> tokens, int64_t blocks);
  /// Extends the tables to hold `tokens` tokens. All groups or none.
  bool grow(SeqBlocks&, int64_t tokens);
  /// The first `computed` tokens have their KV: publishes complete blocks and gives back those that left a window.
  void commit(SeqBlocks&, std::span<const int32_t> tokens, int64_t computed);
  /// Stores an image of the sequence's state after its first `computed` tokens, a whole number of blocks that commit() has seen. False if there is no slot for
  /// it, or the sequence may not feed the cache. True if there was one already.
  bool checkpoint(SeqBlocks&, std::span<const int32_t> tokens, int64_t computed);
  /// Takes a slot for the state after the first `position` tokens, a whole number of blocks, which the step that is being planned will write there. False if
  /// there is no slot, or the sequence may not feed the cache. True if such a state is stored already. REQUIRES: positions of one step descend.
  bool reserve_image(SeqBlocks&, int64_t position);
  /// The step was carried out and commit() has seen it: files what reserve_image() took. Returns how many states that are.
  int64_t publish_images(SeqBlocks&, std::span<const int32_t> tokens);
  /// It was not: gives the slots back.
  void cancel_images(SeqBlocks&);
  /// Gives everything back, the tail first, so that shared heads are evicted last.
  void release(SeqBlocks&);
  /// Whether what the sequence computes from now on is kept for others.
  bool feeds(const SeqBlocks& s) const { return caching_ && s.cacheable && s.epoch == epoch_; }
  /// How many blocks release() would make available, per group.
  Counts held(const SeqBlocks&) const;

  /// Nothing cached so far will be hit again, nor what running sequences build on it.
  void forget_prefixes();
  /// The time, on a clock that never goes back: pins end by it.
  void set_time(int64_t now_ns);
  /// What has changed for routers since the last call; empty when events are off.
  std::vector<Event> take_events();
  /// Null when every count agrees with these sequences' tables (all that exist), else what is wrong.
  const char* check_integrity(std::span<const SeqBlocks* const> all) const;

 private:
  int64_t blocks_for(int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  bool is_state(int group) const { return windows_[size_t(group)] == kStateGroup; }
  int64_t window_blocks(int group) const { return is_state(group) ? 1 : blocks_for(windows_[size_t(group)]); }
  /// First block of a hit that this group must have.
  int64_t hit_from(int group, int64_t blocks) const {
    return window(group) ? std::max<int64_t>(0, blocks - window_blocks(group)) : 0;
  }
  // lookup.cc
  int64_t lookup_blocks(const SeqBlocks&, std::span<const int32_t> tokens, int64_t limit) const;
  void walk(const SeqBlocks&, std::span<const int32_t> tokens, int64_t blocks, bool fast, Walk&) const;
  bool still_holds(const SeqBlocks& s, int64_t blocks, Walk&);
  bool apply(const Change&, const SeqBlocks&, Walk&);
  bool confirm(const SeqBlocks&, std::span<const int32_t> tokens, const Walk&) const;
  void claim_state(SeqBlocks&, int64_t blocks);
  void ready_to_claim(SeqBlocks&, std::span<const int32_t> tokens, int64_t blocks);
  Miss explain(const SeqBlocks&, std::span<const int32_t> tokens, int64_t limit) const;
  Miss nothing_under(const SeqBlocks&, int64_t block) const;
  // again.cc
  Hit replayed(int64_t known, const Walk&) const;
  void begin_windows(SeqBlocks&, const Hit&);
  int64_t windows_lack(const SeqBlocks&, int64_t tokens) const;
  void fill_windows(SeqBlocks&, int64_t tokens);
  // images.cc
  const base::BlockLink* image_link(const SeqBlocks&, int64_t position) const;
  bool file_image(const SeqBlocks&, std::span<const int32_t> tokens, int64_t position, int32_t slot);
  // manager.cc
  void publish(int group, SeqBlocks&, std::span<const int32_t> tokens, int64_t full);
  void leave_window(int group, SeqBlocks&, int64_t computed);
  void pin(SeqBlocks&);

  int block_size_;
  bool caching_;
  ManagerOptions options_;
  std::unique_ptr<ChangeLog> changes_;  ///< on the heap: the pools point to it
  std::unique_ptr<EventLog> events_;    ///< null when off
  int event_group_ = 0;                 ///< the group that routers hear of: the first with full attention
  std::vector<BlockPool> pools_;
  std::vector<int64_t> windows_;
  uint64_t epoch_ = 0;
  int64_t now_ns_ = 0;
  mutable CacheCounters counters_;
};

}  // namespace isotope::kv
