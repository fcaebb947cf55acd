// Parts of the GGUF key reader that families of their own need. Internal.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/arch.h"
#include "weights/checkpoint.h"

namespace isotope::models {

/// Indexers and compressed attention, whose keys are arrays or depend on what tensors are there; `out` holds what the key table gave.
Result<void> read_sparse(const weights::Checkpoint&, const Arch&, const std::string& prefix, nlohmann::json& out);

}  // namespace isotope::models
