// A model without an engine, for `logits` and `perplexity`. Flags and settings act on it as they do on an engine's.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>

#include "levers/levers.h"
#include "models/config.h"
#include "models/model.h"
#include "ops/ops.h"
#include "weights/checkpoint.h"

namespace isotope::app {

struct DirectFlags {
  std::string model, online_quant_config, isa, precision = "fast";
  int threads = 0;
  bool exact() const { return precision == "exact"; }
  void add(CLI::App&);
};

struct DirectFiles {
  std::unique_ptr<weights::Checkpoint> files;
  models::ModelConfig config;
  std::string cut_by = {};  ///< the setting that cut the model's context, or empty
  /// Fails when `tokens` are more than the context. `what` they are, as in "a window of 9 tokens"; `flags` to lower.
  Result<void> check_context(int64_t tokens, const std::string& what, const std::string& flags) const;
};
/// `tokens`: the longest sequence that will be computed. An encoder is refused.
Result<DirectFiles> open_direct(const DirectFlags&, const levers::Levers&, const std::map<std::string, std::string>& environment, int64_t tokens);

struct DirectModel {
  std::unique_ptr<ops::Ops> ops;
  std::unique_ptr<models::Model> model;
};
Result<DirectModel> load_direct(DirectFiles&, const DirectFlags&, const levers::Levers&);

/// Encoders make vectors, no text: refuses one in the words of an engine.
Result<void> refuse_encoder(const weights::Checkpoint&, const std::string& path);

}  // namespace isotope::app
