// Opening a model for `serve` and `run`: engine, tokenizer and front end, in this order.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "isotope/engine.h"
#include "levers/levers.h"
#include "serve/frontend.h"

namespace isotope::app {

struct Loaded {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<serve::Frontend> front;   ///< uses the engine, so it goes first
};

Result<Loaded> load_model(const EngineOptions&, const levers::Levers&, serve::FrontendOptions, const std::function<void(const LoadProgress&)>& progress);

/// "reading 45 %"
std::string progress_text(const LoadProgress&);
/// "SmolLM2 135M Instruct (llama, 134.5 M parameters, Q4_1, 98 MiB)"
std::string model_text(const ModelInfo&);
/// "context 2048 of 8192 tokens; KV cache 128 blocks, 2048 tokens, 90.0 MiB"
std::string cache_text(const Engine&, int block_size);
std::string bytes_text(double bytes);

}  // namespace isotope::app
