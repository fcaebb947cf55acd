// What became of the requests of `isotope bench serve`, in numbers: a table for people, or JSON with the key names of vLLM's benchmark.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "isotope/result.h"
#include "serve/json_body.h"

namespace isotope::app {

/// One request. Times are seconds; `start` counts from the first request of the run.
struct RequestRecord {
  bool sent = false;         ///< false: the run ended before its turn
  std::string error;         ///< not empty: it failed, and only what came before counts
  int64_t input = 0, output = 0;  ///< tokens, as the server counts them where it does
  int64_t asked = 0;         ///< tokens that it should have; 0: as the run says
  double start = 0, ttft = 0, latency = 0;
  std::vector<double> itl;   ///< between one event with tokens and the next
  std::string text;
  bool completed() const { return sent && error.empty(); }
};

/// A limit that an answer must keep to count as good.
struct Objective {
  std::string metric;        ///< ttft, tpot or e2el
  double ms = 0;
};

/// Settings of the run that the report repeats.
struct ServeRun {
  std::string backend, model, time;
  std::string label, fingerprint;
  int64_t concurrency = 0, asked_output = 0;
  double rate = 0, burstiness = 1;               ///< requests a second; 0: all at once
  std::vector<double> percentiles{90, 95, 99};
  std::vector<std::string> metrics{"ttft", "tpot", "itl", "e2el"};
  std::vector<Objective> objectives;             ///< none: goodput is not told
  std::vector<std::pair<std::string, std::string>> metadata;
  double duration = 0;       ///< from the first request to the end of the last
  bool interrupted = false;
  std::vector<RequestRecord> records;
};

/// Linear interpolation between the neighbours, as numpy does it; 0 for no values.
double percentile(std::vector<double> values, double percent);

/// "ttft:200" → the limit. Fails with the flag's name for what is none.
Result<Objective> parse_objective(const std::string& text);
/// Answers that keep every limit.
int64_t good_answers(const ServeRun&);

/// Records for PyTorch's benchmark database: mean, median, deviation and p99 of the latencies.
serve::Json pytorch_records(const ServeRun&);

serve::Json serve_json(const ServeRun&, bool detailed);
std::string serve_table(const ServeRun&);
/// What a reader must know before believing the numbers: failures by message, answers of another length, an early end. One line each.
std::vector<std::string> serve_warnings(const ServeRun&);

}  // namespace isotope::app
