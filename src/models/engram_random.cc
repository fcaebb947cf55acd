#include "models/engram_random.h"

namespace isotope::models {
namespace {

using Wide = unsigned __int128;

/// numpy/random/bit_generator.pyx: entropy of one or two words becomes a pool, the pool as much state as is asked for.
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t entropy) noexcept {
    const uint32_t words[4] = {uint32_t(entropy), uint32_t(entropy >> 32), 0, 0};
    for (int i = 0; i < 4; ++i) pool_[i] = hash(words[i]);
    for (int from = 0; from < 4; ++from)
      for (int to = 0; to < 4; ++to)
        if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
  }

  uint64_t next64() noexcept {
    const uint64_t low = next32();
    return low | uint64_t{next32()} << 32;
  }

 private:
  uint32_t hash(uint32_t v) noexcept {
    v ^= in_;
    in_ *= 0x931e8875;
    v *= in_;
    return v ^ v >> 16;
  }
  static uint32_t mix(uint32_t x, uint32_t y) noexcept {
    const uint32_t r = 0xca01f9dd * x - 0x4973f715 * y;
    return r ^ r >> 16;
  }
  uint32_t next32() noexcept {
    uint32_t v = pool_[at_++ % 4] ^ out_;
    out_ *= 0x58f38ded;
    v *= out_;
    return v ^ v >> 16;
  }

  uint32_t pool_[4] = {}, in_ = 0x43b0d7e5, out_ = 0x8b51f9dd;
  int at_ = 0;
};

constexpr Wide kMultiplier = Wide{2549297995355413924u} << 64 | 4865540595714422341u;

}  // namespace

NumpyRandom::NumpyRandom(uint64_t seed) noexcept {
  SeedSequence s(seed);
  const auto wide = [&] {
    const Wide high = s.next64();
    return high << 64 | s.next64();
  };
  const Wide start = wide();
  step_ = wide() << 1 | 1;
  state_ = (step_ + start) * kMultiplier + step_;
}

uint64_t NumpyRandom::next64() noexcept {
  state_ = state_ * kMultiplier + step_;
  const auto x = uint64_t(state_ >> 64) ^ uint64_t(state_);
  const auto turn = unsigned(state_ >> 122);
  return x >> turn | x << (-turn & 63);
}

uint32_t NumpyRandom::next32() noexcept {
  if (has_half_) return has_half_ = false, half_;
  const uint64_t v = next64();
  has_half_ = true, half_ = uint32_t(v >> 32);
  return uint32_t(v);
}

int64_t NumpyRandom::below(int64_t bound) noexcept {
  const auto n = uint64_t(bound);
  if (n <= 1) return 0;
  if (n <= uint64_t{1} << 32) {
    if (n == uint64_t{1} << 32) return next32();
    uint64_t m = uint64_t{next32()} * n;
    for (const uint32_t least = uint32_t(-uint32_t(n)) % uint32_t(n); uint32_t(m) < least;) m = uint64_t{next32()} * n;
    return int64_t(m >> 32);
  }
  Wide m = Wide{next64()} * n;
  for (const uint64_t least = -n % n; uint64_t(m) < least;) m = Wide{next64()} * n;
  return int64_t(uint64_t(m >> 64));
}

}  // namespace isotope::models
