// The engine as its callers see it: validation and queueing on their threads, the loop on one of its own.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

#include "base/hash_chain.h"
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
  Result<void> submit(Request) override;
  void finish(uint64_t id, FinishReason reason) override;
  std::optional<RequestStats> stats(uint64_t id) const override { return board_.find(id); }
  EngineStats stats() const override;
  Result<void> reset_prefix_cache() override;
  void shutdown(double drain_s) override;
  std::vector<KvEventSource> kv_event_sources() const override;
  std::string metrics() const override { return metrics_.prometheus(); }

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

  Result<void> enqueue(Arrival);
  void handle(Message&&);
  void take(Arrival&);
  void loop() noexcept;
  void guarded_step();
  void on_idle();

  Parts parts_;
  Board board_;
  Metrics metrics_;
  std::atomic<int64_t> queued_{0};
  Core core_;
  base::Inbox<Message> inbox_;
  std::mutex door_;      ///< closing and putting a request exclude each other, so that no accepted request is left behind
  bool closed_ = false;  ///< guarded by door_
  std::atomic<bool> closing_{false};
  std::atomic<int64_t> deadline_ns_{INT64_MAX};
  int64_t next_check_ns_ = 0;
  std::mutex join_;
  std::thread thread_;
};

}  // namespace isotope::engine
