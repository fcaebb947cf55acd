// All settings, resolved once at start-up from an injected map. See catalogue rows in *.def.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "isotope/result.h"
#include "levers/groups.h"

namespace isotope::levers {

enum class Source { default_value, config_file, environment, command_line };

/// Where values may come from. Precedence: command line > environment > config file > default.
struct Inputs {
  std::map<std::string, std::string> environment;   ///< the whole environment or a literal in tests
  std::map<std::string, std::string> config_file;   ///< flattened NAME -> text
  std::string config_path;                          ///< for messages
  std::vector<std::pair<std::string, std::string>> set;  ///< --set NAME=VALUE, in order
  bool strict = false;                              ///< --strict-levers
};

class Levers {
 public:
  static Result<Levers> resolve(const Inputs&);     ///< pure: same inputs, same levers
  static Levers defaults();
  const Loading& loading() const { return loading_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Hash of every value that may change numbers; part of system_fingerprint.
  uint64_t numeric_hash() const { return numeric_hash_; }

 private:
  Loading loading_;
  std::vector<std::string> warnings_;
  uint64_t numeric_hash_ = 0;
};

}  // namespace isotope::levers
