// The runner of a real model: Ops, weights and KV storage behind Runner.
#pragma once

#include <memory>

#include "engine/clock.h"
#include "engine/runner.h"
#include "isotope/profile.h"
#include "models/model.h"
#include "ops/ops.h"

namespace isotope::engine {

class ModelRunner final : public Runner {
 public:
  /// Several runners may share a model: a forward pass only reads it. `profile`: null, or where steps are timed.
  ModelRunner(std::unique_ptr<ops::Ops> ops, std::shared_ptr<const models::Model> model, std::unique_ptr<ops::KvCache> kv,
              std::shared_ptr<StepProfile> profile = nullptr)
      : ops_(std::move(ops)), model_(std::move(model)), kv_(std::move(kv)), profile_(std::move(profile)) {}

  Result<tensor::Tensor> forward(const ops::Batch& batch) override {
    const int64_t start = profile_ ? now_ns() : 0;
    if (ended_ns_) profile_->add_gap(start - ended_ns_);
    ops_->begin(batch, kv_.get());
    auto out = model_->forward(*ops_, batch);
    ISO_CHECK_OK(model_->intact());
    if (profile_) {
      ended_ns_ = now_ns();
      profile_->add_step(ended_ns_ - start);
    }
    return out;
  }
  /// One runner of those that share a model tells.
  void tell_of_tables() { tells_ = true; }
  std::optional<models::EngramStats> engram_stats() const override { return tells_ ? model_->engram_stats() : std::nullopt; }
  int64_t lookback() const override { return model_->lookback(); }
  void copy_state(int group, int32_t from, int32_t to) override { kv_->copy_block(group, from, to); }
  void clear_block(int group, int32_t block) override { kv_->clear_block(group, block); }
  void adopt_caller() override { ops_->adopt_caller(); }
  void parallel(int64_t n, const std::function<void(int64_t i, int worker)>& f) override {
    const int64_t start = profile_ ? now_ns() : 0;
    ops_->parallel(n, f);
    if (!profile_) return;
    ended_ns_ = now_ns();
    profile_->add_sampling(ended_ns_ - start);
  }
  int workers() const override { return ops_->workers(); }

 private:
  std::unique_ptr<ops::Ops> ops_;
  std::shared_ptr<const models::Model> model_;
  std::unique_ptr<ops::KvCache> kv_;
  std::shared_ptr<StepProfile> profile_;
  bool tells_ = false;
  int64_t ended_ns_ = 0;  ///< with a profile: when the last step's model or sampling was done
};

}  // namespace isotope::engine
