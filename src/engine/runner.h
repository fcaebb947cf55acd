// What the loop needs of a model: one forward pass over a flat batch. Real models come through ModelRunner; the engine's own
// tests bring a runner whose logits are a function of the tokens it finds through the block tables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "isotope/result.h"
#include "models/engram_config.h"
#include "ops/batch.h"
#include "tensor/tensor.h"

namespace isotope::engine {

class Runner {
 public:
  virtual ~Runner() = default;
  /// Logits [R, V] of batch.logit_rows, valid until the next call. Called on the engine's thread only.
  virtual Result<tensor::Tensor> forward(const ops::Batch&) = 0;
  /// What was read of n-gram tables, by all that run the model; nothing where there are none, or another rank tells.
  virtual std::optional<models::EngramStats> engram_stats() const { return {}; }
  /// Tokens before a sequence's first row that forward() looks at: Batch::before.
  virtual int64_t lookback() const { return 0; }
  /// Told once by the engine's thread before the first step.
  virtual void adopt_caller() {}
  /// Copies the state that a sequence's slot holds to another slot of the group.
  virtual void copy_state([[maybe_unused]] int group, [[maybe_unused]] int32_t from, [[maybe_unused]] int32_t to) {}
  /// Fills a block of a group with zeros.
  virtual void clear_block([[maybe_unused]] int group, [[maybe_unused]] int32_t block) {}
  /// Calls f(i, worker) once for each i in [0, n), spread over workers() threads; returns when all are done. f must not throw.
  virtual void parallel(int64_t n, const std::function<void(int64_t i, int worker)>& f) {
    for (int64_t i = 0; i < n; ++i) f(i, 0);
  }
  virtual int workers() const { return 1; }
};

}  // namespace isotope::engine
