// Drives a model straight through Ops and a KV cache, with block tables that are trivial: sequence s owns its blocks from the start. No scheduler, no
// sharing. For `isotope logits`, perplexity, the oracle and the bit tests; a server uses the engine.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "models/model.h"

namespace isotope::models {

struct DirectOptions {
  int64_t max_len = 0;      ///< tokens a sequence may reach
  int sequences = 1;
  KvType kv = KvType::bf16;
  int block_size = 16;
  bool scatter = false;     ///< test aid: hand blocks out in a scrambled order
  bool forget = false;      ///< test aid: mark blocks outside a sliding window as freed
};

/// Tokens to append to one sequence.
struct Chunk {
  int sequence = 0;
  std::span<const int32_t> tokens;
  bool all_logits = false;  ///< else the last token's only
  bool no_logits = false;
};

class Direct {
 public:
  static Result<Direct> create(const Model&, ops::Ops&, const DirectOptions&);

  /// Runs one step over all chunks (at most one a sequence). Returns logits in the chunks' order, valid until the next step; empty when none were asked.
  /// Fails on token ids outside the vocabulary and on sequences that would pass max_len; nothing is run then.
  Result<ops::Tensor> step(std::span<const Chunk> chunks, const HiddenTap* tap = nullptr);
  /// The same; `hidden` [all chunks' tokens, draft_width()] gets what multi-token-prediction heads read, valid until the next step.
  Result<ops::Tensor> step_for_drafts(std::span<const Chunk> chunks, ops::Tensor& hidden);
  /// Runs a step of a head. A chunk's tokens are those that follow the next positions which the head has not seen; `step.hidden` has their rows in the chunks'
  /// order.
  Result<DraftResult> draft(std::span<const Chunk> chunks, const DraftStep& step);
  int64_t length(int sequence) const { return length_[size_t(sequence)]; }

 private:
  Direct(const Model& m, ops::Ops& o, const DirectOptions& options) : model_(&m), ops_(&o), options_(options) {}
  using Lengths = std::vector<int64_t>;  ///< [sequences]
  Result<void> check(std::span<const Chunk>, const Lengths&) const;
  /// Begins a step of chunks that follow `lengths` tokens each, which grow by them, and runs it.
  template <class Run>
  auto run(std::span<const Chunk>, Lengths& lengths, Run run) -> Result<decltype(run(std::declval<const ops::Batch&>()))>;
  int32_t block_of(int sequence, int64_t index) const;

  const Model* model_;
  ops::Ops* ops_;
  DirectOptions options_;
  int64_t blocks_ = 0;              ///< of one sequence
  std::unique_ptr<ops::KvCache> kv_;
  Lengths length_;
  std::vector<Lengths> draft_length_;  ///< of each head
  std::vector<std::vector<int32_t>> last_;  ///< [sequences] the model's lookback of latest tokens, -1 before the first
};

/// Index of the largest value; the first one if several are.
int32_t argmax(std::span<const float>);

}  // namespace isotope::models
