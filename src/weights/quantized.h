// Quantized matrices of Hugging Face checkpoints. There one matrix is several tensors (codes, scales, zero points); here they become one tensor of the
// plain name, decoded when it is read, so that nothing behind this file knows of the methods. No value is rounded: codes and scales only move.
#pragma once

#include <memory>

#include "weights/checkpoint.h"

namespace isotope::weights {

/// Whether quantization_config.quant_method names a method that present_quantized() understands.
bool known_quantization(std::string_view method);
/// For messages.
std::string quantization_names();

/// The checkpoint with its quantized matrices put together, or itself when its config.json names no known method. Fails when a matrix lacks a part or the
/// shapes of its parts do not belong together; what a file says in bits or groups that has no decoder is an error that names it.
Result<std::unique_ptr<Checkpoint>> present_quantized(std::unique_ptr<Checkpoint>);

}  // namespace isotope::weights
