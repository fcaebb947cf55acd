// Multi-token-prediction heads (DeepSeek V3, arXiv:2412.19437): from the model's hidden state at a position and the token after it, a head foretells the token
// after that. A head is one more layer of the model, with a way in of its own; drafters (src/spec) run it.
#pragma once

#include <memory>
#include <vector>

#include "ops/ops.h"
#include "ops/sparse.h"

namespace isotope::models {

/// A head but for its layer: that of head k is number ModelConfig::layers + k. Norm weights are as they multiply.
struct DraftHead {
  std::vector<float> embed_norm, hidden_norm;  ///< [D] on the token's embedding, and on the hidden state (on each stream of it)
  ops::Linear join;                      ///< [D, 2 D]: reads [embedding | hidden state] and makes what the layer reads
  ops::Linear from_embed, from_hidden;   ///< [D, D] each, whose sum it is, instead (DeepSeek V4)
  std::vector<float> norm;               ///< [D] before the logits; empty = the model's
  ops::Linear embed, head;               ///< [V, D] each; empty = the model's
  std::unique_ptr<ops::Streams> streams; ///< brings residual streams together before that norm; or empty
};

/// One step of a head over the rows of a batch. Row t stands at positions[t], which is that of its hidden state; its token is the one after that position.
struct DraftStep {
  int head = 0;
  ops::Tensor hidden;     ///< [T, Model::draft_width()]: of forward_for_drafts() or of the head before, at the rows' positions; not changed
  bool all_rows = false;  ///< the hidden state of every row is wanted, not only of those in logit_rows
};

struct DraftResult {
  ops::Tensor logits;  ///< [R, V] of the token after each row's token; empty where R is 0
  ops::Tensor hidden;  ///< [R or T, Model::draft_width()]: what the next head (or this one again) reads
};

}  // namespace isotope::models
