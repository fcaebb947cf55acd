// What changes logits before the draw, in the order that options.h documents.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sample/row.h"

namespace isotope::sample {

/// True if process() would change anything; a greedy row without it needs no copy of its logits.
bool needs_processing(const Row&);

/// Applies all processors of a row to a copy of its logits. Owns scratch memory; one for each thread that samples.
class Processors {
 public:
  void apply(const Row&, std::span<float> logits /*[V]*/);

 private:
  void allow_only(std::span<const int32_t> ids, std::span<float> logits);
  void apply_mask(TokenMask&, std::span<float> logits);
  void dry(const Row&, std::span<float> logits);

  std::vector<uint32_t> bits_;
  std::vector<float> kept_;
  std::vector<int32_t> z_;
  std::vector<std::pair<int32_t, int64_t>> repeats_;  ///< token, length of the repetition it would extend
};

// Each is exposed for its test.
void apply_bias(std::span<const std::pair<int32_t, float>> bias, std::span<float> logits);
void forbid_bad_words(std::span<const std::vector<int32_t>> words, std::span<const int32_t> output, std::span<float> logits);
void apply_penalties(const SamplingParams&, const TokenCounts&, std::span<float> logits);
/// How far back, counted from the end, the nearest sequence breaker ends; tokens.size() if none occurs. No repetition is followed
/// beyond it.
int64_t breaker_distance(std::span<const int32_t> tokens, std::span<const std::vector<int32_t>> breakers);
/// z[i] = length of the longest common suffix of tokens[0..n-1-i] and tokens (z[0] = n): the Z function of the reversed text,
/// linear time.
void common_suffixes(std::span<const int32_t> tokens, std::vector<int32_t>& z);

}  // namespace isotope::sample
