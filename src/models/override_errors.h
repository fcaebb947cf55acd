// Errors about values that --hf-overrides gave. Internal to the configuration parser.
#pragma once

#include <map>
#include <string>

#include "isotope/result.h"

namespace isotope::models {

/// An error that speaks of a key that --hf-overrides gave is that flag's, not the file's: says so and returns true.
bool blame_override(const std::map<std::string, std::string>& overrides, Error&);

}  // namespace isotope::models
