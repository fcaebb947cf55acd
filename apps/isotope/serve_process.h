// The life of a server process: it listens at once, loads, serves, and ends when it is told to.
#pragma once

#include <string>

#include "isotope/options.h"
#include "levers/levers.h"
#include "serve/api.h"
#include "serve/frontend.h"
#include "serve/http_server.h"

namespace isotope::app {

struct ServeOptions {
  EngineOptions engine;
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
