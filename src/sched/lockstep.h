// What ranks that step together decide together. Every rank has a replica of Lockstep and feeds it the same messages in the same order, so that all come to
// the same verdict without a leader. The messages are plain structs: between threads they are shared, between processes they would be sent.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sched/balance.h"
#include "sched/cost_gate.h"
#include "sched/delayer.h"

namespace isotope::sched {

/// A rank's first message of a pass. One that is not there (any more) counts as this default.
struct RankReport {
  bool work = false;              ///< has requests
  Signals signals{.ranks = 0};    ///< Scheduler::observe
  RankTimes times;
};

struct LockstepOptions {
  levers::PrefillDelayer delayer;
  int64_t budget = 2048;  ///< tokens of a rank's step
  BalanceOptions balancing;
  bool balance = true;    ///< even out the cost of prefill steps; needs a delayer, as its cost gate does
};

class Lockstep {
 public:
  explicit Lockstep(const LockstepOptions&);

  /// Whether prompts are held back in this pass, from the reports of all ranks.
  bool hold(std::span<const RankReport>);
  /// Whether a pass that does not hold has a second message: what each rank's prompts will cost.
  bool balances() const { return delayer_ && options_.balance; }
  double cost(std::span<const PrefillChunk>) const;
  /// Takes out of `mine` what exceeds the common target. Returns the number of tokens taken.
  int64_t even_out(std::vector<PrefillChunk>& mine, std::span<const double> costs) const;

  const Delayer* delayer() const { return delayer_ ? &*delayer_ : nullptr; }
  std::optional<Exit> last_exit() const { return last_exit_; }     ///< of the last pass, without a delayer none
  const Signals& last_signals() const { return all_; }

 private:
  LockstepOptions options_;
  std::optional<Delayer> delayer_;
  std::optional<Exit> last_exit_;
  std::vector<Signals> signals_;
  Signals all_;
};

/// Largest cost above the mean of the ranks that prefill: 1 = even, n = one of n ranks does everything. 0 when none prefills.
double imbalance(std::span<const double> costs);

}  // namespace isotope::sched
