// What the user may write for MODEL: a path, or the name of a built-in model that scripts/fetch-model (installed: isotope-fetch-model) put into the user's cache.
#pragma once

#include <map>
#include <string>

#include "isotope/result.h"

namespace isotope::app {

/// Returns `model` itself if a file or folder of that name exists, the cached file for a built-in name, or an error that says how to fetch it.
constexpr const char* kBuiltInModels[] = {"smollm2-135m", "gemma3-270m"};

Result<std::string> model_path(const std::string& model, const std::map<std::string, std::string>& environment);

}  // namespace isotope::app
