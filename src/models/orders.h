// The orders of computation this folder knows; one class and one file each.
#pragma once

#include "models/layer.h"

namespace isotope::models {

/// Norm, block, add. Llama, Mistral, SmolLM, Qwen 2 and 3, Gemma 1, Phi 3, Granite, and the mixtures of experts of that order.
class Dense final : public Transformer {
 public:
  ops::Tensor forward(ops::Ops&, const ops::Batch&, const HiddenTap*) const override;
};

/// One block a layer: norm, mixer, add. Mamba 1 and 2.
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

}  // namespace isotope::models
