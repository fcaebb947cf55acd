// Checks every field of a request before anything indexes with it.
#pragma once

#include "isotope/engine.h"

namespace isotope::engine {

/// Fails with the field's name, its value and the remedy. `vocab` is the number of rows of the output head.
Result<void> validate(const Request&, const ModelInfo&);

}  // namespace isotope::engine
