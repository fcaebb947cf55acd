// Walking a chain through a pool: which blocks of a prompt are cached.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/hash_chain.h"
#include "kv/block_pool.h"

namespace isotope::kv {

/// A chain to be looked up. tokens hold at least blocks × block_size.
struct Chain {
  std::span<const base::BlockLink> links;
  std::span<const int32_t> tokens;
  int block_size = 16;
  std::span<const int32_t> block(int64_t b) const {
    return tokens.subspan(size_t(b) * size_t(block_size), size_t(block_size));
  }
};

/// What the prefix cache has done, for metrics. All since the start.
struct CacheCounters {
  int64_t fast_lookups = 0, slow_lookups = 0;  ///< blocks looked up in the index, by kind of walk
  int64_t token_compares = 0;                  ///< blocks whose tokens were compared
  int64_t walks = 0;                           ///< chains walked
  int64_t fallbacks = 0;                       ///< claims that found a remembered block changed and walked again
  int64_t memo_hits = 0;
  int64_t chains_adopted = 0;                  ///< hash chains of the front end that were used
  int64_t chains_rejected[base::kChainFaults] = {};  ///< by base::ChainFault
  int64_t blocks_hashed = 0;                   ///< prompt blocks hashed by the engine's own thread
  enum Invalid { kChanged, kPublished, kOverflow, kCleared, kRequest, kInvalids };
  int64_t memo_invalid[kInvalids] = {};
};

/// The run of leading blocks that are cached, at most `limit`; their ids go to ids[0 …]. Fast: by hash, in rounds of 1, 16, 64, 64
/// …; the tokens of the last block only are compared (of all if it differs). Slow: block by block, comparing each.
int64_t walk_run(const BlockPool&, const Chain&, int64_t limit, bool fast, std::span<int32_t> ids, CacheCounters&);

/// The longest length <= blocks before which the last `window` blocks are cached. Their ids go to ids.
int64_t walk_window(const BlockPool&, const Chain&, int64_t blocks, int64_t window, std::span<int32_t> ids, CacheCounters&);

}  // namespace isotope::kv
