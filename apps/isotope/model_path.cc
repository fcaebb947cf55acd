#include "model_path.h"

#include <filesystem>

namespace isotope::app {
namespace {

constexpr const char* kBuiltIn[] = {"smollm2-135m", "gemma3-270m"};

std::string cache_folder(const std::map<std::string, std::string>& environment) {
  if (const auto it = environment.find("XDG_CACHE_HOME"); it != environment.end() && !it->second.empty()) return it->second;
  const auto home = environment.find("HOME");
  return (home == environment.end() ? std::string() : home->second) + "/.cache";
}

}  // namespace

Result<std::string> model_path(const std::string& model, const std::map<std::string, std::string>& environment) {
  std::error_code ignored;
  if (std::filesystem::exists(model, ignored)) return model;
  for (const char* name : kBuiltIn) {
    if (model != name) continue;
    const std::string path = cache_folder(environment) + "/isotope/models/" + model + ".gguf";
    if (std::filesystem::exists(path, ignored)) return path;
    return fail(Code::not_found, "the built-in model '" + model + "' is not in the cache (" + path + ")", "MODEL", "run scripts/fetch-model " + model);
  }
  return fail(Code::not_found, "no file, folder or built-in model is called '" + model + "'", "MODEL",
              "give a GGUF file, a Hugging Face folder, smollm2-135m or gemma3-270m");
}

}  // namespace isotope::app
