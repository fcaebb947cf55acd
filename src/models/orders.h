// The orders of computation this folder knows; one class and one file each.
#pragma once

#include "models/layer.h"

namespace isotope::models {

/// Norm, block, add. Llama, Mistral, SmolLM, Qwen 2 and 3, Gemma 1, Phi 3, Granite, and the mixtures of experts of that order.
class Dense final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
  ops::Tensor forward_for_drafts(ops::Ops&, const ops::Batch&, ops::Tensor& hidden) const override;
  DraftResult draft(ops::Ops&, const ops::Batch&, const DraftStep&) const override;

 private:
  /// The rest of layer l, given what its attention or recurrence has made of x: what is read next, through `next`.
  ops::RowSource after_mixing(ops::Ops&, ops::Tensor x, ops::Tensor mixed, size_t l, const ops::Norm& next) const;
};

/// Norm, both blocks, add. Cohere 2.
class Parallel final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
};

/// Pairs of layers with experts between the first one's attention and the second one's end. LongCat-Flash.
class Shortcut final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
};

/// Gemma 4, dense and with experts.
class Gemma4 final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;

 private:
  ops::Tensor both_blocks(ops::Ops&, const ops::RowSource& h, const Layer&) const;
  ops::RowSource end_layer(ops::Ops&, const ops::RowSource& h, ops::Tensor inputs, size_t l) const;
};

/// Gemma 3n. A tap sees the active stream.
class Gemma3n final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;

 private:
  using Streams = std::vector<ops::Tensor>;
  ops::Tensor modalities(ops::Ops&, ops::Tensor x, const Layer&) const;
  void predict(ops::Ops&, Streams&, const Layer&) const;
  void correct(ops::Ops&, Streams&, ops::Tensor y, const Layer&) const;
  ops::Tensor sparse_block(ops::Ops&, const ops::RowSource& h, size_t l) const;
};

/// One block a layer: norm, block, add. Mamba 1 and 2, Nemotron-H.
class Single final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
};

/// Norm, block, norm, add ("sandwich"). Gemma 2 and 3, GLM-4.
class Sandwich final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
};

/// Block, norm, add. OLMo 2 and 3, EXAONE 4.
class PostNorm final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
};

/// Several residual streams, mixed before and after each block. DeepSeek V4, GLM-5-Next, HY-V4, Qwen4-Exp.
class Streamed final : public Transformer {
 public:
  /// ModelConfig::ropes holds the rotations of layers, then from here on the same ones turning back.
  static constexpr int kRopesBack = 2;
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
  ops::Tensor forward_for_drafts(ops::Ops&, const ops::Batch&, ops::Tensor& hidden) const override;
  DraftResult draft(ops::Ops&, const ops::Batch&, const DraftStep&) const override;

 private:
  /// Layer l in place. `narrow_to`: only that batch's logit rows of x are left after attention; null = all. False: it has none, and nothing is left to do.
  bool run_layer(ops::Ops&, ops::Tensor& x, size_t l, const ops::Batch* narrow_to) const;
  /// What a compressor reads of a step, and where its entries go.
  struct Made {
    ops::Tensor inputs, gates;
    const ops::Rope* rope;
    int64_t offset;  ///< among the numbers that are kept of a token
    int entries;
  };
  void compress(ops::Ops&, const Compressor&, Made, size_t layer) const;
  ops::RowSource normed(ops::Tensor x, const std::vector<float>& weight) const;
  ops::Tensor mix_compressed(ops::Ops&, const ops::RowSource& h, size_t layer) const;
};

/// Streamed with the weights of the block before, layers that share compressed keys, and n-gram tables. DeepSeek V4.1.
class Late final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
  Result<void> intact() const override;
  std::optional<EngramStats> engram_stats() const override;

 private:
  void make_entries(ops::Ops&, ops::Tensor inputs, ops::Tensor gates, size_t layer) const;
  ops::Tensor mix_shared(ops::Ops&, const ops::RowSource& h, size_t layer) const;
};

/// Norm, attention and a mixer beside it, add; norm, feed-forward block, add. Falcon-H1.
class Beside final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
};

/// Norm, block, add to the normed. MiniMax-Text-01.
class NormedResidual final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
};

/// Dense where a layer carries a state, PostNorm where it attends. OLMo Hybrid.
class MixedNorms final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
};

}  // namespace isotope::models
