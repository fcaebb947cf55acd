// A packed weight and the layer around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace isotope::ops {

/// A packed weight [n, k] in the checkpoint's own format. Made by Ops::pack, owned by whoever holds it; move-only.
class Weight {
 public:
  virtual ~Weight() = default;
  int64_t n = 0, k = 0;
  tensor::DType dtype{};
  size_t bytes = 0;  ///< resident
};

/// y = x·Wᵀ + bias
struct Linear {
  std::unique_ptr<Weight> w;
  std::vector<float> bias;  ///< [n] or empty
  explicit operator bool() const { return w != nullptr; }
};

enum class Activation { silu, gelu_tanh, gelu, relu, relu2 };

}  // namespace isotope::ops
