// Reductions over one row of logits, each in one fixed order, written so that the compiler vectorises them. NaN counts as -inf
// everywhere, +inf as the largest number, so that no logit can crash or poison a row.
#pragma once

#include <cstdint>
#include <span>

namespace isotope::sample {

/// Index of the largest value, the lowest one among equals; 0 if all are NaN or -inf. One pass.
int64_t argmax(std::span<const float> x) noexcept;
/// Largest value, at most FLT_MAX; -inf if there is none.
float max_of(std::span<const float> x) noexcept;
/// Sum of exp(x - max). Lanes of a block in float, blocks in double.
double sum_exp(std::span<const float> x, float max) noexcept;
/// out = exp((x - max) / temperature); 0 where x is NaN or -inf. Returns the sum. out.size() == x.size().
double exp_scaled(std::span<const float> x, float max, float temperature, std::span<float> out) noexcept;
double sum_of(std::span<const float> x) noexcept;
/// Sum of what is above `least`.
double sum_above(std::span<const float> x, float least) noexcept;
/// Writes the indices of what is above `least`, ascending, and returns how many. REQUIRES: out.size() > x.size().
size_t indices_above(std::span<const float> x, float least, std::span<int32_t> out) noexcept;
/// 1 + the number of entries that come before entry i: larger ones, and equal ones of lower index.
int64_t rank_of(std::span<const float> x, int64_t i) noexcept;

/// exp(x) for x <= 0 (Cephes polynomial, about 2 ulp); NaN and x <= -87 give 0, x > 0 counts as 0. The same bits as a lane of the
/// loops above.
float exp_nonpositive(float x) noexcept;

}  // namespace isotope::sample
