// An engine without a model: a thread that gives every running request one token a step. What it says is a function of prompt, seed, choice
// and position, and of the grammar; a prompt that contains «say:…» is answered with the text between the colon and the closing quote.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "isotope/engine.h"

namespace isotope::test {

struct FakeOptions {
  int64_t context = 512, vocab = 262;
  int step_us = 10;                ///< how long a step takes; never 0, so that others get the lock
  int max_waiting = 64;
  bool end_token_logprobs = true;
  int64_t labels = 0;              ///< of a cross-encoder: its score is the share of tokens that belong to the first text
  bool pools = true;
};

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(FakeOptions o = {});
  ~FakeEngine() override;

  const ModelInfo& info() const override { return info_; }
  const VocabSource& vocab() const override { return vocab_; }
  VocabSource& vocab() { return vocab_; }
  Result<void> submit(Request) override;
  void finish(uint64_t id, FinishReason) override;
  std::optional<RequestStats> stats(uint64_t id) const override;
  std::optional<PoolingInfo> pooling() const override;
  /// One element of a vector for each residue of token ids: how many the text has, and a half. Answers before it returns; a text with the token 13 has no answer.
  Result<void> pool(PoolRequest) override;
  EngineStats stats() const override;
  Result<void> reset_prefix_cache() override { return {}; }
  void shutdown(double drain_s) override;
  std::string metrics() const override { return "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n"; }

  /// Holds the thread between two steps, as a very long step would.
  void stall(bool on);
  int64_t finished_by_caller() const { return ended_early_; }
  Request last() const;            ///< a copy of what was submitted last, without sink and mask

 private:
  struct Running {
    Request request;
    std::vector<int32_t> script;
    int64_t made = 0;
    bool first = true;
    FinishReason asked = FinishReason::none;
  };
  void loop();
  void step(Running&);
  int32_t masked(Running&, int32_t wanted) const;
  void deliver(Running&, std::vector<int32_t> tokens, FinishReason, int32_t stop_token);

  FakeOptions options_;
  ModelInfo info_;
  VocabSource vocab_;
  mutable std::mutex mutex_;
  std::condition_variable change_;
  std::list<Running> running_;
  std::map<uint64_t, RequestStats> stats_;
  Request last_;
  int64_t steps_ = 0;
  std::atomic<int64_t> ended_early_{0};
  std::chrono::steady_clock::time_point last_step_ = std::chrono::steady_clock::now();
  bool stop_ = false, stalled_ = false, closed_ = false;
  std::thread thread_;
};

}  // namespace isotope::test
