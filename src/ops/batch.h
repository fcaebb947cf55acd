// One step's work as a value that is passed. Prefill chunks and decode rows are the same thing.
#pragma once

#include <cstdint>
#include <span>

namespace isotope::ops {

/// Flat batch: T tokens of S sequences. Sequence s owns rows [query_start[s], query_start[s+1]).
struct Batch {
  std::span<const int32_t> tokens;       ///< [T]
  std::span<const int32_t> positions;    ///< [T] absolute; consecutive within a sequence
  std::span<const int32_t> query_start;  ///< [S+1]
  std::span<const int32_t> context_len;  ///< [S] tokens of the sequence in the cache once this step's tokens are written
  std::span<const int32_t> logit_rows;   ///< [R] rows of T whose logits are wanted, ascending

  /// One for each KV group of the model (full, each sliding window …).
  struct Group {
    const int32_t* block_table = nullptr;  ///< [S, table_stride] block ids; -1 = freed (outside the window), never read. Of a state group: slot, then nothing
    int64_t table_stride = 0;
    /// [T] where each token's KV goes: block id * block size + offset; -1 = nowhere, what is there already stays (a group of compressed entries, where tokens
    /// are computed once more); empty for a state group
    std::span<const int32_t> slots;
  };
  std::span<const Group> groups;
  std::span<const int32_t> before = {};  ///< [S, lookback] the tokens just before a sequence's first row, the nearest last; -1 = there is none
  int64_t lookback = 0;                  ///< as many as the model asks for (Model::lookback())

  /// The state of a sequence after the first `tokens` of its tokens in this step goes to a slot of the state group as well: tokens from 1 to all but one of
  /// them, the position behind them a multiple of kStateChunk.
  struct Capture {
    int32_t seq = 0, tokens = 0, slot = 0;
  };
  std::span<const Capture> captures = {};  ///< ascending by sequence, then by tokens

  int64_t T() const { return int64_t(tokens.size()); }
  int64_t S() const { return int64_t(context_len.size()); }
  int64_t R() const { return int64_t(logit_rows.size()); }
};

}  // namespace isotope::ops
