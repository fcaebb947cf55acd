// The only place in the tree that reads the process environment; main calls it once, before any thread starts.
#pragma once

#include <map>
#include <string>

namespace isotope::levers {

std::map<std::string, std::string> read_environment();

}  // namespace isotope::levers
