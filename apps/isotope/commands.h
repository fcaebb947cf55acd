// The subcommands; one file for each. add_x() declares options on the program's parser and sets `run` to what the subcommand does.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "isotope/result.h"

namespace isotope::app {

struct Context {
  std::function<int()> run;                  ///< set by the chosen subcommand's callback; its value is the exit status
  std::vector<std::string> set;              ///< --set NAME=VALUE
  std::string config_file;                   ///< --config
  bool strict_levers = false;                ///< --strict-levers
};

/// Exit statuses: 0 done, 1 failed (message on stderr), 2 wrong usage.
int report(const Error& e);

}  // namespace isotope::app
