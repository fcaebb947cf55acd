#include "sched/fair_share.h"

#include <algorithm>

namespace isotope::sched {

int64_t FairShare::expected_cost(int64_t prompt, int64_t max_output) const {
  return prompt + std::min(max_output, int64_t(mean_output_ + 0.5));
}

int64_t FairShare::arrive(int priority, std::string_view key, int64_t cost) {
  if (!on_) return 0;
  Level& level = levels_[priority];
  if (level.keys.size() >= kRemembered) forget_idle(level);
  Key& k = level.keys[std::string(key)];
  const int64_t start = std::max(level.now, k.end);
  k.end = start + std::max<int64_t>(1, cost);
  ++k.alive;
  ++level.alive;
  return start;
}

void FairShare::admitted(int priority, int64_t share) {
  if (const auto it = levels_.find(priority); it != levels_.end()) it->second.now = std::max(it->second.now, share);
}

void FairShare::finished(int priority, std::string_view key, int64_t charged, int64_t used) {
  if (!on_) return;
  const auto level = levels_.find(priority);
  if (level == levels_.end()) return;
  if (--level->second.alive == 0) {
    levels_.erase(level);
    return;
  }
  const auto it = level->second.keys.find(std::string(key));
  if (it == level->second.keys.end()) return;
  --it->second.alive;
  it->second.end = std::max(level->second.now, it->second.end - std::max<int64_t>(1, charged) + used);
}

void FairShare::observe_output(int64_t tokens) {
  mean_output_ += 0.05 * (double(tokens) - mean_output_);
}

/// A key that is behind the line gets the same place whether it is remembered or not, so those go first.
void FairShare::forget_idle(Level& level) {
  std::erase_if(level.keys, [&](const auto& k) { return k.second.alive == 0 && k.second.end <= level.now; });
  if (level.keys.size() >= kRemembered) std::erase_if(level.keys, [](const auto& k) { return k.second.alive == 0; });
}

size_t FairShare::keys() const {
  size_t n = 0;
  for (const auto& [priority, level] : levels_) n += level.keys.size();
  return n;
}

}  // namespace isotope::sched
