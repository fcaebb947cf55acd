// DRY ("don't repeat yourself"): a token that would extend a repetition of the text so far is punished exponentially in the
// repetition's length (p-e-w, text-generation-webui pull request 5677).
#include <algorithm>
#include <cmath>

#include "sample/processors.h"

namespace isotope::sample {

void common_suffixes(std::span<const int32_t> tokens, std::vector<int32_t>& z) {
  const int64_t n = int64_t(tokens.size());
  z.assign(size_t(n), 0);
  if (n == 0) return;
  z[0] = int32_t(n);
  const auto at = [&](int64_t i) { return tokens[size_t(n - 1 - i)]; };  // the text reversed
  for (int64_t i = 1, left = 0, right = 0; i < n; ++i) {
    int64_t len = i < right ? std::min<int64_t>(right - i, z[size_t(i - left)]) : 0;
    while (i + len < n && at(len) == at(i + len)) ++len;
    z[size_t(i)] = int32_t(len);
    if (i + len > right) {
      left = i;
      right = i + len;
    }
  }
}

int64_t breaker_distance(std::span<const int32_t> tokens, std::span<const std::vector<int32_t>> breakers) {
  const int64_t n = int64_t(tokens.size());
  for (int64_t back = 0; back < n; ++back)
    for (const auto& b : breakers) {
      const int64_t len = int64_t(b.size()), end = n - back;
      if (len > 0 && len <= end && std::equal(b.begin(), b.end(), tokens.begin() + (end - len))) return back;
    }
  return n;
}

void Processors::dry(const Row& r, std::span<float> logits) {
  const SamplingParams& p = *r.params;
  std::span<const int32_t> text = r.tokens;
  if (p.dry_penalty_last_n >= 0 && text.size() > size_t(p.dry_penalty_last_n)) text = text.last(size_t(p.dry_penalty_last_n));
  const int64_t n = int64_t(text.size()), longest = breaker_distance(text, p.dry_sequence_breakers);
  if (n < 2 || longest < std::max<int32_t>(1, p.dry_allowed_length)) return;
  common_suffixes(text, z_);

  // z_[i] is how much of the end repeats i tokens earlier; the token that followed there is text[n - i]. The longest repetition
  // counts.
  const auto single_breaker = [&](int32_t id) {
    return std::any_of(p.dry_sequence_breakers.begin(), p.dry_sequence_breakers.end(),
                       [&](const auto& b) { return b.size() == 1 && b[0] == id; });
  };
  auto& found = repeats_;
  found.clear();
  for (int64_t i = 1; i < n; ++i)
    if (const int64_t len = std::min<int64_t>(z_[size_t(i)], longest); len >= std::max<int32_t>(1, p.dry_allowed_length))
      found.emplace_back(text[size_t(n - i)], len);
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first || (a.first == b.first && a.second > b.second); });
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [id, len] = found[i];
    if ((i > 0 && found[i - 1].first == id) || single_breaker(id)) continue;
    const double penalty = double(p.dry_multiplier) * std::pow(double(p.dry_base), double(len - p.dry_allowed_length));
    logits[size_t(id)] -= float(std::min(penalty, 1e9));
  }
}

}  // namespace isotope::sample
