// What projections read, as a recipe over everything that happened since the last projections: the residual add, norms. A backend may carry it out while it
// brings the rows into the form its kernels multiply, so that a normed row is never stored. The bits are those of one op after the other.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "tensor/tensor.h"

namespace isotope::ops {

/// RMS norm: weight [D] as it multiplies (Gemma's 1 + w), empty = none. With a bias it is a layer norm: the mean is taken away first.
struct Norm {
  std::span<const float> weight = {};
  float eps = 0;
  bool bf16 = false;  ///< rounds as a model does that computes in bfloat16; set by the backend's policy, never by a model
  std::span<const float> bias = {};  ///< [D] of a layer norm (zeros where a family has none); only as RowSource::norm
};

/// x += add_scale * add_norm(add), then norm(x).
struct RowSource {
  tensor::Tensor x;                    ///< [T, D]; with `add` it is changed, once, when the source is read
  tensor::Tensor add = {};             ///< [T, D] or empty; what it holds afterwards is undefined
  float add_scale = 1;
  std::optional<Norm> add_norm = {}, norm = {};
  const std::byte* quantized = nullptr;  ///< if set: the rows in the backend's own form, [x.rows, x.cols], and x.data is null. Made by Ops::gated()

  bool recipe() const { return add || norm; }
  explicit operator bool() const { return x || quantized; }
};

}  // namespace isotope::ops
