// What a sequence holds of the KV cache, and what is remembered of its prefix.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/hash.h"
#include "kv/event_log.h"

namespace isotope::kv {

/// Models have one group for full attention and one for each window length; more kinds plug in here.
inline constexpr int kMaxGroups = 8;
using Counts = std::array<int64_t, kMaxGroups>;  ///< one number for each group; unused ones are 0

/// The longest prefix hit of a sequence, and what claiming it would take away from the available blocks.
struct Hit {
  int64_t blocks = 0;
  int64_t again = 0;  ///< tokens at its end that are computed once more, see ManagerOptions::replay_tokens
  Counts evictable{};
  bool operator==(const Hit&) const = default;
};

/// The result of a walk, and what it depended on.
struct Walk {
  bool valid = false;
  int64_t limit = 0;     ///< blocks that could be looked up
  int64_t full = 0;      ///< leading blocks cached in every full-attention group; more than the hit where a window was missing
  int64_t read = -1;     ///< last position whose hash was looked up
  base::ChainKey key;
  uint64_t epoch = 0;    ///< of the manager: forgetting all prefixes begins a new one
  uint64_t cursor = 0;   ///< in the manager's change log
  Hit hit;
  std::vector<std::vector<int32_t>> ids;  ///< [group][block], where the hit needs them
};

/// Why a request's cached part ends where it ends.
struct Miss {
  enum class Cause : uint8_t {
    none,        ///< all that was there has been reused, or nothing was looked up
    cold,        ///< nothing cached begins like it
    token,       ///< the prompt differs at `position` from what is cached
    salt,        ///< its salt begins there, and nothing is cached under it
    lora,        ///< nothing is cached under its adapter
    evicted,     ///< the block that begins there was given up to make room
    block_edge,  ///< only whole blocks are kept, and the last token of a prompt is always computed
    window,      ///< a sliding-window group no longer has the last window before it
    no_checkpoint,  ///< blocks go further, but no state of the recurrent layers is stored there
  };
  Cause cause = Cause::none;
  int64_t position = -1;  ///< token; with `none` -1
  bool operator==(const Miss&) const = default;
};

/// A slot that is to hold the state of recurrent layers after a sequence's first `position` tokens.
struct StateImage {
  int64_t position = 0;
  int32_t slot = -1;
};

/// Every table has one entry for each block of the sequence's tokens; -1 where a sliding group gave the block back. A state group's has one: the slot.
struct SeqBlocks {
  std::vector<std::vector<int32_t>> tables;  ///< [group][blocks]
  std::vector<base::BlockLink> links;        ///< of the complete blocks known so far
  base::ChainKey key;                        ///< what its blocks are hashed under
  PrefixLabels labels;                       ///< the same for people and routers
  bool cacheable = true;                     ///< reads and feeds the prefix cache
  int64_t published = 0;                     ///< blocks already offered to the index
  uint64_t epoch = 0;                        ///< of the manager when its first block was taken
  Counts live_from{};                        ///< per group: first block not given back
  int64_t expected_blocks = 0;               ///< room to reserve in the tables
  int64_t pin_blocks = 0;                    ///< leading blocks to keep once they are computed
  int64_t pin_ns = 0;                        ///< for how long
  Walk walk;
  Miss miss;                                 ///< of the last claim
  int64_t reachable = 0;                     ///< blocks that the last claim would have taken, had every boundary a stored state
  std::vector<StateImage> images;            ///< reserved for the states of one step, see Manager::reserve_image
  int64_t start = 0;                         ///< tokens that the last claim spares
  int64_t hit_end = 0;                       ///< after a hit of which tokens are computed once more: its tokens, which full groups do not write; else 0
  int64_t filled = 0;                        ///< with hit_end: entries of the windows' tables that are there
  int64_t exact_from = 0;                    ///< the first block of windows that may be published
  /// The first block that only holders of the salt share, or -1.
  int64_t salted_block(int block_size) const {
    return key.salt ? key.salted_block(block_size) : labels.salt.empty() ? -1 : 0;
  }
  int64_t blocks() const { return tables.empty() ? 0 : int64_t(tables[0].size()); }
  /// Blocks that need not be taken any more to compute what they hold.
  int64_t ready() const { return hit_end ? std::min(filled, blocks()) : blocks(); }
};

}  // namespace isotope::kv
