#include "bench_serve_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace isotope::app {
namespace {

using serve::Json;

/// The four latencies, in milliseconds.
struct Series {
  const char* key;
  const char* name;
  std::vector<double> ms;
};

struct Totals {
  int64_t completed = 0, failed = 0, input = 0, output = 0;
  std::vector<Series> series{{"ttft", "time to first token", {}}, {"tpot", "time per output token after it", {}}, {"itl", "between two events", {}}, {"e2el", "whole answer", {}}};
};

Totals totals(const ServeRun& run) {
  Totals t;
  for (const RequestRecord& r : run.records) {
    t.failed += r.sent && !r.completed();
    if (!r.completed()) continue;
    ++t.completed;
    t.input += r.input;
    t.output += r.output;
    t.series[0].ms.push_back(r.ttft * 1e3);
    if (r.output > 1) t.series[1].ms.push_back((r.latency - r.ttft) / double(r.output - 1) * 1e3);
    for (const double s : r.itl) t.series[2].ms.push_back(s * 1e3);
    t.series[3].ms.push_back(r.latency * 1e3);
  }
  return t;
}

double mean(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return v.empty() ? 0 : sum / double(v.size());
}

double deviation(const std::vector<double>& v) {
  const double m = mean(v);
  double squares = 0;
  for (const double x : v) squares += (x - m) * (x - m);
  return v.empty() ? 0 : std::sqrt(squares / double(v.size()));
}

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

template <class Get>
Json column(const ServeRun& run, Get get) {
  Json out = Json::array();
  for (const RequestRecord& r : run.records) out.push_back(get(r));
  return out;
}

}  // namespace

double percentile(std::vector<double> v, double percent) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  const double at = std::clamp(percent, 0.0, 100.0) / 100 * double(v.size() - 1);
  const size_t below = size_t(at), above = std::min(below + 1, v.size() - 1);
  return v[below] + (v[above] - v[below]) * (at - double(below));
}

Json serve_json(const ServeRun& run, bool detailed) {
  const Totals t = totals(run);
  Json j = {{"date", run.time},
            {"backend", run.backend},
            {"model_id", run.model},
            {"num_prompts", run.records.size()},
            {"request_rate", "inf"},
            {"max_concurrency", run.concurrency},
            {"duration", run.duration},
            {"completed", t.completed},
            {"failed", t.failed},
            {"total_input_tokens", t.input},
            {"total_output_tokens", t.output},
            {"request_throughput", rate(double(t.completed), run.duration)},
            {"output_throughput", rate(double(t.output), run.duration)},
            {"total_token_throughput", rate(double(t.input + t.output), run.duration)}};
  for (const Series& s : t.series) {
    const std::string end = std::string("_") + s.key + "_ms";
    j["mean" + end] = mean(s.ms);
    j["median" + end] = percentile(s.ms, 50);
    j["std" + end] = deviation(s.ms);
    for (const int p : {90, 95, 99}) j["p" + std::to_string(p) + end] = percentile(s.ms, p);
  }
  if (!detailed) return j;
  j["input_lens"] = column(run, [](const RequestRecord& r) { return r.input; });
  j["output_lens"] = column(run, [](const RequestRecord& r) { return r.output; });
  j["start_times"] = column(run, [](const RequestRecord& r) { return r.start; });
  j["ttfts"] = column(run, [](const RequestRecord& r) { return r.ttft; });
  j["itls"] = column(run, [](const RequestRecord& r) { return Json(r.itl); });
  j["generated_texts"] = column(run, [](const RequestRecord& r) { return r.text; });
  j["errors"] = column(run, [](const RequestRecord& r) { return r.error; });
  return j;
}

std::string serve_table(const ServeRun& run) {
  const Totals t = totals(run);
  std::string out = fmt::format("{} requests, {} at a time, to {} ({})\n", run.records.size(), run.concurrency, run.backend, run.model);
  const auto line = [&out](const char* name, const std::string& value) { out += fmt::format("{:<32}{:>12}\n", name, value); };
  line("completed", std::to_string(t.completed));
  line("failed", std::to_string(t.failed));
  line("duration", fmt::format("{:.2f} s", run.duration));
  line("prompt tokens", std::to_string(t.input));
  line("output tokens", std::to_string(t.output));
  line("requests a second", fmt::format("{:.2f}", rate(double(t.completed), run.duration)));
  line("output tokens a second", fmt::format("{:.1f}", rate(double(t.output), run.duration)));
  line("all tokens a second", fmt::format("{:.1f}", rate(double(t.input + t.output), run.duration)));
  if (t.completed == 0) return out;
  out += fmt::format("\n{:<40}{:>10}{:>10}{:>10}{:>10}\n", "milliseconds", "mean", "median", "p95", "p99");
  for (const Series& s : t.series)
    out += fmt::format("{:<40}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", fmt::format("{} ({})", s.name, s.key), mean(s.ms), percentile(s.ms, 50), percentile(s.ms, 95),
                       percentile(s.ms, 99));
  return out;
}

std::vector<std::string> serve_warnings(const ServeRun& run) {
  std::map<std::string, int> errors;
  int unsent = 0, odd = 0;
  for (const RequestRecord& r : run.records) {
    unsent += !r.sent;
    odd += r.completed() && r.output != run.asked_output;
    if (r.sent && !r.completed()) ++errors[r.error];
  }
  std::vector<std::string> out;
  if (run.interrupted) out.push_back(fmt::format("interrupted: {} requests were not sent", unsent));
  constexpr size_t kShown = 5;
  for (const auto& [message, n] : errors) {
    if (out.size() >= kShown) break;
    out.push_back(fmt::format("{} requests failed: {}", n, message));
  }
  if (odd) out.push_back(fmt::format("{} answers do not have the {} tokens that were asked for", odd, run.asked_output));
  return out;
}

}  // namespace isotope::app
