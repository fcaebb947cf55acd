// Rows of `isotope bench` as a table or as JSON with llama-bench's key names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isotope/engine.h"
#include "isotope/profile.h"
#include "ops/cpu/limits.h"

namespace isotope::app {

/// One line of the result: what was asked and how long each repetition took.
struct BenchRow {
  ModelInfo model;
  std::string cpu, kv_type;
  int threads = 0;
  int64_t batch = 0, parallel = 1, prompt = 0, gen = 0, depth = 0;
  std::string time;  ///< start, ISO 8601 in UTC
  std::vector<int64_t> samples_ns;
  std::optional<StepTimes> profile;  ///< of the last repetition, when asked
  ops::MachineLimits limits;         ///< with a profile
  std::vector<double> read_shares;   ///< of turns: time to read what steps read, against the time of those steps
  /// Tokens that one repetition computed in that time.
  int64_t tokens() const { return (prompt + gen) * parallel; }
  std::vector<double> samples_ts() const;
  std::string name() const;  ///< "pp512", "tg128 @ d4096"
};

std::string bench_table(const std::vector<BenchRow>&);
std::string bench_json(const std::vector<BenchRow>&);

struct Spread {
  double mean = 0, stddev = 0;  ///< sample standard deviation, 0 for a single value
};
Spread spread(const std::vector<double>&);

}  // namespace isotope::app
