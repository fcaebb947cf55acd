// ATOM_DSV4_STATE_REPLAY: whether, and by how many tokens, a DeepSeek V4 can have its windows again by computing the end of a prefix once more.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "models/config.h"
#include "ops/ops.h"

namespace isotope::engine {

struct StateReplay {
  int64_t tokens = 0;  ///< 0 = it does not apply
  std::string off;     ///< then: why
};

/// What else must hold.
struct ReplayGates {
  bool prefix_caching = true;
  int64_t draft_layers = 0;    ///< of the file itself, that run behind the model's own (multi-token prediction)
  bool other_drafter = false;  ///< tokens are proposed in another way, or by a model of its own
  std::string connector = {};  ///< of KV to other places; empty = none
};

/// A token's key in layer l depends on the W - 1 tokens before it through each of the l layers below, and on compressed entries, which a full group keeps. So
/// once (L - 1)(W - 1) tokens have been computed, every layer's input is what it was, and the longest window behind them is filled with the same numbers.
StateReplay state_replay(const models::ModelConfig&, std::span<const ops::KvGroupSpec>, const ReplayGates&);

}  // namespace isotope::engine
