#include "models/override_errors.h"

#include <cctype>

namespace isotope::models {

bool blame_override(const std::map<std::string, std::string>& overrides, Error& e) {
  const auto in_word = [&](size_t at) { return at < e.what.size() && (std::isalnum(static_cast<unsigned char>(e.what[at])) != 0 || e.what[at] == '_'); };
  for (const auto& [key, value] : overrides) {
    const std::string last = key.substr(key.rfind('.') + 1);
    const size_t at = last.empty() ? std::string::npos : e.what.find(last);
    if (at == std::string::npos || in_word(at + last.size()) || (at > 0 && in_word(at - 1))) continue;
    e.source = "--hf-overrides", e.remedy = "correct '" + key + "' there, or leave it out";
    if (e.code == Code::data_loss) e.code = Code::invalid_argument;
    return true;
  }
  return false;
}

}  // namespace isotope::models
