// What a simulation is fed with: requests that were recorded (JSON Lines) or drawn at random.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isotope/result.h"

namespace isotope::sched {

struct SimRequest {
  double arrival_s = 0;
  int64_t prompt = 1, output = 1;  ///< tokens
  std::string prefix;              ///< requests of one prefix begin with the same prefix_tokens tokens
  int64_t prefix_tokens = 0;
  std::string session;             ///< turns of one conversation: after the prefix, the text of all turns is the same
  std::vector<int64_t> hash_ids;   ///< instead of both: the identity of each hash_block tokens of the prompt
  int64_t hash_block = 512;
  std::string key;                 ///< whose share it takes
  int priority = 0;
  int rank = -1;                   ///< explicit data-parallel rank
  double deadline_ms = 0;          ///< refused if not started by then; 0 = waits
  double transfer_ms = 0;          ///< its KV comes from elsewhere and is there that long after the arrival; it cannot start before
  double cancel_s = 0;             ///< the client leaves that long after the arrival; 0 = stays
};

/// One JSON object a line; docs/scheduling.md lists the fields. Lines may come in any order of arrival. Errors name the line.
Result<std::vector<SimRequest>> read_trace(const std::string& path);
Result<std::vector<SimRequest>> parse_trace(std::string_view text, std::string_view source);

/// "requests=1000,rate=20,prompt=512,output=128,prefixes=4,prefix_tokens=256,sessions=0,keys=1,priorities=1,burst=1,seed=1": arrivals of a Poisson process
/// (`burst` at once), lengths around their means (half to double), everything drawn from the seed, so that the same text gives the same trace.
Result<std::vector<SimRequest>> synthetic_trace(std::string_view spec);

}  // namespace isotope::sched
