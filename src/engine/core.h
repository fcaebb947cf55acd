// The state that the loop thread owns, and one step of it: plan, build, forward, sample, commit, tell.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/batch_builder.h"
#include "engine/board.h"
#include "engine/device_timer.h"
#include "engine/metrics.h"
#include "engine/parts.h"
#include "engine/sequence.h"
#include "engine/step_group.h"
#include "kv/manager.h"
#include "sample/sampler.h"
#include "sched/lockstep.h"
#include "sched/retry.h"
#include "sched/scheduler.h"

namespace isotope::engine {

class Core final : private sched::Owner {
 public:
  /// `queued` counts requests that were accepted and never admitted.
  Core(Parts&, Board&, Journals&, Metrics&, std::atomic<int64_t>& queued);

  /// Takes the sequence; if that throws, it is still the caller's.
  /// `chain`: its block hashes as the front end computed them, or null.
  void add(std::unique_ptr<Sequence>&, base::HashChain* chain = nullptr);
  /// Ends one request now; unknown ids are ignored.
  void end(uint64_t id, FinishReason, std::optional<Error> = {});
  void end_all(FinishReason, const Error&);
  void forget_prefixes();
  bool idle() const { return alive_.empty(); }
  void step();
  /// Calls the sinks of all requests that have something to tell. Outside of it no sink is called.
  void deliver();
  /// Compares all KV counts; logs and counts what is wrong.
  void check_integrity();
  void publish();
  /// Any thread: when a request that is refused now should come again.
  int retry_after_s(int64_t waiting) const { return sched::retry_after_s(waiting, starts_per_s_.load(std::memory_order_relaxed)); }

 private:
  sched::SeqState running_state(const sched::Entry&) const override;
  kv::Counts held(const sched::Entry&) const override;
  sched::SeqState waiting_state(sched::Entry&) override;
  void refuse_overdue();
  bool forced_preemption() const;
  void make_plan();
  sched::Pass pass() const;
  void plan_together();
  void even_out();
  void report_delayer(const sched::Delayer*, std::optional<sched::Exit>, const sched::Signals&);
  void apply_preemptions();
  void admit(Sequence&);
  void gather_work();
  void unstick();
  /// The most tokens of a waiting request that a running one is about to store a state for.
  int64_t promised(const Sequence&) const;
  /// Takes slots for the states within the sequence's part of the step.
  void reserve_states(Sequence&, int64_t end);
  /// False, and the step's requests have failed, if somebody holds more slots than it may.
  bool check_states();
  /// Stores the sequence's state if this is a place for it.
  void keep_state(Sequence&);
  /// Stores what reserve_states() has taken slots for.
  void publish_states(Sequence&);
  void stored(Sequence&, int64_t tokens, std::string_view how);
  bool run_model();
  Result<tensor::Tensor> timed_forward();
  void read_rows();
  void read_row(size_t index, int worker);
  void score_prompt(const LogitRow&, std::span<const float> logits, int worker);
  void commit(const WorkItem&);
  void take_token(Sequence&);
  void first_or_next_token(Sequence&);
  void retire(Sequence&, FinishReason, std::optional<Error> = {});
  void tell(Sequence&);
  void deliver_one(Sequence&);
  void fail_work(const Error&);
  void publish_events();

  EngineOptions options_;
  Runner& runner_;
  kv::EventPublisher* events_;  ///< null when off
  Board& board_;
  Journals& journals_;
  Metrics& metrics_;
  std::atomic<int64_t>& queued_;
  int64_t max_logit_rows_;
  bool check_every_step_;
  std::function<void(uint64_t, kv::Manager&, kv::SeqBlocks&)> planned_;
  std::optional<DeviceTimer> timer_;

  kv::Manager kv_;
  kv::CheckpointOptions checkpoints_;  ///< not enabled where there is no state or no prefix cache
  sched::Scheduler sched_;
  const sched::StepPlan* plan_ = nullptr;  ///< of this step
  StepGroup* group_;                       ///< null: this engine steps by itself
  int seat_;
  std::optional<sched::Lockstep> lockstep_;  ///< with a group
  bool held_ = false;                        ///< in this step the group held prompts back
  std::vector<int32_t> shortened_;           ///< refs of prompts that gave tokens back in this step, ascending
  sched::StepMeter meter_;
  sched::StartRate starts_;
  std::atomic<double> starts_per_s_{0};
  BatchBuilder builder_;
  std::vector<WorkItem> work_;
  tensor::Tensor logits_;

  struct Worker {
    explicit Worker(int64_t vocab) : sampler(vocab) {}
    sample::Sampler sampler;
    std::vector<sample::Item> scratch;
    std::vector<TokenLogprob> top;
  };
  std::vector<Worker> workers_;

  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> alive_;
  std::vector<Sequence*> outbox_;
  int empty_steps_ = 0;
  bool stale_ = false;  ///< something ended since the last publish()
  int64_t now_ns_ = 0;
  StepCounts counts_;
  EngineStats stats_;
};

}  // namespace isotope::engine
