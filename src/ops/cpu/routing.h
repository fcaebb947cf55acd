// The router's decision for one row. A pure function of that row's logits.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/elementwise.h"
#include "ops/moe.h"

namespace isotope::ops {

/// Chooses routing.used experts by `logits` [E], which become scores; `bias` [E] or empty. `experts` [used] come out ascending, `weights` [used] beside
/// them. `scratch` [2 E]. REQUIRES: used <= E; groups divides E, is at most 256, and the chosen groups hold `used` experts. NaN logits still give `used` distinct experts, and NaN weights.
void choose_experts(const kernels::cpu::ElementwiseKernels&, const Routing&, std::span<float> logits, std::span<const float> bias, std::span<float> scratch,
                    int32_t* experts, float* weights) noexcept;

/// The same for experts that are given: [used], ascending.
void weigh_experts(const kernels::cpu::ElementwiseKernels&, const Routing&, std::span<float> logits, std::span<const int32_t> experts,
                   float* weights) noexcept;

}  // namespace isotope::ops
