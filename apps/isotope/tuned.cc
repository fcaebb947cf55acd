#include "tuned.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/hash.h"
#include "base/output_file.h"
#include "base/topology.h"
#include "kernels/cpu/pick.h"
#include "levers/config_file.h"

namespace isotope::app {

namespace fs = std::filesystem;

namespace {

std::string machine_name() {
  const auto kernels = kernels::cpu::pick_isa("");
  return fmt::format("{}|{}|{}", base::cpu_name(), base::machine().cores.size(), kernels ? (*kernels)->isa : "none");
}

}  // namespace

std::string tuned_path(const std::map<std::string, std::string>& environment) {
  const auto value = [&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  };
  fs::path folder = value("XDG_CONFIG_HOME");
  if (folder.empty()) {
    if (value("HOME").empty()) return {};
    folder = fs::path(value("HOME")) / ".config";
  }
  return folder / "isotope" / fmt::format("tuned-{:08x}.toml", base::xxh64(machine_name()) >> 32);
}

Result<std::map<std::string, std::string>> read_tuned(const std::string& path) {
  std::error_code e;
  if (path.empty() || !fs::is_regular_file(path, e)) return std::map<std::string, std::string>{};
  return levers::read_config_file(path);
}

Result<void> write_tuned(const std::string& path, const std::map<std::string, std::string>& settings, const std::string& comment) {
  if (path.empty()) return fail(Code::invalid_argument, "there is no place for the profile", "HOME", "set HOME or XDG_CONFIG_HOME");
  std::error_code e;
  fs::create_directories(fs::path(path).parent_path(), e);
  std::string text = "# " + comment + "\n";
  for (const auto& [name, value] : settings) text += name + " = " + value + "\n";
  return base::write_output(path, text, "the profile of isotope tune; XDG_CONFIG_HOME names another folder");
}

}  // namespace isotope::app
