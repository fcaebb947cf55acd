#include "sample/processors.h"

#include <algorithm>
#include <limits>

namespace isotope::sample {

namespace {
constexpr float kNever = -std::numeric_limits<float>::infinity();
}

bool needs_processing(const Row& r) {
  const SamplingParams& p = *r.params;
  return !p.logit_bias.empty() || !p.allowed_token_ids.empty() || r.mask || !p.bad_words.empty() ||
         (int64_t(r.output().size()) < p.min_tokens && !r.end_tokens.empty()) || wants_counts(p) || p.dry_multiplier != 0.0f;
}

void apply_bias(std::span<const std::pair<int32_t, float>> bias, std::span<float> logits) {
  for (const auto& [id, b] : bias) logits[size_t(id)] += b;
}

void Processors::allow_only(std::span<const int32_t> ids, std::span<float> logits) {
  kept_.clear();
  for (const int32_t id : ids) kept_.push_back(logits[size_t(id)]);
  std::fill(logits.begin(), logits.end(), kNever);
  for (size_t i = 0; i < ids.size(); ++i) logits[size_t(ids[i])] = kept_[i];
}

void Processors::apply_mask(TokenMask& mask, std::span<float> logits) {
  const size_t words = (logits.size() + 31) / 32;
  bits_.assign(words, 0);
  if (!mask.fill(bits_)) return;
  for (size_t w = 0; w < words; ++w) {
    const uint32_t bits = bits_[w];
    if (bits == ~0u) continue;
    const size_t end = std::min(logits.size(), w * 32 + 32);
    for (size_t i = w * 32; i < end; ++i)
      if (!(bits >> (i & 31) & 1)) logits[i] = kNever;
  }
}

void forbid_bad_words(std::span<const std::vector<int32_t>> words, std::span<const int32_t> output, std::span<float> logits) {
  for (const auto& word : words) {
    if (word.empty() || output.size() + 1 < word.size()) continue;
    const size_t head = word.size() - 1;
    if (std::equal(word.begin(), word.begin() + int64_t(head), output.end() - int64_t(head)))
      logits[size_t(word.back())] = kNever;
  }
}

void apply_penalties(const SamplingParams& p, const TokenCounts& counts, std::span<float> logits) {
  for (const TokenCounts::Entry& e : counts.entries()) {
    if (e.token < 0) continue;
    float& x = logits[size_t(e.token)];
    x = x > 0 ? x / p.repetition_penalty : x * p.repetition_penalty;  // Keskar et al., CTRL, arXiv:1909.05858
    if (e.output == 0) continue;
    x -= p.frequency_penalty * float(e.output);
    x -= p.presence_penalty;
  }
}

void Processors::apply(const Row& r, std::span<float> logits) {
  const SamplingParams& p = *r.params;
  apply_bias(p.logit_bias, logits);
  if (!p.allowed_token_ids.empty()) allow_only(p.allowed_token_ids, logits);
  if (r.mask) apply_mask(*r.mask, logits);
  if (int64_t(r.output().size()) < p.min_tokens)
    for (const int32_t id : r.end_tokens) logits[size_t(id)] = kNever;
  forbid_bad_words(p.bad_words, r.output(), logits);
  if (wants_counts(p) && r.counts) apply_penalties(p, *r.counts, logits);
  if (p.dry_multiplier != 0.0f) dry(r, logits);
}

}  // namespace isotope::sample
