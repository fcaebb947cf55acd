// The prompts that `isotope bench serve` sends: distinct, of exact length, the same for a seed on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "isotope/result.h"
#include "serve/json_body.h"

namespace isotope::app {

struct PromptPlan {
  int64_t count = 64;
  int64_t first = 0;     ///< number of the first: a prompt depends on its number and the seed alone
  int64_t input = 256;   ///< tokens that differ from prompt to prompt
  int64_t prefix = 0;    ///< tokens that all prompts begin with
  int64_t prefixes = 1;  ///< that many different beginnings, taken in turn
  uint64_t seed = 0;
  std::vector<int32_t> range{1000, 30000};  ///< ids are drawn from [first, second): ordinary tokens in every large vocabulary
  bool text = false;     ///< words instead of ids, about one token each
};

/// SplitMix64: a stream is named by its seed, so nothing drawn depends on how much else is drawn.
class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t name);
  uint64_t next();
  double uniform();  ///< in (0, 1)
  double normal();

 private:
  uint64_t state_;
};

/// Values of the field "prompt". Fails for a plan without tokens or with an empty range.
Result<std::vector<serve::Json>> make_prompts(const PromptPlan&);

}  // namespace isotope::app
