// How tokens before a token find rows of n-gram tables: the hash that Engram (arXiv:2601.07372) and Qwen4-Exp have in common.
#pragma once

#include <cstdint>
#include <span>

namespace isotope::ops {

/// Each n-gram of 2 and more tokens finds `heads` rows, each in a range of its own.
struct NgramRanges {
  std::span<const int64_t> multipliers;       ///< [longest n-gram]
  std::span<const int64_t> lengths, offsets;  ///< [(longest - 1) * heads] of the ranges
  int heads = 0;
};

/// rows [(longest - 1) * heads]: offset + h mod length, where h is the exclusive or of token · multiplier over the n-gram, modulo 2^64 and read as a signed
/// number, and the remainder is never negative. token(i) is the i-th token back, 0 the last one; it is asked for once each, in that order.
template <class Token>
void ngram_rows(const NgramRanges& r, Token token, int64_t* rows) {
  uint64_t mixed = 0;
  for (size_t i = 0, at = 0; i < r.multipliers.size(); ++i) {
    mixed ^= uint64_t(token(int(i))) * uint64_t(r.multipliers[i]);
    for (int head = 0; i > 0 && head < r.heads; ++head, ++at) {
      const int64_t rest = int64_t(mixed) % r.lengths[at];
      rows[at] = r.offsets[at] + (rest < 0 ? rest + r.lengths[at] : rest);
    }
  }
}

}  // namespace isotope::ops
