// The life of a server process: it listens at once, loads, serves, and ends when it is told to.
#pragma once

#include <string>

#include "isotope/options.h"
#include "levers/levers.h"
#include "model_list.h"
#include "serve/api.h"
#include "serve/frontend.h"
#include "serve/http_server.h"

namespace isotope::app {

struct ServeOptions {
  EngineOptions engine;                    ///< of the first model
  std::vector<NamedModel> models;          ///< one: it is loaded and stays; several: they come and go
  int models_max = 4;                      ///< in memory at once; 0 = no limit
  bool models_autoload = true;
  double idle_s = 0;                       ///< a model without a request for so long is unloaded; 0 = never
  serve::HttpOptions http;
  serve::ApiOptions api;
  serve::FrontendOptions front;
  double drain_s = 10;          ///< running answers get that long after SIGTERM or SIGINT
  std::string request_log;      ///< JSONL file, or empty
  std::string log_level = "info";
};

/// Returns the exit status: 0 after a clean stop, 1 when something failed. A second signal ends the process at once.
int run_server(ServeOptions, const levers::Levers&);

}  // namespace isotope::app
