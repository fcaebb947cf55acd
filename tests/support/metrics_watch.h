// Watches an engine's Prometheus text over time: well-formed, counters never fall, parts add up to wholes.
#pragma once

#include <map>
#include <string>

namespace isotope::test {

class MetricsWatch {
 public:
  /// Takes in one scrape; returns what is wrong with it, or "".
  std::string look(const std::string& text);
  /// What must hold once all is quiet: sums of parts are wholes. Returns what does not, or "".
  std::string settle() const;
  /// Sum over all label sets of a series name ("vllm:prompt_tokens_total"); 0 without any.
  double sum(const std::string& name) const;

 private:
  std::map<std::string, double> values_;  ///< by series, labels included
  std::map<std::string, std::string> types_;
};

}  // namespace isotope::test
