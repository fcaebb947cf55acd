#include "model_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "model_path.h"

namespace isotope::app {
namespace {

namespace fs = std::filesystem;

std::string own_name(const std::string& path) {
  fs::path p(path);
  if (!p.has_filename()) p = p.parent_path();
  return p.extension() == ".gguf" ? p.stem().string() : p.filename().string();
}

size_t weight_bytes(const fs::path& path) {
  std::error_code ec;
  if (!fs::is_directory(path, ec)) {
    const auto n = fs::file_size(path, ec);
    return ec ? 0 : size_t(n);
  }
  size_t sum = 0;
  for (fs::directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec))
    if (it->path().extension() == ".safetensors") {
      std::error_code unread;
      const auto n = fs::file_size(it->path(), unread);
      if (!unread) sum += size_t(n);
    }
  return sum;
}

bool holds_model(const fs::directory_entry& e) {
  std::error_code ec;
  return e.path().extension() == ".gguf" || (e.is_directory(ec) && fs::exists(e.path() / "config.json", ec));
}

Result<void> add_folder(const std::string& dir, std::vector<NamedModel>& out) {
  std::error_code ec;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(dir, ec), end; !ec && it != end; it.increment(ec))
    if (holds_model(*it)) found.push_back(it->path());
  if (ec) return fail(Code::not_found, fmt::format("the folder '{}' cannot be read: {}", dir, ec.message()), "--models-dir", "name a folder with models");
  if (found.empty()) return fail(Code::not_found, fmt::format("the folder '{}' holds no model", dir), "--models-dir", "put GGUF files or Hugging Face folders there");
  std::sort(found.begin(), found.end());
  for (const fs::path& p : found) {
    const auto same = [&](const NamedModel& m) { std::error_code e; return fs::equivalent(m.path, p, e); };
    if (std::none_of(out.begin(), out.end(), same)) out.push_back({own_name(p.string()), p.string()});
  }
  return {};
}

}  // namespace

Result<std::vector<NamedModel>> served_models(const std::vector<std::string>& given, const std::string& dir, const std::vector<std::string>& pinned,
                                              const std::map<std::string, std::string>& environment) {
  std::vector<NamedModel> out;
  for (const std::string& text : given) {
    const size_t equals = text.find('=');
    std::error_code ec;
    const bool named = equals != std::string::npos && equals > 0 && text.find('/') > equals && !fs::exists(text, ec);
    ISO_TRY(const std::string path, model_path(named ? text.substr(equals + 1) : text, environment));
    out.push_back({named ? text.substr(0, equals) : own_name(path), path});
  }
  if (!dir.empty()) ISO_CHECK_OK(add_folder(dir, out));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].bytes = weight_bytes(out[i].path);
    for (size_t j = 0; j < i; ++j)
      if (out[i].name == out[j].name)
        return fail(Code::invalid_argument, fmt::format("two models are called '{}': {} and {}", out[i].name, out[j].path, out[i].path), "--model",
                    "name one of them: --model NAME=PATH");
  }
  for (const std::string& name : pinned) {
    const auto m = std::find_if(out.begin(), out.end(), [&](const NamedModel& n) { return n.name == name; });
    if (m == out.end()) return fail(Code::invalid_argument, "no model is called '" + name + "'", "--pin", "pin one of the names that --model gives");
    m->pinned = true;
  }
  return out;
}

}  // namespace isotope::app
