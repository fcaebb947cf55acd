// The tools of a request as parsers need them: names, and the types of parameters for formats that write values as bare text.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isotope::serve {

class Toolbox {
 public:
  /// `tools` is OpenAI's checked array of {"type": "function", "function": {…}}, or null for none.
  explicit Toolbox(const nlohmann::ordered_json& tools = nullptr);

  bool empty() const { return tools_.empty(); }
  bool has(const std::string& name) const { return tools_.contains(name); }
  /// A bare value as JSON: what the parameter's schema says it is if the text can be that, else a string.
  std::string typed(const std::string& tool, const std::string& parameter, std::string_view text) const;

 private:
  std::map<std::string, std::map<std::string, unsigned>> tools_;   ///< types by tool and parameter
};

/// The arguments object of formats that write one parameter after the other.
class Arguments {
 public:
  /// `value` is JSON. Of equal keys the last one counts.
  void set(std::string key, std::string value);
  std::string text() const;

 private:
  std::vector<std::pair<std::string, std::string>> members_;
};

}  // namespace isotope::serve
