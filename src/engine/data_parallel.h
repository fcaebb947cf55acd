// Several engines in one process behind one face: each has its own loop, compute team and KV cache; the weights are shared. What
// a rank tells the router (first output, end) passes through the sinks, as it would come as a message from another process.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine_impl.h"
#include "sched/route.h"
#include "telemetry/metrics.h"

namespace isotope::engine {

class DataParallelEngine final : public Engine {
 public:
  DataParallelEngine(std::vector<Parts>, const sched::RouterOptions&);
  ~DataParallelEngine() override { shutdown(0); }

  const ModelInfo& info() const override { return engines_[0]->info(); }
  const VocabSource& vocab() const override { return engines_[0]->vocab(); }
  Result<void> submit(Request) override;
  void finish(uint64_t id, FinishReason reason) override;
  std::optional<RequestStats> stats(uint64_t id) const override;
  std::vector<RequestRecord> records(std::string_view name, size_t most) const override;
  /// Sums; the age is that of the rank that has been at its step for longest, the time to come again that of the first to have room.
  EngineStats stats() const override;
  Result<void> reset_prefix_cache() override;
  void shutdown(double drain_s) override;
  std::vector<KvEventSource> kv_event_sources() const override;
  std::string metrics() const override;

 private:
  TokenSink watched(uint64_t id, TokenSink);
  std::string router_metrics() const;

  mutable std::mutex lock_;  ///< of the router: choosing and charging are one
  sched::Router router_;
  std::vector<std::string> rank_names_;
  std::optional<ThreadGroup> group_;                  ///< of ranks that step together
  std::vector<std::unique_ptr<EngineImpl>> engines_;  ///< stop first: their sinks use the router
};

}  // namespace isotope::engine
