// The engine as its callers see it: validation and queueing on their threads, the loop on one of its own.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

#include "base/hash_chain.h"
#include "base/heap_keeper.h"
#include "base/inbox.h"
#include "engine/board.h"
#include "engine/core.h"
#include "engine/metrics.h"
#include "engine/parts.h"

namespace isotope::engine {

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(Parts);
  ~EngineImpl() override;

  const ModelInfo& info() const override { return parts_.info; }
  const VocabSource& vocab() const override { return parts_.vocab; }
  Result<void> submit(Request r) override { return submit_routed(std::move(r), nullptr); }
  void finish(uint64_t id, FinishReason reason) override;
  std::optional<RequestStats> stats(uint64_t id) const override { return board_.find(id); }
  std::vector<RequestRecord> records(std::string_view name, size_t most) const override;
  /// submit() of a request that somebody sent here for a reason.
  Result<void> submit_routed(Request, const Decision* why);
  EngineStats stats() const override;
  Result<void> reset_prefix_cache() override;
  void shutdown(double drain_s) override;
  std::vector<KvEventSource> kv_event_sources() const override;
  std::string metrics() const override { return metrics_.prometheus(); }

  /// The two halves of shutdown(), so that several engines drain at the same time.
  void begin_shutdown(double drain_s);
  void join();
  bool on_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  const Metrics& numbers() const { return metrics_; }

 private:
  struct End {
    uint64_t id;
    FinishReason reason;
  };
  struct ForgetPrefixes {};
  struct Arrival {
    std::unique_ptr<Sequence> seq;
    std::optional<base::HashChain> chain;  ///< beside the sequence, never in it: the loop decides whether to trust it
  };
  using Message = std::variant<Arrival, End, ForgetPrefixes>;

  Result<void> enqueue(Arrival, const Decision* why);
  void handle(Message&&);
  void take(Arrival&);
  void loop() noexcept;
  void guarded_step();
  void on_idle();
  /// Ranks that step together need this one for their step although it has nothing to do itself.
  bool called() const { return parts_.group && parts_.group->called(parts_.seat); }

  Parts parts_;
  Board board_;
  Journals journals_;
  Metrics metrics_;
  std::atomic<int64_t> queued_{0};
  Core core_;
  base::Inbox<Message> inbox_;
  std::mutex door_;      ///< closing and putting a request exclude each other, so that no accepted request is left behind
  bool closed_ = false;  ///< guarded by door_
  std::atomic<bool> closing_{false};
  std::atomic<int64_t> deadline_ns_{INT64_MAX};
  int64_t next_check_ns_ = 0;
  base::Tracked tracked_{"engine", "engine"};
  std::mutex join_;
  std::thread thread_;
};

}  // namespace isotope::engine
