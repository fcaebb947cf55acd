// The load of `isotope bench` and `isotope tune`: random prompts through the engine's real path, timed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "isotope/engine.h"
#include "isotope/profile.h"

namespace isotope::app {

/// One line on a terminal that the next one replaces; nothing elsewhere. An empty one leaves nothing behind.
void show_progress(const std::string& text);

struct BenchCase {
  int64_t prompt = 0, gen = 0;   ///< one of them is 0
  int64_t depth = 0;             ///< tokens in the cache before
  int64_t parallel = 1;
};

class BenchLoad {
 public:
  /// Fills the cache up to the depth, once for each of the parallel sequences, then times the rest: nanoseconds. With a profile, `times` gets what
  /// the timed part took.
  Result<int64_t> once(Engine&, const BenchCase&, StepProfile* profile = nullptr, StepTimes* times = nullptr);

 private:
  std::vector<int32_t> random_tokens(int64_t n, int64_t vocab);
  std::mt19937_64 random_{42};
};

}  // namespace isotope::app
