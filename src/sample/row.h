// One row to sample: everything that decides the next token of one sequence. A row never sees its neighbours.
#pragma once

#include <cstdint>
#include <span>

#include "isotope/options.h"
#include "isotope/token_mask.h"
#include "sample/history.h"

namespace isotope::sample {

struct Row {
  std::span<const float> logits;           ///< [V] as the model gave them
  const SamplingParams* params = nullptr;  ///< validated
  std::span<const int32_t> tokens;         ///< prompt and output so far
  int64_t prompt_tokens = 0;
  const TokenCounts* counts = nullptr;       ///< kept up to date when wants_counts(params)
  TokenMask* mask = nullptr;                 ///< grammar, or null
  std::span<const int32_t> end_tokens = {};  ///< what ends this sequence; masked before min_tokens
  uint64_t seed = 0;

  std::span<const int32_t> output() const { return tokens.subspan(size_t(prompt_tokens)); }
};

/// Whether the row's counts are read.
inline bool wants_counts(const SamplingParams& p) {
  return p.repetition_penalty != 1.0f || p.presence_penalty != 0.0f || p.frequency_penalty != 0.0f;
}

}  // namespace isotope::sample
