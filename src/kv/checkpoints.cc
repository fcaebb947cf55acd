#include "kv/checkpoints.h"

#include <algorithm>

namespace isotope::kv {

int64_t CheckpointPlan::next(const CheckpointOptions& o, int64_t computed) const {
  if (!o.enabled()) return 0;
  int64_t first = 0;
  const auto offer = [&](int64_t at) {
    if (at > computed && at <= prompt && (first == 0 || at < first)) first = at;
  };
  if (o.interval > 0) offer((computed / o.interval + 1) * o.interval);
  offer(anchor);
  offer(demand);
  return first;
}

std::vector<int64_t> CheckpointPlan::between(const CheckpointOptions& o, int64_t computed, int64_t end) const {
  std::vector<int64_t> out;
  for (int64_t at = next(o, computed); at > 0 && at < end; at = next(o, at)) out.push_back(at);
  return out;
}

int64_t CheckpointPlan::last_within(const CheckpointOptions& o, int64_t computed, int64_t shared) const {
  if (!o.enabled()) return 0;
  const int64_t most = std::min(shared, prompt);
  int64_t last = 0;
  const auto offer = [&](int64_t at) {
    if (at > computed && at <= most && at > last) last = at;
  };
  if (o.interval > 0) offer(most / o.interval * o.interval);
  offer(anchor);
  offer(demand);
  return last;
}

bool CheckpointPlan::wanted(const CheckpointOptions& o, int block_size, int64_t computed) const {
  if (!o.enabled() || computed == 0 || computed % block_size) return false;
  if (computed == anchor || computed == demand) return true;
  if (o.interval < 0) return false;
  return computed <= prompt ? computed % o.interval == 0 : computed - last >= o.interval;
}

CheckpointPlan plan_checkpoints(const CheckpointOptions& o, int block_size, int64_t prompt, int64_t reused, int64_t reachable) {
  CheckpointPlan p{.prompt = prompt, .last = reused};
  const int64_t behind = std::max<int64_t>(1, o.end_margin);  // at least one token is always computed
  if (prompt - behind >= block_size) p.anchor = (prompt - behind) / block_size * block_size;
  if (o.demand && reachable > reused) p.demand = reachable;
  return p;
}

}  // namespace isotope::kv
