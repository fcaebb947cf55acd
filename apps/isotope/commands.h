// The subcommands; one file for each. add_x() declares options on the program's parser and sets `run` to what the subcommand does.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "isotope/result.h"
#include "levers/levers.h"

namespace isotope::app {

struct Context {
  std::function<int()> run;                  ///< set by the chosen subcommand's callback; its value is the exit status
  std::map<std::string, std::string> environment;  ///< read once by main
  std::vector<std::string> set;              ///< --set NAME=VALUE
  std::string config_file;                   ///< --config
  bool strict_levers = false;                ///< --strict-levers
};

/// Exit statuses: 0 done, 1 failed (message on stderr), 2 wrong usage.
int report(const Error& e);
/// The settings: --set, environment, --config, defaults. Tells about doubtful ones, and lets the library warn from then on.
Result<levers::Levers> resolve_levers(const Context&);

void add_bench(CLI::App&, Context&);
void add_completion(CLI::App&, Context&);
void add_doctor(CLI::App&, Context&);
void add_explain(CLI::App&, Context&);
void add_inspect(CLI::App&, Context&);
void add_levers(CLI::App&, Context&);
void add_logits(CLI::App&, Context&);
void add_perplexity(CLI::App&, Context&);
void add_quantize(CLI::App&, Context&);
void add_tune(CLI::App&, Context&);
void add_tokenize(CLI::App&, Context&);
void add_run(CLI::App&, Context&);
void add_serve(CLI::App&, Context&);

}  // namespace isotope::app
