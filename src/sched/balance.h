// Evening out prefill over ranks that step together: whoever carries more than the common target gives tokens back. Pure
// functions; each rank computes the same target from the same gathered costs, in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isotope::sched {

/// A prompt's part of a step, in scheduling order.
struct PrefillChunk {
  int32_t ref = 0;      ///< the caller's handle
  int64_t tokens = 0;   ///< new ones
  int64_t context = 0;  ///< tokens whose KV is there already
};

struct BalanceOptions {
  int64_t token_weight = 360'000;  ///< what a token costs besides attention, in attended-context tokens
  double slack = 0.1;              ///< how far above the mean of the prefilling ranks a rank may stay
  int64_t min_tokens = 4096;       ///< a rank is not shrunk below this, or below what it had if that is less
  int block_size = 16;             ///< cut chunks end on this grid
};

/// n * (weight + context + n / 2), in attended-context tokens.
double chunk_cost(const PrefillChunk&, int64_t token_weight);
double prefill_cost(std::span<const PrefillChunk>, int64_t token_weight);

/// min(largest cost, mean * (1 + slack)), the mean over ranks whose cost is above 0. 0 when no rank prefills.
double balance_target(std::span<const double> costs, double slack);

/// Keeps chunks while their costs fit in `target`, cuts the first that does not, drops the rest; then gives back up to min_tokens
/// in the same order. Never more than planned. Returns how many tokens were taken out; chunks without tokens are removed.
int64_t shrink_to_target(std::vector<PrefillChunk>& chunks, double target, const BalanceOptions&);

}  // namespace isotope::sched
