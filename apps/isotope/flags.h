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

/// The flags that shape an engine, the same for all subcommands that run one.
struct EngineFlags {
  EngineOptions options;
  std::string precision = "fast", kv_type = "auto", hf_overrides;

  void add(CLI::App&);
  /// The options, once the command line has been read. Levers fill what no flag says.
  Result<EngineOptions> resolve(const std::string& model_path, const levers::Levers&) const;
};

/// The command line with the two- and three-letter flags of ATOM (-tp 2) and llama-bench (-npl 4) written out, in the reversed order that the parser wants.
std::vector<std::string> arguments(int argc, char** argv);

/// A flag of another engine that has no effect here, with the reason. Value flags swallow their value.
struct IgnoredFlag {
  const char* name;
  bool takes_value;
  const char* why;
};

/// Every flag of the subcommand with its value and source; values of secret flags are hidden.
serve::Json flags_json(const CLI::App&);

}  // namespace isotope::app
