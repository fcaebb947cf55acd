#include "ops/cpu/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace isotope::ops {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

void to_scores(const kernels::cpu::ElementwiseKernels& k, Routing::Score score, std::span<float> x) noexcept {
  const int64_t n = int64_t(x.size());
  if (score == Routing::Score::sigmoid) return k.sigmoid(x.data(), n);
  if (score == Routing::Score::sqrt_softplus) {
    for (float& v : x) v = std::sqrt(float(std::max(double{v}, 0.0) + std::log1p(std::exp(-std::abs(double{v})))));
    return;
  }
  k.exp(x.data(), n, *std::max_element(x.begin(), x.end()));
  float sum = 0;
  for (float v : x) sum += v;
  for (float& v : x) v /= sum;
}

/// The index of the largest value that is not `taken`; the lowest of equal ones. One that is not taken is always found if there is one.
template <class Taken>
int32_t best(std::span<const float> v, Taken taken) noexcept {
  int32_t at = -1;
  for (int32_t i = 0; i < int32_t(v.size()); ++i)
    if (!taken(i) && (at < 0 || v[size_t(i)] > v[size_t(at)])) at = i;
  return at;
}

float group_score(std::span<const float> group, int of_best) noexcept {
  // A handful of passes over a short run; kept free of memory of its own.
  float sum = 0, above = std::numeric_limits<float>::infinity();
  int32_t last = -1;
  for (int n = 0; n < of_best; ++n) {
    const int32_t at = best(group, [&](int32_t i) { return group[size_t(i)] > above || (group[size_t(i)] == above && i <= last); });
    if (at < 0) break;
    sum += group[size_t(at)], above = group[size_t(at)], last = at;
  }
  return sum;
}

/// Leaves only the experts of the best groups in `choice`: marks[e] says that e is out.
void drop_groups(const Routing& r, std::span<const float> choice, std::span<float> marks) noexcept {
  const size_t each = choice.size() / size_t(r.groups);
  constexpr int kMostGroups = 256;
  float scores[kMostGroups];
  bool kept[kMostGroups] = {};
  for (size_t g = 0; g < size_t(r.groups); ++g) scores[g] = group_score(choice.subspan(g * each, each), r.group_best);
  for (int n = 0; n < r.groups_used; ++n) kept[best({scores, size_t(r.groups)}, [&](int32_t i) { return kept[i]; })] = true;
  for (size_t e = 0; e < choice.size(); ++e) marks[e] = kept[e / each] ? 0.0f : 1.0f;
}

void weigh(const Routing& r, std::span<const float> scores, std::span<const int32_t> experts, float* weights) noexcept {
  float sum = 0;
  for (size_t n = 0; n < experts.size(); ++n) weights[n] = scores[size_t(experts[n])], sum += weights[n];
  const float factor = r.renormalize ? r.scale / (sum + 1e-20f) : r.scale;
  for (size_t n = 0; n < experts.size(); ++n) weights[n] *= factor;
}

}  // namespace

void choose_experts(const kernels::cpu::ElementwiseKernels& k, const Routing& r, std::span<float> logits, std::span<const float> bias, std::span<float> scratch,
                    int32_t* experts, float* weights) noexcept {
  // scratch: what the choice goes by, where that is not the score itself.
  std::span<const float> choice = r.by_logits || !bias.empty() ? scratch.first(logits.size()) : logits;
  if (r.by_logits) std::copy(logits.begin(), logits.end(), scratch.begin());
  to_scores(k, r.score, logits);
  if (!bias.empty())
    for (size_t e = 0; e < logits.size(); ++e) scratch[e] = (r.by_logits ? scratch[e] : logits[e]) + bias[e];
  const std::span<float> out = scratch.subspan(logits.size(), logits.size());
  if (r.groups > 1) drop_groups(r, choice, out);
  else std::fill(out.begin(), out.end(), 0.0f);
  for (int n = 0; n < r.used; ++n) {
    experts[n] = best(choice, [&](int32_t i) { return out[size_t(i)] != 0; });
    out[size_t(experts[n])] = 1.0f;
  }
  std::sort(experts, experts + r.used);
  weigh(r, logits, {experts, size_t(r.used)}, weights);
}

void weigh_experts(const kernels::cpu::ElementwiseKernels& k, const Routing& r, std::span<float> logits, std::span<const int32_t> experts,
                   float* weights) noexcept {
  to_scores(k, r.score, logits);
  weigh(r, logits, experts, weights);
}

}  // namespace isotope::ops
