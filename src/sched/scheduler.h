// The scheduler of one rank: its queue, the order of what runs, and in each pass a plan. It decides; whoever owns it (the engine, the simulator) carries the
// plan out on blocks and a model and reports back. It knows neither, and no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sched/balance.h"
#include "sched/delayer.h"
#include "sched/fair_share.h"
#include "sched/place.h"
#include "sched/plan.h"

namespace isotope::sched {

/// The scheduler's part of a request. Owned by the caller; it must outlive its stay between add() and remove().
struct Entry {
  // Set before add().
  int priority = 0;
  std::string share_key;          ///< fair share among equal keys' requests; empty is a key too
  int64_t prompt_size = 0, output_limit = 0;
  int64_t arrived_ns = 0;
  int64_t start_by_ns = INT64_MAX;  ///< refused if it has not started to run by then

  // Kept by the scheduler.
  Place place;
  int64_t charged = 0;       ///< what fair share expected it to cost
  int64_t holds_before = 0;  ///< Scheduler::holds() when it arrived
  bool queued = false;       ///< waits; else it runs, or was never added
  bool started = false;      ///< has been admitted once
  int64_t waits = 0;             ///< passes in which it was passed over, see SchedulerOptions::wait_passes
  int64_t first_wait = -1;       ///< number of the first one; -1 = none
  int64_t wait_computed = -1;    ///< tokens of its hit when it began to wait; -1 = does not wait
};

/// Requests that waited for a state which another one was about to store, since the start.
struct WaitCounts {
  int64_t started = 0;
  int64_t satisfied = 0;  ///< found more than when they began
  int64_t ended = 0;      ///< nobody was about to store it any more
  int64_t expired = 0;
  int64_t tokens = 0;     ///< that those that were satisfied found more
};

/// What the scheduler asks of its owner while it plans. `ref` of the states is the scheduler's own business.
class Owner {
 public:
  virtual ~Owner() = default;
  virtual SeqState running_state(const Entry&) const = 0;   ///< without `held`
  virtual kv::Counts held(const Entry&) const = 0;          ///< what preempting it would free
  virtual SeqState waiting_state(Entry&) = 0;   ///< with its prefix hit
};

struct SchedulerOptions {
  Limits limits;
  levers::PrefillDelayer delayer;
  bool lockstep_group = false;  ///< ranks step together: the group decides on holds, see observe()
  bool fair_share = true;
  /// Above 0: a request whose hit would grow by a whole step's tokens, had a running one stored the state that it is about to store, is passed over until it
  /// has, for so many passes at most. 0 = never.
  int64_t wait_passes = 0;
};

/// What is true at the beginning of a pass.
struct Pass {
  kv::Counts available{}, total{};  ///< blocks per group
  int64_t now_ns = 0;
  bool force_preempt = false;
};

class Scheduler {
 public:
  struct Before {
    bool operator()(const Entry* a, const Entry* b) const { return a->place < b->place; }
  };
  using Entries = std::set<Entry*, Before>;

  Scheduler(const SchedulerOptions&, Owner&);

  /// Queues a request. If that throws for want of memory nothing has changed; no later call needs memory for it.
  void add(Entry&);
  /// It has ended: `used` tokens were computed or generated for it. `own_end`: by itself, not by a cancel.
  void remove(Entry&, int64_t used, bool own_end);
  void admit(Entry&);    ///< from the queue to what runs
  void preempt(Entry&);  ///< and back, to its old place
  /// The request whose start_by_ns is the oldest that is over; null when there is none.
  Entry* overdue(int64_t now_ns);

  const Entries& running() const { return running_; }
  const Entries& waiting() const { return waiting_; }

  /// Begins a pass: looks at what runs and, where a delayer is, at as much of the queue as it needs.
  Signals observe(const Pass&);
  /// The second half. `hold`: the group's verdict. Refs of the plan go through at().
  const StepPlan& plan(bool hold);
  /// Both halves of a scheduler that decides for itself.
  const StepPlan& plan(const Pass&);
  /// The prompts of the last plan, in its order, for evening out ranks; then the plan with what is left of them. Requests that are left nothing are not
  /// admitted, or wait a step with what they have.
  std::vector<PrefillChunk> prefill_chunks() const;
  void set_prefill(const std::vector<PrefillChunk>&);
  Entry& at(int32_t ref) const { return *by_ref_[size_t(ref)]; }
  /// The step was carried out: whether it computed prompt tokens.
  void executed(bool prefill) { prefilled_ |= prefill; }

  const Delayer* delayer() const { return delayer_ ? &*delayer_ : nullptr; }
  std::optional<Exit> last_exit() const { return last_exit_; }  ///< of the last pass, without a delayer none
  const Signals& last_signals() const { return signals_; }
  int64_t holds() const { return holds_; }  ///< passes in which prefill was held, since the start
  const WaitCounts& waits() const { return wait_counts_; }
  int64_t probed() const { return int64_t(waiting_states_.size()); }  ///< waiting requests that the last pass looked at
  const Limits& limits() const { return input_.limits; }

 private:
  const SeqState& state(int32_t ref) const;
  void collect_running();
  bool tight() const;
  const SeqState* probe(size_t i);
  bool waits_for_state(Entry&, const SeqState&);
  void probe_for_delayer();
  void collect_waiting();

  Owner& owner_;
  bool group_;
  FairShare share_;
  std::optional<Delayer> delayer_;
  Planner planner_;
  Input input_;
  StepPlan plan_;
  Entries running_, waiting_;
  std::set<std::pair<int64_t, Entry*>> deadlines_;  ///< of those that wait for their first start
  uint64_t arrivals_ = 0;
  int64_t holds_ = 0;
  bool prefilled_ = false;  ///< since the last verdict
  std::optional<Exit> last_exit_;
  Signals signals_;
  int64_t now_ns_ = 0;
  std::vector<SeqState> running_states_, waiting_states_;
  std::vector<Entry*> by_ref_;
  Entries::const_iterator next_waiting_;  ///< the first one without a state in this pass
  int64_t wait_passes_;
  int64_t passes_ = 0;     ///< since the start
  bool passed_over_ = false;  ///< in this pass somebody waits for a state, and others may go first
  int64_t looked_past_ = 0;   ///< how many have been looked at since
  WaitCounts wait_counts_;
  int64_t probed_tokens_ = 0;
};

}  // namespace isotope::sched
