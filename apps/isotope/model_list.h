// Which models a server has, by the names that requests use.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "isotope/result.h"

namespace isotope::app {

struct NamedModel {
  std::string name, path;
  size_t bytes = 0;       ///< of its weight files
  bool pinned = false;
};

/// `given`: paths or built-in names, each may have NAME= in front. `dir`: a folder of further models, or empty. Names are the files' own unless given; of two
/// equal ones the second is an error. `pinned` names must be among them.
Result<std::vector<NamedModel>> served_models(const std::vector<std::string>& given, const std::string& dir, const std::vector<std::string>& pinned,
                                              const std::map<std::string, std::string>& environment);

}  // namespace isotope::app
