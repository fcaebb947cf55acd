#include "sample/random.h"

namespace isotope::sample {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) noexcept {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(c[0]) * 0xD2511F53u, b = uint64_t(c[2]) * 0xCD9E8D57u;
    c = {uint32_t(b >> 32) ^ c[1] ^ k[0], uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k[1], uint32_t(a)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

double uniform(uint64_t seed, uint32_t choice, uint64_t position, Purpose purpose) noexcept {
  const auto r =
      philox({uint32_t(position), uint32_t(position >> 32), choice, uint32_t(purpose)}, {uint32_t(seed), uint32_t(seed >> 32)});
  return double((uint64_t(r[0]) << 32 | r[1]) >> 11) * 0x1p-53;
}

}  // namespace isotope::sample
