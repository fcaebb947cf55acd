// The thread that computes vectors: requests share its steps, each in turn giving an input, so that a long list holds nobody up.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/pool_model.h"

namespace isotope::engine {

class PoolLoop {
 public:
  using Open = std::function<Result<std::unique_ptr<PoolModel>>()>;
  /// `open` is called by the first request, on the loop's thread: a server that nobody asks for embeddings holds nothing for them. `step_tokens`: of one step, at
  /// least one input.
  PoolLoop(PoolingInfo, int64_t vocab, int64_t step_tokens, Open open);
  ~PoolLoop() { shutdown(0); }

  const PoolingInfo& info() const { return info_; }
  Result<void> submit(PoolRequest);
  /// Adds its own part: requests and inputs that wait, steps, tokens.
  void add_stats(EngineStats&) const;
  std::string metrics(const std::string& model) const;
  void shutdown(double drain_s);

 private:
  struct Active {
    PoolRequest request;
    size_t next = 0, left = 0;
    PoolRequest::Vectors vectors;
  };
  using Picked = std::vector<std::pair<std::shared_ptr<Active>, size_t>>;
  Result<void> check(const PoolRequest&) const;
  Picked pick();
  void step(const Picked&);
  void finish(const std::shared_ptr<Active>&, Result<void>);
  void run() noexcept;

  PoolingInfo info_;
  int64_t vocab_, step_tokens_;
  Open open_;
  std::unique_ptr<PoolModel> model_;      ///< of the loop's thread
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Active>> active_;
  bool closed_ = false, aborted_ = false, started_ = false;
  std::atomic<int64_t> steps_{0}, tokens_{0}, inputs_{0}, requests_{0}, failed_{0}, last_step_ns_{0};
  std::mutex join_;
  std::thread thread_;
};

}  // namespace isotope::engine
