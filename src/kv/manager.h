// Paged KV bookkeeping for all KV groups of a model: block tables of sequences, prefix hits, growth, publishing, release. One
// thread owns it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/hash.h"
#include "kv/block_pool.h"

namespace isotope::kv {

/// Models have one group for full attention and one for each window length; more kinds plug in here.
inline constexpr int kMaxGroups = 8;
using Counts = std::array<int64_t, kMaxGroups>;  ///< one number for each group; unused ones are 0

struct GroupConfig {
  int64_t blocks = 0;
  int64_t window = 0;  ///< 0 = full attention; else a query at p reads keys in (p - window, p]
};

/// What a sequence holds. Every table has one entry for each block of its tokens; -1 where a sliding group gave the block back.
struct SeqBlocks {
  std::vector<std::vector<int32_t>> tables;  ///< [group][blocks]
  std::vector<base::BlockLink> links;        ///< of the complete blocks known so far
  std::optional<uint64_t> seed;              ///< base::cache_seed of the request
  bool cacheable = true;                     ///< reads and feeds the prefix cache
  int64_t published = 0;                     ///< blocks already offered to the index
  Counts live_from{};                        ///< per group: first block not given back
  int64_t expected_blocks = 0;               ///< room to reserve in the tables
  int64_t blocks() const { return tables.empty() ? 0 : int64_t(tables[0].size()); }
};

/// The longest prefix hit of a sequence, and what claiming it would take away from the available blocks.
struct Hit {
  int64_t blocks = 0;
  Counts evictable{};
};

class Manager {
 public:
  Manager(int block_size, std::span<const GroupConfig> groups, bool prefix_caching);

  int block_size() const { return block_size_; }
  int groups() const { return int(pools_.size()); }
  int64_t window(int group) const { return windows_[size_t(group)]; }
  const BlockPool& pool(int group) const { return pools_[size_t(group)]; }
  Counts available() const;

  /// Longest usable hit within the first `limit` tokens: all blocks in every full group and the last ceil(window / block) in
  /// every sliding group. `tokens` are the sequence's own; every block's stored tokens are compared with them.
  Hit match(const SeqBlocks&, std::span<const int32_t> tokens, int64_t limit) const;
  /// Takes the first `blocks` blocks of a hit into the (empty) tables. Fewer are taken if the index has changed since; returns
  /// how many.
  int64_t claim(SeqBlocks&, std::span<const int32_t> tokens, int64_t blocks);
  /// Extends the tables to hold `tokens` tokens. All groups or none.
  bool grow(SeqBlocks&, int64_t tokens);
  /// The first `computed` tokens have their KV: publishes complete blocks and gives back those that left a window.
  void commit(SeqBlocks&, std::span<const int32_t> tokens, int64_t computed);
  /// Gives everything back, the tail first, so that shared heads are evicted last.
  void release(SeqBlocks&);
  /// How many blocks release() would make available, per group.
  Counts held(const SeqBlocks&) const;

  void forget_prefixes();
  /// Null when every count agrees with these sequences' tables (all that exist), else what is wrong.
  const char* check_integrity(std::span<const SeqBlocks* const> all) const;

 private:
  int64_t blocks_for(int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  int64_t window_blocks(int group) const { return blocks_for(windows_[size_t(group)]); }
  int32_t find(int group, const SeqBlocks&, std::span<const int32_t> tokens, int64_t block) const;
  int64_t cut_to_window(int group, const SeqBlocks&, std::span<const int32_t> tokens, int64_t blocks) const;

  int block_size_;
  bool caching_;
  std::vector<BlockPool> pools_;
  std::vector<int64_t> windows_;
};

}  // namespace isotope::kv
