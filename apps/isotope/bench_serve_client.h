// The client of `isotope bench serve`: many streaming requests to one server from one thread, so that it takes as little as possible from a
// server on the same machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench_serve_report.h"
#include "isotope/result.h"

namespace isotope::app {

/// Where a server is: "http://host:port/prefix" or "host:port".
struct Target {
  std::string host, port, prefix;
  std::string url() const;
};
Result<Target> parse_target(const std::string& url);

struct LoadOptions {
  Target target;
  std::string endpoint = "/v1/completions";
  std::string api_key;
  int64_t concurrency = 8;
  double timeout_s = 600;   ///< without a byte from the server
  std::vector<double> arrivals;  ///< seconds from the start before which request i is not sent; none: as soon as one of `concurrency` is free
};

struct LoadResult {
  std::vector<RequestRecord> records;  ///< in the order of the bodies
  double duration = 0;
  std::string fingerprint;             ///< the server's, from the last answer that tells it
  bool interrupted = false;            ///< Ctrl-C: nothing more was sent, and what ran was given up
};

/// How far a run is, told four times a second and at its end.
struct Progress {
  size_t ended = 0, running = 0, all = 0;
  int64_t events = 0;    ///< with tokens, so far
  double seconds = 0;
};

/// Sends each body once, `concurrency` at a time, each on its own connection. A failure is an error in its record.
LoadResult run_load(const LoadOptions&, const std::vector<std::string>& bodies, const std::function<void(const Progress&)>& progress);

struct HttpAnswer {
  int status = 0;
  std::string body;
};
/// One plain GET. Fails when the server cannot be reached or does not answer in time.
Result<HttpAnswer> http_get(const LoadOptions&, const std::string& path, double timeout_s);

}  // namespace isotope::app
