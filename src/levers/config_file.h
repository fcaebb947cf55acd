// Settings from a file: TOML, or JSON when the name ends in .json. Setting names stand at the top level or in a table `levers`.
#pragma once

#include <map>
#include <string>

#include "isotope/result.h"

namespace isotope::levers {

/// NAME -> text. Errors name the file, the line where the format has one, and the remedy.
Result<std::map<std::string, std::string>> read_config_file(const std::string& path);
Result<std::map<std::string, std::string>> parse_config(const std::string& text, bool json, const std::string& path);

}  // namespace isotope::levers
