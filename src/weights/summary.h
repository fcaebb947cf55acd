// What a checkpoint weighs: parameters, bytes and bits by number format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weights/checkpoint.h"

namespace isotope::weights {

struct TypeTotals {
  tensor::DType dtype{};
  int64_t tensors = 0, elements = 0, bytes = 0;
};

struct Summary {
  int64_t parameters = 0, bytes = 0;  ///< of all tensors
  std::vector<TypeTotals> types;      ///< largest first
  std::string file_type;              ///< "Q4_K_M", "BF16": what the file calls itself, else the type of most parameters
  double bits = 0;                    ///< bits a weight over all tensors
  double nominal_bits = 0;            ///< bits a weight of the format that file_type is named after
};
Summary summarize(const Checkpoint&);

/// Bits a weight of a format: 4.5 for Q4_K.
double format_bits(tensor::DType);

}  // namespace isotope::weights
