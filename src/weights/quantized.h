// Quantized matrices of Hugging Face checkpoints. There one matrix is several tensors (codes, scales, zero points); here they become one tensor of the
// plain name, decoded when it is read, so that nothing behind this file knows of the methods. No value is rounded: codes and scales only move.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "weights/checkpoint.h"

namespace isotope::weights {

/// Whether quantization_config.quant_method names a method that present_quantized() understands.
bool known_quantization(std::string_view method);
/// For messages.
std::string quantization_names();

/// Columns that share a scale in a matrix that present_quantized() put together; 0: all of a row, or it is none.
int64_t quantized_columns(const Checkpoint&, const TensorEntry&);

/// The checkpoint with its quantized matrices put together, or itself when its config.json names no known method. Fails when a matrix lacks a part or the
/// shapes of its parts do not belong together, or when the tensors are not what the file says of method, bits, groups and modules; what it says in bits or
/// groups that has no decoder is an error that names it. `beside`: hf_quant_config.json, which counts where config.json says nothing, or null.
Result<std::unique_ptr<Checkpoint>> present_quantized(std::unique_ptr<Checkpoint>, const nlohmann::json* beside = nullptr);

}  // namespace isotope::weights
