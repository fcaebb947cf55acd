// Where the published models that tests use are kept; `scripts/fetch-model` puts them there.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace isotope::test {

/// Path of a built-in model's file ("smollm2-135m", "gemma3-270m"), or empty when it has not been fetched: then a test skips.
inline std::string cached_model(std::string_view name) {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  const std::filesystem::path root = cache && *cache ? cache : std::string(home ? home : "") + "/.cache";
  const auto path = root / "isotope/models" / (std::string(name) + ".gguf");
  std::error_code ec;
  return std::filesystem::exists(path, ec) ? path.string() : std::string();
}

}  // namespace isotope::test
