#include "ops/cpu/chosen.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace isotope::ops {
namespace {

/// Larger scores give larger numbers; both zeros give the same.
uint32_t rank(float score) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(score + 0.0f);
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/// The rank of the `top`-th largest score, and how many scores of just that rank are among the `top` largest: digit by digit, the highest first.
struct Threshold {
  uint32_t rank = 0;
  int64_t equal = 0;
};
Threshold find_threshold(std::span<const float> scores, int64_t top) noexcept {
  constexpr struct { int shift, bits; } kDigits[] = {{21, 11}, {10, 11}, {0, 10}};
  Threshold t{0, top};
  uint32_t known = 0;  // bits that are decided
  for (const auto& [shift, bits] : kDigits) {
    int32_t count[1 << 11] = {};
    const uint32_t mask = (1u << bits) - 1;
    for (float s : scores)
      if (const uint32_t r = rank(s); (r & known) == t.rank) ++count[r >> shift & mask];
    uint32_t digit = mask;
    for (; t.equal > count[digit]; --digit) t.equal -= count[digit];
    t.rank |= digit << shift;
    known |= mask << shift;
  }
  return t;
}

}  // namespace

int64_t choose_top(std::span<const float> scores, int64_t top, int32_t* out) noexcept {
  const int64_t n = int64_t(scores.size());
  if (top >= n) {
    std::iota(out, out + n, 0);
    return n;
  }
  if (top <= 0) return 0;
  Threshold t = find_threshold(scores, top);
  int64_t taken = 0;
  for (int64_t i = 0; taken < top; ++i) {
    const uint32_t r = rank(scores[size_t(i)]);
    if (r < t.rank || (r == t.rank && t.equal-- <= 0)) continue;
    out[taken++] = int32_t(i);
  }
  return taken;
}

int64_t best_blocks(std::span<const float> scores, int block, int local, int64_t top, float* best, int32_t* blocks) noexcept {
  const int64_t n = int64_t(scores.size()), count = (n + block - 1) / block;
  for (int64_t b = 0; b < count; ++b) {
    const auto keys = scores.subspan(size_t(b * block), size_t(std::min<int64_t>(block, n - b * block)));
    best[b] = b + local >= count ? std::numeric_limits<float>::infinity() : *std::max_element(keys.begin(), keys.end());
  }
  return choose_top({best, size_t(count)}, top, blocks);
}

int64_t choose_within(std::span<const float> scores, std::span<const int32_t> blocks, int keys, int64_t top, float* picked, int32_t* out) noexcept {
  const int64_t n = int64_t(scores.size());
  int64_t count = 0;
  for (int32_t b : blocks)
    for (int64_t k = int64_t{b} * keys, end = std::min(n, k + keys); k < end; ++k) picked[count++] = scores[size_t(k)];
  const int64_t taken = choose_top({picked, size_t(count)}, top, out);
  for (int64_t i = 0; i < taken; ++i) out[i] = blocks[size_t(out[i] / keys)] * keys + out[i] % keys;  // only the last block may be short
  return taken;
}

int64_t choose_blocks(std::span<const float> scores, int block, int local, int64_t top, float* best, int32_t* blocks, int32_t* out) noexcept {
  const int64_t n = int64_t(scores.size());
  const int64_t chosen = best_blocks(scores, block, local, top, best, blocks);
  int64_t taken = 0;
  for (int64_t i = 0; i < chosen; ++i)
    for (int64_t k = int64_t{blocks[i]} * block, end = std::min(n, k + block); k < end; ++k) out[taken++] = int32_t(k);
  return taken;
}

int64_t choose_tokens(std::span<const float> scores, const TokenKeys& k, int32_t* keys, int32_t* out) noexcept {
  const int64_t chosen = choose_top(scores, k.top, keys);
  int64_t taken = 0;
  for (int64_t i = 0; i < chosen; ++i)
    for (int64_t t = int64_t{keys[i]} * k.every, end = t + k.every; t < end; ++t) out[taken++] = int32_t(t);
  for (int64_t t = int64_t(scores.size()) * k.every; t < k.tokens; ++t) out[taken++] = int32_t(t);
  return taken;
}

}  // namespace isotope::ops
