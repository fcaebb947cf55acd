// What `isotope tune` stores for this machine: settings in a TOML file of the user's configuration folder. It is the weakest source of settings.
#pragma once

#include <map>
#include <string>

#include "isotope/result.h"

namespace isotope::app {

/// $XDG_CONFIG_HOME or ~/.config, /isotope/tuned-XXXXXXXX.toml; the name tells CPU model, number of cores and instruction set apart, so that machines
/// may share a home. Empty without a home.
std::string tuned_path(const std::map<std::string, std::string>& environment);
/// Settings stored for this machine; none if there is no file.
Result<std::map<std::string, std::string>> read_tuned(const std::string& path);
Result<void> write_tuned(const std::string& path, const std::map<std::string, std::string>& settings, const std::string& comment);

}  // namespace isotope::app
