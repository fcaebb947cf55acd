// Flags of vLLM, ATOM and llama-server that `isotope serve` takes without having them: those without effect here are accepted with one log line,
// those that would change what the server does are refused with the reason.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "isotope/result.h"

namespace isotope::app {

class ForeignFlags {
 public:
  /// Adds every row to the subcommand. The object must outlive the parser.
  void add(CLI::App&);
  /// Fails for the first flag that asks for what is not there.
  Result<void> check() const;
  /// One line for each given flag that has no effect.
  std::vector<std::string> notes() const;

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, CLI::Option*> options_;
};

/// The arguments behind `serve` with the spellings that the parser does not know written out: -tp 2, -ngl 99, lists (--cudagraph-capture-sizes 1 2 4),
/// flags that may stand without a value (--enable-tbo), keys of a JSON flag (--compilation-config.mode 3).
std::vector<std::string> written_out(const std::vector<std::string>& arguments);

}  // namespace isotope::app
