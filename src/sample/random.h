// Counter-based random numbers: what is drawn depends on the key alone, never on what was drawn before or for whom.
#pragma once

#include <array>
#include <cstdint>

namespace isotope::sample {

/// What a number is used for; each purpose has a stream of its own.
enum class Purpose : uint32_t { token = 0, xtc = 1 };

/// Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) noexcept;

/// Uniform in [0, 1) with 53 bits, keyed by seed, choice index, output position and purpose.
double uniform(uint64_t seed, uint32_t choice, uint64_t position, Purpose) noexcept;

}  // namespace isotope::sample
