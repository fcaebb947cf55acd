// Measured limits of this machine as the compute team sees it.
#pragma once

#include <cstdint>

#include "base/team.h"
#include "kernels/cpu/table.h"
#include "ops/cpu/pages.h"

namespace isotope::ops {

struct MachineLimits {
  double int8_ops = 0;       ///< multiply and add counted, per second, all members together
  double float_ops = 0;      ///< the same of float32 fma
  double bf16_ops = 0;       ///< the same of bfloat16 products, where the instruction set has them; else what float32 arithmetic makes of them
  double read_bytes = 0;     ///< bytes per second from memory (a working set far beyond the caches), all members together; 0 if no memory could be had
};

/// Memory far beyond the caches that a team reads.
class ReadTest {
 public:
  static Result<ReadTest> make();
  /// Time in seconds to read about `bytes`, all members together, over and over if there are more than it holds.
  double seconds(base::Team&, const kernels::cpu::KernelTable&, int64_t bytes) const;
  int64_t size() const { return int64_t(memory_.size()); }

 private:
  Pages memory_;
};

/// Takes about `seconds`. Best of several rounds: the limit, not the average.
MachineLimits measure_limits(base::Team& team, const kernels::cpu::KernelTable& kernels, double seconds = 1.0);

}  // namespace isotope::ops
