// One rank of a simulation: the real scheduler, the real block bookkeeping, and instead of a model a cost. Blocks are the unit of the KV bookkeeping here
// (one made-up id stands for the tokens of a whole block), so a request of 100 000 tokens costs a few kilobytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/manager.h"
#include "sched/balance.h"
#include "sched/cost_gate.h"
#include "sched/scheduler.h"
#include "sched/sim_trace.h"

namespace isotope::sched {

/// What a step takes. The defaults are those of an 8B model on one accelerator, where steps that only decode replay a recorded graph and steps with prompt
/// tokens do not.
struct SimCost {
  double step_us = 9000;         ///< any step: weights are read once
  double prefill_step_us = 6000; ///< on top in a step with prompt tokens: launches that no recorded graph covers
  double token_us = 20;          ///< each token
  double context_ns = 40;        ///< each key that a decoding token attends to
  double pair_ns = 1.5;          ///< each pair of a prompt token and a key it attends to
};

/// "step_us=9000,token_us=20": a cost with some numbers changed.
Result<SimCost> parse_cost(std::string_view);

struct SimSeq : Entry {
  size_t index = 0;  ///< of its request
  const SimRequest* request = nullptr;
  int64_t known = 0, computed = 0, made = 0;  ///< tokens; `made` is output
  bool fresh = true;
  int64_t progress = 0;  ///< pass of its rank in which it came or was last computed
  int64_t first_ns = 0, last_ns = 0;
  int64_t cached = 0;
  int preemptions = 0;
  kv::SeqBlocks kv;
  std::vector<int32_t> ids;  ///< one for each block
};

struct SimRankOptions {
  SchedulerOptions scheduler;
  int64_t blocks = 4096;
  bool prefix_caching = true;
  SimCost cost;
};

/// What a step did to one request.
struct SimEvent {
  SimSeq* seq;
  bool first, last;  ///< its first output token, its end
};

class SimRank final : private Owner {
 public:
  explicit SimRank(const SimRankOptions&);

  void add(std::unique_ptr<SimSeq>, int64_t now_ns);
  /// Ends a request wherever it is and gives it back.
  std::unique_ptr<SimSeq> take(size_t index, bool own_end);
  std::vector<std::unique_ptr<SimSeq>> take_all();  ///< the rank is lost, its KV too
  std::vector<std::unique_ptr<SimSeq>> take_overdue(int64_t now_ns);

  bool has_work() const { return !seqs_.empty(); }
  Scheduler& scheduler() { return sched_; }
  StepMeter& meter() { return meter_; }
  void force_preempt() { force_preempt_ = true; }

  Signals observe(int64_t now_ns);
  void plan(bool hold);       ///< in a lockstep group
  void plan(int64_t now_ns);  ///< alone
  /// Preempts, admits, grows; returns how long the step takes. 0: nothing to do.
  int64_t begin();
  /// The step has been computed.
  const std::vector<SimEvent>& finish(int64_t now_ns);

  int64_t step_tokens() const { return step_tokens_; }
  int64_t step_prefill() const { return step_prefill_; }  ///< prompt tokens of the step
  int64_t preemptions() const { return preemptions_; }
  int64_t hit_tokens() const { return hit_tokens_; }
  int64_t looked_up_tokens() const { return looked_up_; }
  /// Null when every invariant holds, else what is broken: blocks, budgets, order, progress.
  const char* check();

 private:
  SeqState running_state(const Entry&) const override;
  kv::Counts held(const Entry&) const override;
  SeqState waiting_state(Entry&) override;

  Pass pass(int64_t now_ns) const;
  int64_t blocks_for(int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  void extend_ids(SimSeq&, int64_t blocks) const;
  void admit(SimSeq&);

  int block_size_;
  SimCost cost_;
  kv::Manager kv_;
  Scheduler sched_;
  StepMeter meter_;
  std::unordered_map<size_t, std::unique_ptr<SimSeq>> seqs_;
  const StepPlan* plan_ = nullptr;  ///< of the step
  std::vector<std::pair<SimSeq*, int64_t>> work_;
  std::vector<SimEvent> events_;
  bool force_preempt_ = false;
  const char* broken_ = nullptr;  ///< noticed while a step was carried out
  int64_t passes_ = 0;
  int64_t step_ns_ = 0, step_tokens_ = 0, step_prefill_ = 0;
  int64_t preemptions_ = 0, hit_tokens_ = 0, looked_up_ = 0;
};

}  // namespace isotope::sched
