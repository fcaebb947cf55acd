#include "sched/balance.h"

#include <algorithm>
#include <cmath>

namespace isotope::sched {

namespace {

int64_t total(std::span<const PrefillChunk> chunks) {
  int64_t n = 0;
  for (const PrefillChunk& c : chunks) n += c.tokens;
  return n;
}

/// The most tokens of `c` that cost no more than `budget`, cut so that the chunk ends at a block's edge.
int64_t fitting_tokens(const PrefillChunk& c, double budget, const BalanceOptions& o) {
  if (budget <= 0) return 0;
  const double base = double(o.token_weight) + double(c.context);
  const double n =
      2 * budget / (std::sqrt(base * base + 2 * budget) + base);  // sqrt(base² + 2 budget) - base without the cancellation
  const int64_t end = (c.context + std::min(int64_t(n), c.tokens)) / o.block_size * o.block_size;
  return std::max<int64_t>(0, end - c.context);
}

}  // namespace

double chunk_cost(const PrefillChunk& c, int64_t token_weight) {
  return double(c.tokens) * (double(token_weight) + double(c.context) + double(c.tokens) / 2);
}

double prefill_cost(std::span<const PrefillChunk> chunks, int64_t token_weight) {
  double sum = 0;
  for (const PrefillChunk& c : chunks) sum += chunk_cost(c, token_weight);
  return sum;
}

double balance_target(std::span<const double> costs, double slack) {
  double sum = 0, most = 0;
  int ranks = 0;
  for (const double c : costs) {
    if (c <= 0) continue;
    ++ranks;
    sum += c;
    most = std::max(most, c);
  }
  return ranks == 0 ? 0 : std::min(most, sum / ranks * (1 + slack));
}

int64_t shrink_to_target(std::vector<PrefillChunk>& chunks, double target, const BalanceOptions& o) {
  const int64_t before = total(chunks);
  if (prefill_cost(chunks, o.token_weight) <= target) return 0;
  std::vector<int64_t> planned;
  for (const PrefillChunk& c : chunks) planned.push_back(c.tokens);

  size_t i = 0;
  for (; i < chunks.size() && chunk_cost(chunks[i], o.token_weight) <= target; ++i)
    target -= chunk_cost(chunks[i], o.token_weight);
  for (const size_t cut = i; i < chunks.size(); ++i) chunks[i].tokens = i == cut ? fitting_tokens(chunks[i], target, o) : 0;

  int64_t missing = std::min(o.min_tokens, before) - total(chunks);
  for (size_t k = 0; k < chunks.size() && missing > 0; ++k) {
    const int64_t more = std::min(missing, planned[k] - chunks[k].tokens);
    chunks[k].tokens += more;
    missing -= more;
  }
  std::erase_if(chunks, [](const PrefillChunk& c) { return c.tokens == 0; });
  return before - total(chunks);
}

}  // namespace isotope::sched
