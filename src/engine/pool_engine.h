// Engines that make vectors: an encoder, which does nothing else, and a decoder beside its answers.
#pragma once

#include "engine/pool_loop.h"

namespace isotope::engine {

std::unique_ptr<Engine> make_encoder_engine(ModelInfo, VocabSource, PoolingInfo, int64_t step_tokens, std::unique_ptr<PoolModel>);
/// Everything but pool() is the inner engine's.
std::unique_ptr<Engine> make_pooled_engine(std::unique_ptr<Engine> inner, PoolingInfo, int64_t step_tokens, PoolLoop::Open);

}  // namespace isotope::engine
