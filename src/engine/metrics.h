// The engine's own metrics under the names that dashboards and routers of vLLM and ATOM read.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/sequence.h"
#include "isotope/engine.h"
#include "kv/event_publisher.h"
#include "levers/groups.h"
#include "models/engram_config.h"
#include "telemetry/metrics.h"

namespace isotope::engine {

/// Counts of one step, gathered by the loop.
struct StepCounts {
  int64_t tokens = 0;  ///< computed, prompt and decode
  int64_t generated = 0;
  int64_t preempted = 0;
  bool prefill = false; ///< it computed prompt tokens of requests without an output since their admission
  int64_t started = 0;  ///< requests that were admitted for the first time
  int64_t states_kept = 0, states_dropped = 0;  ///< stored states of recurrent layers, and those for which there was no slot
  int64_t states_cut = 0;                       ///< chunks cut so that a step ends where a state is stored
  int64_t states_demanded = 0;                  ///< admissions whose hit ended early for want of a stored state
  int64_t states_midstep = 0;                   ///< of those that were kept: from the middle of a step
  int64_t most_states = 0;                      ///< blocks of states that one sequence held, if that is checked
  int64_t replays = 0, replayed_tokens = 0;     ///< hits of which tokens are computed once more, and those tokens
};

class Metrics {
 public:
  Metrics(const ModelInfo&, const EngineOptions&, int64_t blocks_of_first_group, const levers::Housekeeping& = {});

  void admitted(const Sequence&, int64_t hit_tokens, bool queried);  ///< first or repeated admission
  void prompt_done(const Sequence&);                                 ///< the first time its whole prompt has been computed
  void token(const Sequence&, int64_t now_ns, int64_t previous_ns);
  void finished(const Sequence&, FinishReason, int64_t now_ns);
  void rejected(std::string_view reason);  ///< any thread: "queue_full", "invalid", "shutting_down", "duplicate_id", "deadline"
  void delayer(sched::Exit);               ///< a verdict of the prefill delayer
  void imbalance(double largest_to_mean);  ///< of the prefill costs of ranks that step together; 0 = nobody prefilled
  void gave_back(int64_t tokens);          ///< that this rank's prompts lost to even it out
  void step(const StepCounts&, const EngineStats&, int64_t partial_prefills);
  void prefix_cache(const kv::CacheCounters&);  ///< totals since the start
  void kv_events(const kv::PublisherStats&);    ///< likewise
  void waits(const sched::WaitCounts&);         ///< likewise
  void tables(const models::EngramStats&);      ///< likewise
  void integrity_error();
  void forward_time(double seconds);          ///< of one pass; only with ATOM_ENABLE_METRICS_DEVICE_TIMER
  void prompt_forward_time(double seconds);   ///< of all passes of one prompt
  int64_t integrity_errors() const;

  std::string prometheus() const;
  friend std::string prometheus(std::span<const Metrics* const>);

 private:
  void raise(size_t row, int64_t total, size_t label = 0);  ///< a counter to a total that never falls
  telemetry::Registry registry_;
  std::unique_ptr<telemetry::Registry> device_;  ///< null without the device timer
  telemetry::Labels cache_config_;
  int64_t interval_ns_, next_refresh_ns_ = 0;    ///< of the atom: gauges
};

/// Several engines of one process as one text, told apart by the label "engine".
std::string prometheus(std::span<const Metrics* const>);

}  // namespace isotope::engine
