#include "model_path.h"

#include <algorithm>
#include <filesystem>

namespace isotope::app {
namespace {

/// The program that fetches built-in models: beside the installed one, else in the source tree.
std::string fetcher() {
  std::error_code error;
  const auto installed = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "isotope-fetch-model";
  return !error && std::filesystem::exists(installed, error) ? installed.string() : "scripts/fetch-model";
}

/// "SmolLM2_135M" → "smollm2135m": what people remember of a name.
std::string plain(const std::string& name) {
  std::string out;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') out += char(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
  }
  return out;
}

/// Whether one plain letter too many, too few or different separates them.
bool alike(const std::string& a, const std::string& b) {
  const std::string x = plain(a), y = plain(b);
  const size_t most = std::max(x.size(), y.size()), least = std::min(x.size(), y.size());
  size_t begin = 0, end = 0;
  while (begin < least && x[begin] == y[begin]) ++begin;
  while (end < least - begin && x[x.size() - 1 - end] == y[y.size() - 1 - end]) ++end;
  return most - begin - end <= 1;
}

std::string cache_folder(const std::map<std::string, std::string>& environment) {
  if (const auto it = environment.find("XDG_CACHE_HOME"); it != environment.end() && !it->second.empty()) return it->second;
  const auto home = environment.find("HOME");
  return (home == environment.end() ? std::string() : home->second) + "/.cache";
}

}  // namespace

Result<std::string> model_path(const std::string& model, const std::map<std::string, std::string>& environment) {
  std::error_code ignored;
  if (std::filesystem::exists(model, ignored)) return model;
  for (const char* name : kBuiltInModels) {
    if (model != name) continue;
    const std::string path = cache_folder(environment) + "/isotope/models/" + model + ".gguf";
    if (std::filesystem::exists(path, ignored)) return path;
    return fail(Code::not_found, "the built-in model '" + model + "' is not in the cache (" + path + ")", "MODEL", "run " + fetcher() + " " + model);
  }
  for (const char* name : kBuiltInModels) {
    if (alike(model, name)) return fail(Code::not_found, "no file, folder or built-in model is called '" + model + "'", "MODEL", "did you mean " + std::string(name) + "?");
  }
  return fail(Code::not_found, "no file, folder or built-in model is called '" + model + "'", "MODEL",
              "give a GGUF file, a Hugging Face folder, smollm2-135m or gemma3-270m");
}

}  // namespace isotope::app
