// What an architecture implements: its weights, its KV groups and one forward pass.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "isotope/engine.h"
#include "models/config.h"
#include "models/draft.h"
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

  /// Multi-token-prediction heads; 0 = the model has none, or none was kept.
  int draft_heads() const { return int(config_.draft_heads); }
  /// Numbers of a position that a head reads: the state after the final norm, or before it (Step 3.5), there of all residual streams (DeepSeek V4).
  int64_t draft_width() const { return config_.hidden * std::max(1, config_.hyper.streams); }
  /// forward() that also gives what heads read, of all rows: `hidden` [T, draft_width()], valid until the next begin(). REQUIRES: draft_heads() > 0.
  virtual ops::Tensor forward_for_drafts(ops::Ops&, const ops::Batch&, ops::Tensor& hidden) const;
  /// Runs one head; ops.begin(batch, kv) has been called with a batch of the same block tables as the model's own steps. The head writes its keys and values
  /// at its rows' positions in KV layers of its own, and sees those before: every position from 0 on must have been given to it once, in any chunks.
  /// What it stores for a position depends on the token after it, so that a block is a prefix' own but for its last position. REQUIRES: draft_heads() > 0.
  virtual DraftResult draft(ops::Ops&, const ops::Batch&, const DraftStep&) const;

 protected:
  ModelConfig config_;
  std::vector<ops::KvGroupSpec> groups_;
  std::vector<ops::KvLayerSpec> layers_;
};

/// Builds the architecture that the checkpoint names and loads its weights in parallel. Unknown names list the supported ones.
Result<std::unique_ptr<Model>> load_model(const weights::Checkpoint&, ops::Ops&, const levers::Loading&, const ModelConfig&,
                                          const std::function<void(const LoadProgress&)>& progress = {});

}  // namespace isotope::models
