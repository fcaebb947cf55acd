// Kernels over rows of float32: norms, activations, rotary embedding. Every output element is computed in an order of its own that depends on the row's
// length alone.
#pragma once

#include <cstdint>

namespace isotope::kernels::cpu {

/// The order is that of ElementwiseKernels::act_mul.
enum class Act : uint8_t { silu, gelu_tanh, gelu, relu, relu2, count_ };

struct ElementwiseKernels {
  /// out = weight * (x / sqrt(mean(x^2) + eps)); weight [n] or null; out may be x. The sum of squares runs over four accumulators of sixteen lanes
  /// (element i goes to lane i % 64), then a tree.
  void (*rms_norm)(float* out, const float* x, const float* weight, int64_t n, float eps) noexcept;
  /// The same with x / sqrt(…) rounded to bfloat16, and its product with the weight again, as models do that compute in bfloat16.
  void (*rms_norm_bf16)(float* out, const float* x, const float* weight, int64_t n, float eps) noexcept;
  /// x = weight * (x - mean) / sqrt(variance + eps) + bias; weight and bias [n]. Mean first, then the squares of the differences, both summed in the order of
  /// rms_norm.
  void (*layer_norm)(float* x, const float* weight, const float* bias, int64_t n, float eps) noexcept;
  /// x = act(x)
  void (*activate[int(Act::count_)])(float* x, int64_t n) noexcept;
  /// out = act(gate) * up; out may be gate or up.
  void (*act_mul[int(Act::count_)])(float* out, const float* gate, const float* up, int64_t n) noexcept;
  /// x = x + scale * y, rounded twice as the composed form is.
  void (*add)(float* x, const float* y, int64_t n, float scale) noexcept;
  void (*scale)(float* x, int64_t n, float s) noexcept;
  /// x = cap * tanh(x / cap)
  void (*softcap)(float* x, int64_t n, float cap) noexcept;
  /// out = g · sigmoid(alpha · g) · (u + 1) with g = min(gate, limit), u = up within ±limit (GPT-OSS); out may be gate or up.
  void (*clamped_swiglu)(float* out, const float* gate, const float* up, int64_t n, float alpha, float limit) noexcept;
  /// x = e^(x - shift)
  void (*exp)(float* x, int64_t n, float shift) noexcept;
  /// x = 1 / (1 + e^-x)
  void (*sigmoid)(float* x, int64_t n) noexcept;
  /// Rotates the first `rot` elements of `heads` heads of `d` elements by the angles whose cos and sin [rot/2] are given; halves (i, i + rot/2).
  void (*rope)(float* x, const float* cos, const float* sin, int heads, int d, int rot) noexcept;
  /// The same for pairs (2i, 2i + 1).
  void (*rope_interleaved)(float* x, const float* cos, const float* sin, int heads, int d, int rot) noexcept;
};

}  // namespace isotope::kernels::cpu
