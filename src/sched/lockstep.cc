#include "sched/lockstep.h"

#include <algorithm>

namespace isotope::sched {

namespace {

/// Whoever waits is who could start now: a backlog that finds no slot waits no longer for a hold.
bool gate(std::span<const RankReport> reports, int64_t hold_ticks) {
  std::vector<GateRank> all;
  int64_t waiting = 0;
  for (const RankReport& r : reports) {
    if (r.signals.ranks == 0) continue;
    all.push_back({r.times, r.signals.able > 0});
    waiting += r.signals.held;
  }
  return gate_releases({.ranks = all, .waiting = waiting, .hold_ticks = hold_ticks});
}

}  // namespace

Lockstep::Lockstep(const LockstepOptions& o) : options_(o) {
  if (delayer_active(o.delayer, true)) delayer_.emplace(o.delayer, o.budget);
}

bool Lockstep::hold(std::span<const RankReport> reports) {
  if (!delayer_) return false;
  signals_.clear();
  for (const RankReport& r : reports) signals_.push_back(r.signals);
  all_ = combine(signals_);
  CostGate cost_gate;
  if (options_.balance) cost_gate = [reports](int64_t ticks) { return gate(reports, ticks); };
  last_exit_ = delayer_->decide(all_, cost_gate);
  return !fires(*last_exit_);
}

double Lockstep::cost(std::span<const PrefillChunk> chunks) const {
  return prefill_cost(chunks, options_.balancing.token_weight);
}

int64_t Lockstep::even_out(std::vector<PrefillChunk>& mine, std::span<const double> costs) const {
  const double target = balance_target(costs, options_.balancing.slack);
  return cost(mine) <= target ? 0 : shrink_to_target(mine, target, options_.balancing);
}

double imbalance(std::span<const double> costs) {
  double most = 0, sum = 0;
  int ranks = 0;
  for (const double c : costs) {
    if (c <= 0) continue;
    most = std::max(most, c);
    sum += c;
    ++ranks;
  }
  return ranks ? most * ranks / sum : 0;
}

}  // namespace isotope::sched
