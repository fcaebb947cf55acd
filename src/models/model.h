// What an architecture implements: its weights, its KV groups and one forward pass.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "isotope/engine.h"
#include "models/config.h"
#include "ops/ops.h"
#include "weights/checkpoint.h"

namespace isotope::models {

/// Sees all rows of the residual stream: after the embeddings (0), after layer i (i, below the number of layers L), and after the final norm (L; that is
/// transformers' numbering, where the last layer's own output does not appear). For `logits --hidden`, dumps and tests.
using HiddenTap = std::function<void(int index, ops::Tensor)>;

class Model {
 public:
  virtual ~Model() = default;
  const ModelConfig& config() const { return config_; }
  const std::vector<ops::KvGroupSpec>& kv_groups() const { return groups_; }
  const std::vector<ops::KvLayerSpec>& kv_layers() const { return layers_; }
  /// Runs one step; ops.begin(batch, kv) has been called. Returns logits [R, V] for batch.logit_rows; an empty tensor when R is 0 (a prompt's inner chunk).
  virtual ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap* tap = nullptr) const = 0;
  /// How many tokens before a sequence's first row forward() looks at: Batch::before.
  int64_t lookback() const { return config_.engram ? config_.engram.longest - 1 : 0; }
  /// Whether what it reads beside the weights in memory is still whole; an error makes the last step's result void.
  virtual Result<void> intact() const { return {}; }
  /// What was read of n-gram tables; nothing for a model without.
  virtual std::optional<EngramStats> engram_stats() const { return {}; }

 protected:
  ModelConfig config_;
  std::vector<ops::KvGroupSpec> groups_;
  std::vector<ops::KvLayerSpec> layers_;
};

/// Builds the architecture that the checkpoint names and loads its weights in parallel. Unknown names list the supported ones.
Result<std::unique_ptr<Model>> load_model(const weights::Checkpoint&, ops::Ops&, const levers::Loading&, const ModelConfig&,
                                          const std::function<void(const LoadProgress&)>& progress = {});

}  // namespace isotope::models
