// Embeddings of a token together with the ones before it, found by hash (Qwen4-Exp's per-layer embeddings).
#pragma once

#include <cstdint>
#include <span>

#include "ops/linear_weight.h"
#include "ops/recurrent.h"

namespace isotope::ops {

/// For each n from 2 to `size`, `heads` rows of the tables, which count as one: row offset + h % vocabulary of each head, h the exclusive or of token · multiplier over the last n
/// tokens, multiplied modulo 2^64 and read as a signed number, the remainder never negative. `separator` stands for tokens before the first one and for those
/// up to and with the last separator before the token.
struct NgramArgs {
  std::span<const Linear> tables;               ///< [rows, dim], together at least the sum of all vocabularies; all but the last have the same number of rows
  int size = 0, heads = 0;                      ///< the longest n-gram; heads of each length
  std::span<const int64_t> multipliers;         ///< [size], odd
  std::span<const int64_t> vocabularies, offsets;  ///< [(size - 1) * heads]
  int32_t separator = 0;
  StatePlace at;                                ///< the last size - 1 tokens, as floats: token ids are below 2^24
  int all_heads() const { return (size - 1) * heads; }
  int64_t state_floats() const { return size - 1; }
};

}  // namespace isotope::ops
