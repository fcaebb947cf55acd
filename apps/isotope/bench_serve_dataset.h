// What `isotope bench serve` asks, and when: drawn prompts, conversations of a file, or a recorded trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_serve_prompts.h"
#include "isotope/result.h"
#include "serve/json_body.h"

namespace isotope::app {

/// One request before it is a body.
struct BenchRequest {
  serve::Json prompt;        ///< text, token ids, or the messages of a chat (an array of objects)
  int64_t input = 0;         ///< tokens of the prompt; 0: only the server knows
  int64_t output = 0;        ///< tokens to ask for
  double at_s = -1;          ///< when, from the start; negative: the dataset does not say
};

struct DatasetPlan {
  std::string kind = "random";  ///< random, prefix_repetition, sharegpt or jsonl
  std::string path;             ///< of the last two
  PromptPlan prompts;
  bool all = false;             ///< every line of the file instead of `prompts.count`
  int64_t output = 64;
  bool output_given = false;    ///< `output` holds even where the file tells a length
  double range_ratio = 0;       ///< drawn lengths vary by this share both ways
};

/// Fails with the file, its line and the remedy. Requests with times come ordered by them, the first at 0.
Result<std::vector<BenchRequest>> load_requests(const DatasetPlan&);

/// Times at which `count` requests arrive at `rate` a second: gaps are drawn from a gamma distribution of this shape (1: a Poisson process, less:
/// burstier) and scaled so that the last comes at count / rate, so that runs of one rate compare.
std::vector<double> arrivals(size_t count, double rate, double burstiness, uint64_t seed);

}  // namespace isotope::app
