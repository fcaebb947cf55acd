// Flags as ATOM, vLLM and llama.cpp spell them.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "isotope/options.h"
#include "levers/levers.h"
#include "serve/json_body.h"

namespace isotope::app {

/// "max-model-len" → "--max-model-len,--max_model_len": both spellings are accepted for every flag.
std::string spellings(const std::string& name, const std::string& more = {});

/// How requests are spread over engines, in both spellings.
inline const std::vector<std::string> kRoutings = {"round_robin", "least_requests", "least_tokens", "round-robin", "least-requests", "least-tokens"};

/// The flags that shape an engine, the same for all subcommands that run one.
struct EngineFlags {
  EngineOptions options;
  std::string precision = "fast", kv_type = "auto", hf_overrides, pooling, load_dummy = "none";
  int embd_normalize = 0;

  void add(CLI::App&);
  /// The options, once the command line has been read. Levers fill what no flag says.
  Result<EngineOptions> resolve(const std::string& model_path, const levers::Levers&) const;
};

/// The command line with the spellings of ATOM, vLLM and llama.cpp that the parser does not know written out, in the reversed order that it wants.
std::vector<std::string> arguments(int argc, char** argv);

/// Every flag of the subcommand with its value and source; values of secret flags are hidden.
serve::Json flags_json(const CLI::App&);

}  // namespace isotope::app
