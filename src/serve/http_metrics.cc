#include "serve/http_metrics.h"

#include <fmt/format.h>

#include <iterator>

namespace isotope::serve {
namespace {

// Prometheus label values escape backslash, quote and line end.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

template <size_t N>
void HttpMetrics::Histogram<N>::observe(const std::array<double, N>& bounds, double v) {
  size_t i = 0;
  while (i < N && v > bounds[i]) ++i;
  ++counts[i];
  sum += v;
  ++count;
}

template <size_t N>
void HttpMetrics::write(std::string& out, std::string_view name, std::string_view labels, const std::array<double, N>& bounds, const Histogram<N>& h) {
  const std::string sep = labels.empty() ? "" : ",";
  uint64_t below = 0;
  for (size_t i = 0; i <= N; ++i) {
    below += h.counts[i];
    const std::string bound = i < N ? fmt::format("{}", bounds[i]) : "+Inf";
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, sep, bound, below);
  }
  fmt::format_to(std::back_inserter(out), "{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels, h.sum, name, labels, h.count);
}

void HttpMetrics::request(std::string_view method, std::string_view route, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  Route& r = routes_[{std::string(method), std::string(route)}];
  ++r.by_status[status];
  r.seconds.observe(kSeconds, seconds);
}

void HttpMetrics::call_ended(bool abandoned, int choices, int64_t max_tokens) {
  running_.fetch_sub(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  abandoned_ += abandoned ? 1 : 0;
  choices_.observe(kChoices, choices);
  max_tokens_.observe(kTokens, double(max_tokens));
}

std::string HttpMetrics::prometheus(std::string_view model) const {
  const std::lock_guard lock(mutex_);
  std::string out;
  const auto to = std::back_inserter(out);
  head(out, "http_requests_total", "counter", "Answered HTTP requests.");
  for (const auto& [key, r] : routes_) {
    for (const auto& [status, n] : r.by_status) {
      fmt::format_to(to, "http_requests_total{{handler=\"{}\",method=\"{}\",status=\"{}\"}} {}\n", escaped(key.second), escaped(key.first), status, n);
    }
  }
  head(out, "http_request_duration_seconds", "histogram", "Time from the request's last byte to the answer's.");
  for (const auto& [key, r] : routes_) {
    write(out, "http_request_duration_seconds", fmt::format("handler=\"{}\",method=\"{}\"", escaped(key.second), escaped(key.first)), kSeconds, r.seconds);
  }
  head(out, "isotope:http_calls_running", "gauge", "Generation calls whose answer is not complete.");
  fmt::format_to(to, "isotope:http_calls_running {}\n", running());
  head(out, "isotope:http_calls_abandoned_total", "counter", "Generation calls whose client left or read too slowly.");
  fmt::format_to(to, "isotope:http_calls_abandoned_total {}\n", abandoned_);
  const std::string labels = fmt::format("engine=\"0\",model_name=\"{}\"", escaped(model));
  head(out, "vllm:request_params_n", "histogram", "The n of finished calls.");
  write(out, "vllm:request_params_n", labels, kChoices, choices_);
  head(out, "vllm:request_params_max_tokens", "histogram", "The max_tokens of finished calls.");
  write(out, "vllm:request_params_max_tokens", labels, kTokens, max_tokens_);
  return out;
}

}  // namespace isotope::serve
