// Mixtures of experts: what the router decides and the weights it decides over.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/linear_weight.h"

namespace isotope::ops {

/// How a row of router logits becomes experts and their weights. Scores are float32; of equal scores the lower index wins.
struct Routing {
  enum class Score : uint8_t { softmax, sigmoid, sqrt_softplus };
  int used = 1;                   ///< experts a token goes to
  Score score = Score::softmax;   ///< over all experts
  int groups = 1, groups_used = 1;///< experts fall into `groups` equal runs; only those of the best `groups_used` can be chosen
  int group_best = 1;             ///< a group counts by the sum of its best `group_best` experts
  bool by_logits = false;         ///< chosen by the logits, which saturate less than their scores (Llama 4, GPT-OSS)
  bool renormalize = false;       ///< weights of the chosen experts add up to one
  float scale = 1.0f;             ///< multiplied into the weights
  bool on_input = false;          ///< weights multiply the experts' input, not their output (Llama 4)
};

/// One feed-forward block: down(act(gate(x)) * up(x)), or without a gate down(act(up(x))).
struct FeedForward {
  Linear gate, up, down;  ///< [F, D], [F, D], [D, F]
};

/// The weights of one layer's mixture. Output: sum over the chosen experts in ascending order of their index, plus the shared block.
struct Moe {
  Routing routing;
  Activation act = Activation::silu;
  float swiglu_limit = 0, swiglu_alpha = 0;  ///< limit above 0: g · sigmoid(alpha · g) · (u + 1), clamped, instead of `act`, in the routed experts; alpha 0: act(g) · u
  float shared_limit = 0;           ///< the same limit for the shared block
  Linear router;                    ///< [E, D]; float32 whatever the file has
  std::vector<float> choice_bias;   ///< [E] added to scores for the choice alone, or empty
  std::vector<int32_t> by_token;    ///< [V, used]: the experts of each token, ascending, instead of a choice by scores; or empty
  std::vector<FeedForward> experts; ///< [E]; all with a gate or none
  FeedForward shared;               ///< sees every token; empty = none
  Linear shared_gate;               ///< [1, D]: the shared block's output is multiplied by its sigmoid; empty = none
  Linear to_latent, from_latent;    ///< [L, D], [D, L]: experts read and write L dimensions (Nemotron 3); empty = none
  std::vector<float> expert_scale;  ///< [E] multiplied into the weights at last (Gemma 4), or empty
  float clamp = 0, shared_clamp = 0;///< above 0: act(gate) at most so much, up within ±; of the experts, of the shared block (Step 3.5)
  int identity = 0;                 ///< so many experts after the others give back what they get (LongCat); the router scores them too
  explicit operator bool() const { return !experts.empty(); }
};

}  // namespace isotope::ops
