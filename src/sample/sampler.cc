#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sample/random.h"
#include "sample/vector_math.h"

namespace isotope::sample {

namespace {

constexpr int64_t kDirectTopK = 4096;  ///< up to here the k best are picked from the logits before any exp

bool greedy(const SamplingParams& p) {
  return p.temperature < kGreedyBelow;
}

double random_of(const Row& r, Purpose purpose) {
  return uniform(r.seed, uint32_t(r.params->choice), uint64_t(r.tokens.size()) - uint64_t(r.prompt_tokens), purpose);
}

bool nothing_left(std::span<const float> logits) {
  return max_of(logits) == -std::numeric_limits<float>::infinity();
}

}  // namespace

Sampler::Sampler(int64_t vocab) : logits_(size_t(vocab)), weights_(size_t(vocab)), indices_(size_t(vocab) + 1) {}

int32_t Sampler::choose(const Row& r) {
  const bool processed = needs_processing(r);
  if (greedy(*r.params) && !processed) return int32_t(argmax(r.logits));
  std::copy(r.logits.begin(), r.logits.end(), logits_.begin());
  if (processed) {
    processors_.apply(r, logits_);
    if (nothing_left(logits_)) return nothing_left(r.logits) ? int32_t(argmax(r.logits)) : -1;
  }
  return greedy(*r.params) ? int32_t(argmax(logits_)) : draw(r);
}

int32_t Sampler::draw(const Row& r) {
  const SamplingParams& p = *r.params;
  const float max = max_of(logits_);
  if (max == -std::numeric_limits<float>::infinity()) return int32_t(argmax(logits_));  // nothing but NaN came from the model
  const bool typical = p.typical_p<1.0f, top_p = p.top_p<1.0f, min_p = p.min_p> 0.0f, xtc = p.xtc_probability> 0.0f;
  const int64_t vocab = int64_t(logits_.size()), k = p.top_k > 0 && p.top_k < vocab ? p.top_k : 0;

  if (k && k <= kDirectTopK && !typical) {
    top_k(logits_, k, items_);
    std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) { return a.id < b.id; });
    for (Item& i : items_) i.key = i.mass = exp_nonpositive((i.key - max) / p.temperature);
    std::erase_if(items_, [](const Item& i) { return i.mass <= 0; });
    total_ = mass();
    truncate(r);
    return pick(random_of(r, Purpose::token));
  }
  const double total = exp_scaled(logits_, max, p.temperature, weights_);
  total_ = total;
  if (!typical && !k && !top_p && !min_p && !xtc) return pick_from_all(total, random_of(r, Purpose::token));
  if (typical)
    keep_typical(p.typical_p, total);
  else if (k || xtc)
    gather_above(0.0f);
  else
    gather(p);
  if (k && int64_t(items_.size()) > k) {
    cut_after(kth(scratch_copy(), k));
    total_ = mass();
  }
  truncate(r);
  return pick(random_of(r, Purpose::token));
}

/// Items with a weight above `least`, ascending by id.
void Sampler::gather_above(float least) {
  items_.clear();
  const size_t found = indices_above(weights_, least, indices_);
  for (size_t i = 0; i < found; ++i) {
    const int32_t id = indices_[i];
    items_.push_back({weights_[size_t(id)], weights_[size_t(id)], id});
  }
}

/// The nucleus lies among the likeliest tokens (the best has weight 1): gathers those above a falling threshold until they hold
/// top_p of the whole.
void Sampler::gather(const SamplingParams& p) {
  if (p.top_p >= 1.0f) return gather_above(std::nextafter(p.min_p, 0.0f));
  const double need = double(p.top_p) * total_;
  for (float least = 1e-1f; least > 1e-9f; least *= 1e-1f) {
    if (sum_above(weights_, least) < need) continue;
    gather_above(least);
    if (mass() >= need) return;  // the two sums add in different orders
  }
  gather_above(0.0f);
}

/// Locally typical sampling (Meister et al., arXiv:2202.00666): the tokens whose surprise is nearest to the entropy.
void Sampler::keep_typical(float typical_p, double total) {
  gather_above(0.0f);
  const double log_total = std::log(total);
  double entropy = 0;
  for (const Item& i : items_) entropy -= double(i.mass) / total * (std::log(double(i.mass)) - log_total);
  for (Item& i : items_) i.key = -float(std::abs(-(std::log(double(i.mass)) - log_total) - entropy));
  if (!items_.empty()) cut_after(nucleus_end(scratch_copy(), double(typical_p) * total));
  for (Item& i : items_) i.key = i.mass;
  total_ = mass();
}

std::span<Item> Sampler::scratch_copy() {
  scratch_.assign(items_.begin(), items_.end());
  return scratch_;
}

double Sampler::mass() const {
  double m = 0;
  for (const Item& i : items_) m += double(i.mass);
  return m;
}

void Sampler::cut_after(const Item& last) {
  std::erase_if(items_, [&](const Item& i) { return before(last, i); });
}

/// top-p, min-p and XTC on the gathered items, which stay ascending by id.
void Sampler::truncate(const Row& r) {
  const SamplingParams& p = *r.params;
  if (p.top_p < 1.0f && !items_.empty()) cut_after(nucleus_end(scratch_copy(), double(p.top_p) * total_));
  if (p.min_p > 0.0f) {
    float most = 0;
    for (const Item& i : items_) most = std::max(most, i.mass);
    std::erase_if(items_, [&](const Item& i) { return i.mass < p.min_p * most; });
  }
  if (p.xtc_probability > 0.0f && random_of(r, Purpose::xtc) < double(p.xtc_probability)) exclude_top_choices(r);
}

/// XTC (p-e-w, text-generation-webui pull request 6335): of the tokens at or above the threshold only the least likely stays.
void Sampler::exclude_top_choices(const Row& r) {
  const double least = double(r.params->xtc_threshold) * mass();
  const Item* stays = nullptr;
  int64_t above = 0;
  for (const Item& i : items_) {
    if (double(i.mass) < least) continue;
    ++above;
    if (!stays || before(*stays, i)) stays = &i;
  }
  if (above < 2) return;
  const Item first = *stays;
  std::erase_if(items_, [&](const Item& i) { return before(i, first); });
}

/// Inverse of the cumulative distribution in id order.
int32_t Sampler::pick(double u) const {
  const double target = u * mass();
  double sum = 0;
  for (const Item& i : items_)
    if ((sum += double(i.mass)) > target) return i.id;
  return items_.empty() ? -1 : items_.back().id;
}

int32_t Sampler::pick_from_all(double total, double u) const {
  constexpr size_t kBlock = 1024;
  const double target = u * total;
  double sum = 0;
  for (size_t b = 0; b < weights_.size(); b += kBlock) {
    const size_t end = std::min(b + kBlock, weights_.size());
    const double block = sum_of({weights_.data() + b, end - b});
    if (sum + block > target)
      for (size_t i = b; i < end; ++i)
        if (weights_[i] > 0 && (sum += double(weights_[i])) > target) return int32_t(i);
    if (sum + block <= target) sum += block;
  }
  size_t last = weights_.size() - 1;  // rounding left the target just above the sum
  while (last > 0 && weights_[last] <= 0) --last;
  return int32_t(last);
}

}  // namespace isotope::sample
