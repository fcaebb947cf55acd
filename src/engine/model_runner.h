// The runner of a real model: Ops, weights and KV storage behind Runner.
#pragma once

#include <memory>

#include "engine/runner.h"
#include "models/model.h"
#include "ops/ops.h"

namespace isotope::engine {

class ModelRunner final : public Runner {
 public:
  ModelRunner(std::unique_ptr<ops::Ops> ops, std::unique_ptr<models::Model> model, std::unique_ptr<ops::KvCache> kv)
      : ops_(std::move(ops)), model_(std::move(model)), kv_(std::move(kv)) {}

  Result<tensor::Tensor> forward(const ops::Batch& batch) override {
    ops_->begin(batch, kv_.get());
    return model_->forward(*ops_, batch);
  }
  void adopt_caller() override { ops_->adopt_caller(); }
  void parallel(int64_t n, const std::function<void(int64_t i, int worker)>& f) override { ops_->parallel(n, f); }
  int workers() const override { return ops_->workers(); }

 private:
  std::unique_ptr<ops::Ops> ops_;
  std::unique_ptr<models::Model> model_;  ///< holds weights that ops_ packed, so it goes first
  std::unique_ptr<ops::KvCache> kv_;
};

}  // namespace isotope::engine
