// Activation tensors in a step's memory.
#pragma once

#include "base/arena.h"
#include "tensor/tensor.h"

namespace isotope::ops {

/// Uninitialised. Each row starts on a cache line, an odd number of lines after the last: rows a power of two apart would share a set of the first-level
/// cache.
inline tensor::Tensor take_tensor(base::Arena& arena, int64_t rows, int64_t cols) {
  const int64_t stride = (cols + 15) / 16 * 16 + (((cols + 15) / 16) % 2 ? 0 : 16);
  return {arena.take<float>(size_t(rows * stride)).data(), rows, cols, stride};
}

}  // namespace isotope::ops
