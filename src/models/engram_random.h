// The random numbers of numpy's default generator, bit for bit: multipliers of n-gram hashes are drawn from it, and a table is worth nothing with others.
#pragma once

#include <array>
#include <cstdint>

namespace isotope::models {

/// `numpy.random.default_rng(seed)`: SeedSequence (O'Neill's seed_seq_fe with numpy's constants, a pool of 128 bits), then PCG64 (128 bits, XSL-RR output).
class NumpyRandom {
 public:
  explicit NumpyRandom(uint64_t seed) noexcept;
  uint64_t next64() noexcept;
  uint32_t next32() noexcept;  ///< halves of next64(), the lower one first
  /// One number of `integers(0, bound, size=n, dtype=int64)`: uniform in [0, bound), by Lemire's multiplication with rejection. bound > 0.
  int64_t below(int64_t bound) noexcept;

 private:
  unsigned __int128 state_ = 0, step_ = 0;
  bool has_half_ = false;
  uint32_t half_ = 0;
};

}  // namespace isotope::models
