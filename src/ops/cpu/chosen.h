// What an indexer chose for the tokens of a step, and the choice by scores itself.
#pragma once

#include <cstdint>
#include <span>

namespace isotope::ops {

/// Ascending numbers of keys, or of compressed entries: one list a token for all kv heads, or one for each.
struct Chosen {
  bool made = false;
  bool all = false;           ///< every token gets all that it may see; there are no lists then
  int lists = 1;              ///< of a token
  int64_t most = 0;           ///< that a list has room for
  std::span<int32_t> keys;    ///< [T, lists, most]
  std::span<int32_t> counts;  ///< [T, lists]

  std::span<const int32_t> of(int64_t token, int kv_head) const {
    const int64_t list = token * lists + (lists == 1 ? 0 : kv_head);
    return keys.subspan(size_t(list * most), size_t(counts[size_t(list)]));
  }
};

/// Blocks of keys among which later layers choose: for each token the numbers of the best ones, ascending.
struct FoundBlocks {
  bool made = false;
  bool all = false;           ///< every token has all of its blocks; there are no lists then
  int keys = 0;               ///< of a block
  int64_t most = 0;
  std::span<int32_t> blocks;  ///< [T, most]
  std::span<int32_t> counts;  ///< [T]
  std::span<const int32_t> of(int64_t token) const { return blocks.subspan(size_t(token * most), size_t(counts[size_t(token)])); }
};

/// The numbers of the `top` largest scores, ascending; of equal ones the lower number wins. Returns how many: min(top, n). `out` has room for them.
int64_t choose_top(std::span<const float> scores, int64_t top, int32_t* out) noexcept;

/// Scores of the keys a token sees, in blocks of `block` of which the last may be shorter. Chosen are the `local` last blocks, and of the others those whose
/// best keys are best, `top` blocks in all. best_blocks() writes their numbers, choose_blocks() their keys, both ascending; they return how many. `best`:
/// scratch, a float for each block; `blocks`: `top` numbers.
int64_t best_blocks(std::span<const float> scores, int block, int local, int64_t top, float* best, int32_t* blocks) noexcept;
int64_t choose_blocks(std::span<const float> scores, int block, int local, int64_t top, float* best, int32_t* blocks, int32_t* out) noexcept;

/// Keys of which each stands for `every` tokens, and how many tokens there are: those after the last whole key have none.
struct TokenKeys {
  int64_t top = 0;
  int every = 1;
  int64_t tokens = 0;
};
/// The tokens of the `top` best keys, then those that no key stands for, ascending; returns how many. `keys`: scratch, `top` numbers.
int64_t choose_tokens(std::span<const float> scores, const TokenKeys&, int32_t* keys, int32_t* out) noexcept;
/// The numbers of the `top` best keys within blocks, ascending, as choose_top() chooses. `picked`: scratch, a float for each key of the blocks.
int64_t choose_within(std::span<const float> scores, std::span<const int32_t> blocks, int keys, int64_t top, float* picked, int32_t* out) noexcept;

}  // namespace isotope::ops
