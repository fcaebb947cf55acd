// Looks at every value of a checkpoint: NaN and infinities in weights load without a fault and make answers of nothing.
#pragma once

#include <string>
#include <vector>

#include "weights/checkpoint.h"
#include "weights/load_all.h"

namespace isotope::weights {

/// A tensor with values that are no finite numbers.
struct BadValues {
  const TensorEntry* tensor = nullptr;
  int64_t nans = 0, infinities = 0;
  std::vector<int64_t> first;  ///< where the first of them is, an index for each dimension
};

struct ValueReport {
  std::vector<BadValues> bad;       ///< in the order of the checkpoint
  int64_t tensors = 0, values = 0;  ///< that were looked at; whole numbers cannot be anything else and are not read
};

/// Quantized matrices are looked at as what they stand for, so that scales count. Fails like loading does: when a tensor cannot
/// be read. `progress` as load_all().
Result<ValueReport> check_values(const Checkpoint&, const levers::Loading&, const Progress& progress = {});

}  // namespace isotope::weights
