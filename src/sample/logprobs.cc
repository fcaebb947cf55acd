#include <algorithm>
#include <cmath>

#include "sample/sampler.h"
#include "sample/vector_math.h"

namespace isotope::sample {

namespace {

constexpr float kFloor = -9999.0f;

float logprob(float x, float max, double log_sum) {
  const double v = double(x) - double(max) - log_sum;
  return v > double(kFloor) ? float(std::min(v, 0.0)) : kFloor;  // NaN and -inf end up on the floor
}

}  // namespace

TokenLogprob logprobs_of(std::span<const float> logits, int32_t token, int32_t k, std::vector<TokenLogprob>& top,
                         std::vector<Item>& scratch) {
  const float max = max_of(logits);
  const double sum = sum_exp(logits, max), log_sum = sum > 0 ? std::log(sum) : 0;
  top.clear();
  if (k > 0) {
    top_k(logits, k, scratch);
    for (const Item& i : scratch)
      top.push_back({.token = i.id, .logprob = logprob(i.key, max, log_sum), .rank = int32_t(top.size()) + 1});
  }
  return {.token = token, .logprob = logprob(logits[size_t(token)], max, log_sum), .rank = int32_t(rank_of(logits, token))};
}

}  // namespace isotope::sample
