// Settings of GLM-5-Next's sparse attention: they change the configuration before anything is sized by it.
#pragma once

#include <string_view>

#include "levers/groups.h"
#include "models/config.h"

namespace isotope::models {

/// Single tokens instead of pools, or attention to all keys. Both are what pools give only as long as all keys are chosen, so the context is cut to that.
/// Returns the name of the setting that did so; empty if none applies to the model.
std::string_view apply_glm_settings(const levers::Sparse&, ModelConfig&);

}  // namespace isotope::models
