#include "engine/pool_engine.h"

#include <utility>

namespace isotope::engine {
namespace {

class EncoderEngine final : public Engine {
 public:
  EncoderEngine(ModelInfo info, VocabSource vocab, PoolingInfo pooling, int64_t step_tokens, std::unique_ptr<PoolModel> model)
      : info_(std::move(info)), vocab_(std::move(vocab)), model_(std::move(model)),
        loop_(std::move(pooling), info_.vocab, step_tokens, [this]() -> Result<std::unique_ptr<PoolModel>> { return std::move(model_); }) {}

  const ModelInfo& info() const override { return info_; }
  const VocabSource& vocab() const override { return vocab_; }
  Result<void> submit(Request) override {
    return fail(Code::unsupported, "the model '" + info_.name + "' is an encoder, which writes no text", "model", "use /v1/embeddings, or serve a model that generates");
  }
  void finish(uint64_t, FinishReason) override {}
  std::optional<RequestStats> stats(uint64_t) const override { return {}; }
  std::optional<PoolingInfo> pooling() const override { return loop_.info(); }
  Result<void> pool(PoolRequest r) override { return loop_.submit(std::move(r)); }
  EngineStats stats() const override {
    EngineStats s;
    loop_.add_stats(s);
    return s;
  }
  Result<void> reset_prefix_cache() override { return {}; }
  void shutdown(double drain_s) override { loop_.shutdown(drain_s); }
  std::string metrics() const override { return loop_.metrics(info_.name); }

 private:
  ModelInfo info_;
  VocabSource vocab_;
  std::unique_ptr<PoolModel> model_;  ///< until the loop takes it
  PoolLoop loop_;
};

class PooledEngine final : public Engine {
 public:
  PooledEngine(std::unique_ptr<Engine> inner, PoolingInfo pooling, int64_t step_tokens, PoolLoop::Open open)
      : inner_(std::move(inner)), loop_(std::move(pooling), inner_->info().vocab, step_tokens, std::move(open)) {}

  const ModelInfo& info() const override { return inner_->info(); }
  const VocabSource& vocab() const override { return inner_->vocab(); }
  Result<void> submit(Request r) override { return inner_->submit(std::move(r)); }
  void finish(uint64_t id, FinishReason reason) override { inner_->finish(id, reason); }
  std::optional<RequestStats> stats(uint64_t id) const override { return inner_->stats(id); }
  std::vector<RequestRecord> records(std::string_view name, size_t most) const override { return inner_->records(name, most); }
  std::optional<PoolingInfo> pooling() const override { return loop_.info(); }
  Result<void> pool(PoolRequest r) override { return loop_.submit(std::move(r)); }
  EngineStats stats() const override {
    EngineStats s = inner_->stats();
    loop_.add_stats(s);
    return s;
  }
  Result<void> reset_prefix_cache() override { return inner_->reset_prefix_cache(); }
  void shutdown(double drain_s) override {
    std::thread pool([&] { loop_.shutdown(drain_s); });
    inner_->shutdown(drain_s);
    pool.join();
  }
  std::vector<KvEventSource> kv_event_sources() const override { return inner_->kv_event_sources(); }
  std::string metrics() const override { return inner_->metrics() + loop_.metrics(info().name); }

 private:
  std::unique_ptr<Engine> inner_;
  PoolLoop loop_;
};

}  // namespace

std::unique_ptr<Engine> make_encoder_engine(ModelInfo info, VocabSource vocab, PoolingInfo pooling, int64_t step_tokens, std::unique_ptr<PoolModel> model) {
  return std::make_unique<EncoderEngine>(std::move(info), std::move(vocab), std::move(pooling), step_tokens, std::move(model));
}

std::unique_ptr<Engine> make_pooled_engine(std::unique_ptr<Engine> inner, PoolingInfo pooling, int64_t step_tokens, PoolLoop::Open open) {
  return std::make_unique<PooledEngine>(std::move(inner), std::move(pooling), step_tokens, std::move(open));
}

}  // namespace isotope::engine
