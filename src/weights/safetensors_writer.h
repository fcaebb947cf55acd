// Writes safetensors files: results of `isotope logits` and `isotope dump`, and tests' small models.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "isotope/result.h"
#include "tensor/tensor.h"

namespace isotope::weights {

struct NamedTensor {
  std::string name;
  tensor::HostTensor view;  ///< a type that safetensors has a spelling for; the bytes must live until the call returns
};

/// Writes the tensors in the given order, with the header padded so that data starts at a multiple of 8, and commits the file.
Result<void> write_safetensors(base::OutputFile file, std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata = {});

}  // namespace isotope::weights
