#include "levers/environment.h"

#include <cstring>

extern char** environ;

namespace isotope::levers {

std::map<std::string, std::string> read_environment() {
  std::map<std::string, std::string> all;
  for (char** e = environ; e && *e; ++e)
    if (const char* eq = std::strchr(*e, '=')) all.emplace(std::string(*e, size_t(eq - *e)), eq + 1);
  return all;
}

}  // namespace isotope::levers
