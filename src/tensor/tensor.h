// Views of numbers in memory; never owners.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tensor/format.h"

namespace isotope::tensor {

/// Activations: a float32 matrix [rows, cols], row-major, in the step arena of the Ops that made it (device memory on a GPU).
struct Tensor {
  float* data = nullptr;
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;  ///< elements between rows; >= cols
  explicit operator bool() const { return data != nullptr; }
  float* row(int64_t r) const { return data + r * stride; }
  Tensor columns(int64_t begin, int64_t n) const { return {data + begin, rows, n, stride}; }
};

/// A tensor as a checkpoint stores it, in host memory (mapped or read). Dimensions outermost first (Hugging Face order): a linear weight is [N, K].
struct HostTensor {
  DType dtype = DType::f32;
  const void* data = nullptr;
  size_t bytes = 0;
  std::array<int64_t, 4> shape{};
  int rank = 0;
  int64_t elements() const { int64_t n = 1; for (int i = 0; i < rank; ++i) n *= shape[i]; return n; }
  int64_t cols() const { return rank ? shape[rank - 1] : 1; }
  int64_t rows() const { return rank ? elements() / (cols() ? cols() : 1) : 1; }
};

}  // namespace isotope::tensor
