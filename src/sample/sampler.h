// From one row of logits to one token, and to log-probabilities.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isotope/engine.h"
#include "sample/processors.h"
#include "sample/row.h"
#include "sample/select.h"

namespace isotope::sample {

/// Temperatures below this are greedy: the draw would fall on a maximum anyway, but for exact ties.
inline constexpr float kGreedyBelow = 1e-5f;

/// Scratch memory for rows of V logits; one for each thread that samples. What it returns depends on the row alone.
class Sampler {
 public:
  explicit Sampler(int64_t vocab);

  /// The next token, or -1 when bias, masks and bad words leave none.
  int32_t choose(const Row&);

 private:
  int32_t draw(const Row&);
  void gather(const SamplingParams&);
  void gather_above(float least);
  void keep_typical(float typical_p, double total);
  void cut_after(const Item& last);
  void truncate(const Row&);
  void exclude_top_choices(const Row&);
  int32_t pick(double u) const;
  int32_t pick_from_all(double total, double u) const;
  std::span<Item> scratch_copy();
  double mass() const;

  Processors processors_;
  std::vector<float> logits_;   ///< [V] processed
  std::vector<float> weights_;  ///< [V] unnormalised probabilities
  std::vector<Item> items_, scratch_;
  std::vector<int32_t> indices_;  ///< [V + 1]
  double total_ = 0;  ///< of the distribution that top-p refers to
};

/// Log-probabilities of the model itself: log-softmax of the raw logits, before bias, penalties and temperature. `top` gets the k
/// most likely, best first. Never -inf or NaN: the floor is -9999.
TokenLogprob logprobs_of(std::span<const float> logits, int32_t token, int32_t k, std::vector<TokenLogprob>& top,
                         std::vector<Item>& scratch);

}  // namespace isotope::sample
