// A self-check of the slots of recurrent states: once a step is planned a sequence holds its own slot, and for a moment the image that replaces another one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kv/seq_blocks.h"

namespace isotope::kv {

/// Blocks of the state group that a sequence may hold at most, not counting what it has reserved for states within the step.
inline constexpr int64_t kMostStateBlocks = 2;

/// How many it holds: its slots, and images at positions where the step, which computes tokens [begin, end), leaves none.
inline int64_t state_blocks(const SeqBlocks& s, int64_t begin, int64_t end) {
  if (s.tables.empty()) return 0;
  const auto stale = std::count_if(s.images.begin(), s.images.end(), [&](const StateImage& i) { return i.position <= begin || i.position >= end; });
  return int64_t(s.tables.back().size()) + stale;
}

}  // namespace isotope::kv
