#include "support/metrics_watch.h"

#include <set>
#include <sstream>

namespace isotope::test {

namespace {

bool only_grows(const std::string& series, const std::string& type) {
  return type == "counter" || (type == "histogram" && series.find("_sum") == std::string::npos);
}

}  // namespace

std::string MetricsWatch::look(const std::string& text) {
  std::istringstream lines(text);
  std::string wrong, family;
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      const size_t end = line.find(' ', 7);
      family = line.substr(7, end - 7);
      types_[family] = line.substr(end + 1);
      if (!seen.insert("# " + family).second) wrong = family + " is declared twice";
      continue;
    }
    if (line.empty() || line[0] == '#') continue;
    const size_t at = line.rfind(' ');
    const std::string series = line.substr(0, at);
    const double value = std::stod(line.substr(at + 1));
    if (!seen.insert(series).second) wrong = series + " appears twice";
    if (!series.starts_with(family)) wrong = series + " stands under " + family;
    const auto before = values_.find(series);
    if (before != values_.end() && only_grows(series, types_[family]) && value < before->second)
      wrong = series + " fell from " + std::to_string(before->second) + " to " + std::to_string(value);
    if (only_grows(series, types_[family]) && value < 0) wrong = series + " is " + std::to_string(value);
    values_[series] = value;
  }
  return wrong;
}

double MetricsWatch::sum(const std::string& name) const {
  double total = 0;
  for (const auto& [series, value] : values_)
    if (series == name || series.starts_with(name + "{")) total += value;
  return total;
}

std::string MetricsWatch::settle() const {
  const struct {
    const char *whole, *parts;
  } kSums[] = {{"vllm:prompt_tokens_total", "vllm:prompt_tokens_by_source_total"},
               {"vllm:prompt_tokens_total", "atom:prompt_tokens_total"},
               {"vllm:generation_tokens_total", "atom:generation_tokens_total"},
               {"vllm:num_preemptions_total", "atom:preemptions_total"},
               {"vllm:request_success_total", "vllm:e2e_request_latency_seconds_count"},
               {"vllm:request_success_total", "atom:requests_finished_total"}};
  for (const auto& [whole, parts] : kSums)
    if (sum(whole) != sum(parts))
      return std::string(parts) + " adds up to " + std::to_string(sum(parts)) + ", " + whole + " to " + std::to_string(sum(whole));
  for (const char* zero : {"vllm:num_requests_running", "vllm:num_requests_waiting", "isotope:kv_integrity_errors_total", "atom:gc_uncollectable_total",
                           "atom:dp_inflight_requests", "atom:dp_queued_prefill_tokens"})
    if (sum(zero) != 0) return std::string(zero) + " is " + std::to_string(sum(zero));
  if (sum("vllm:prompt_tokens_cached_total") > sum("vllm:prompt_tokens_total")) return "more prompt tokens were cached than there were";
  return {};
}

}  // namespace isotope::test
