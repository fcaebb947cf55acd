// Weights that no file holds: every tensor a model needs, in the shapes that its config.json says, with values that a name and a position alone decide. To
// measure speed and memory of any published model without its files.
#pragma once

#include <memory>
#include <string>

#include "weights/checkpoint.h"

namespace isotope::models {

/// `path`: a folder with a config.json, or that file. `kind`: "zero" or "empty" (zeros), "xavier" (uniform within ±sqrt(6 / (rows + columns)); norms are 1,
/// biases 0). Where config.json names a quantization, the weights are quantized while they load, as its checkpoint would be, if there is a scheme for it.
Result<std::unique_ptr<weights::Checkpoint>> dummy_checkpoint(const std::string& path, const std::string& kind);

/// The tensors that a model of this config.json has, in the formats they would be loaded in, without a word about their values, which are zeros: to plan with.
Result<std::unique_ptr<weights::Checkpoint>> planned_checkpoint(const std::string& path);
/// A config.json as a checkpoint without tensors, of whatever architecture.
Result<std::unique_ptr<weights::Checkpoint>> config_checkpoint(const std::string& path);

}  // namespace isotope::models
