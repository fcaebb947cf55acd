#include "bench_serve_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
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

double tpot_ms(const RequestRecord& r) { return r.output > 1 ? (r.latency - r.ttft) / double(r.output - 1) * 1e3 : 0; }

Totals totals(const ServeRun& run) {
  Totals t;
  for (const RequestRecord& r : run.records) {
    t.failed += r.sent && !r.completed();
    if (!r.completed()) continue;
    ++t.completed;
    t.input += r.input;
    t.output += r.output;
    t.series[0].ms.push_back(r.ttft * 1e3);
    if (r.output > 1) t.series[1].ms.push_back(tpot_ms(r));
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

/// "90", "99.9": as the keys of vLLM's report have them.
std::string percent_name(double p) { return fmt::format("p{:g}", p); }

bool wanted(const ServeRun& run, const Series& s) { return std::find(run.metrics.begin(), run.metrics.end(), s.key) != run.metrics.end(); }

bool keeps(const RequestRecord& r, const Objective& o) {
  const double ms = o.metric == "ttft" ? r.ttft * 1e3 : o.metric == "tpot" ? tpot_ms(r) : r.latency * 1e3;
  return ms <= o.ms;
}

/// The most that ran at once, and the most tokens that came within one of the run's seconds.
struct Peaks {
  int64_t running = 0;
  double tokens = 0;
};

Peaks peaks(const ServeRun& run) {
  std::map<double, int64_t> changes;
  std::map<int64_t, int64_t> tokens;
  for (const RequestRecord& r : run.records) {
    if (!r.completed()) continue;
    ++changes[r.start];
    --changes[r.start + r.latency];
    double at = r.start + r.ttft;
    ++tokens[int64_t(at)];
    for (const double gap : r.itl) ++tokens[int64_t(at += gap)];
  }
  Peaks p;
  int64_t now = 0;
  for (const auto& [at, change] : changes) p.running = std::max(p.running, now += change);
  for (const auto& [second, n] : tokens) p.tokens = std::max(p.tokens, double(n));
  return p;
}

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

Result<Objective> parse_objective(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string metric = text.substr(0, colon);
  const char* begin = colon == std::string::npos ? "" : text.c_str() + colon + 1;
  char* end = nullptr;
  const double ms = std::strtod(begin, &end);
  const bool named = metric == "ttft" || metric == "tpot" || metric == "e2el";
  if (!named || end == begin || *end != '\0' || !std::isfinite(ms) || ms < 0)
    return fail(Code::invalid_argument, "'" + text + "' is no limit", "--goodput", "give ttft:MS, tpot:MS or e2el:MS, in milliseconds");
  return Objective{metric, ms};
}

int64_t good_answers(const ServeRun& run) {
  return std::count_if(run.records.begin(), run.records.end(), [&](const RequestRecord& r) {
    return r.completed() && std::all_of(run.objectives.begin(), run.objectives.end(), [&](const Objective& o) { return keeps(r, o); });
  });
}

Json pytorch_records(const ServeRun& run) {
  const Json whole = serve_json(run, false);
  const Json args = {{"num_prompts", whole["num_prompts"]}, {"request_rate", whole["request_rate"]}, {"max_concurrency", run.concurrency}, {"system_fingerprint", run.fingerprint}};
  const Totals t = totals(run);
  Json out = Json::array();
  for (const Series& s : t.series) {
    if (std::string_view(s.key) == "e2el") continue;
    const std::pair<const char*, double> values[] = {{"mean", mean(s.ms)}, {"median", percentile(s.ms, 50)}, {"std", deviation(s.ms)}, {"p99", percentile(s.ms, 99)}};
    for (const auto& [name, value] : values)
      out.push_back({{"benchmark", {{"name", "isotope bench serve"}, {"extra_info", {{"args", args}}}}},
                     {"model", {{"name", run.model}}},
                     {"metric", {{"name", fmt::format("{}_{}_ms", name, s.key)}, {"benchmark_values", Json::array({value})},
                                 {"extra_info", {{"completed", t.completed}, {"duration", run.duration}}}}}});
  }
  return out;
}

Json serve_json(const ServeRun& run, bool detailed) {
  const Totals t = totals(run);
  Json j = {{"date", run.time},
            {"backend", run.backend},
            {"model_id", run.model},
            {"num_prompts", run.records.size()},
            {"request_rate", run.rate > 0 ? Json(run.rate) : Json("inf")},
            {"burstiness", run.burstiness},
            {"max_concurrency", run.concurrency},
            {"duration", run.duration},
            {"completed", t.completed},
            {"failed", t.failed},
            {"total_input_tokens", t.input},
            {"total_output_tokens", t.output},
            {"request_throughput", rate(double(t.completed), run.duration)},
            {"request_goodput", run.objectives.empty() ? Json() : Json(rate(double(good_answers(run)), run.duration))},
            {"output_throughput", rate(double(t.output), run.duration)},
            {"total_token_throughput", rate(double(t.input + t.output), run.duration)}};
  const Peaks most = peaks(run);
  j["max_output_tokens_per_s"] = most.tokens;
  j["max_concurrent_requests"] = most.running;
  if (!run.label.empty()) j["label"] = run.label;
  if (!run.fingerprint.empty()) j["system_fingerprint"] = run.fingerprint;
  for (const auto& [key, value] : run.metadata) j[key] = value;
  for (const Series& s : t.series) {
    if (!wanted(run, s)) continue;
    const std::string end = std::string("_") + s.key + "_ms";
    j["mean" + end] = mean(s.ms);
    j["median" + end] = percentile(s.ms, 50);
    j["std" + end] = deviation(s.ms);
    for (const double p : run.percentiles) j[percent_name(p) + end] = percentile(s.ms, p);
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
  const std::string pace = run.rate > 0 ? fmt::format("{:g} a second, ", run.rate) : std::string();
  std::string out = fmt::format("{} requests, {}{} at a time, to {} ({})\n", run.records.size(), pace, run.concurrency, run.backend, run.model);
  const auto line = [&out](const char* name, const std::string& value) { out += fmt::format("{:<32}{:>12}\n", name, value); };
  line("completed", std::to_string(t.completed));
  line("failed", std::to_string(t.failed));
  line("duration", fmt::format("{:.2f} s", run.duration));
  line("prompt tokens", std::to_string(t.input));
  line("output tokens", std::to_string(t.output));
  line("requests a second", fmt::format("{:.2f}", rate(double(t.completed), run.duration)));
  line("output tokens a second", fmt::format("{:.1f}", rate(double(t.output), run.duration)));
  line("all tokens a second", fmt::format("{:.1f}", rate(double(t.input + t.output), run.duration)));
  if (!run.objectives.empty()) line("good requests a second", fmt::format("{:.2f}", rate(double(good_answers(run)), run.duration)));
  if (t.completed == 0) return out;
  out += fmt::format("\n{:<40}{:>10}{:>10}", "milliseconds", "mean", "median");
  for (const double p : run.percentiles) out += fmt::format("{:>10}", percent_name(p));
  out += '\n';
  for (const Series& s : t.series) {
    if (!wanted(run, s)) continue;
    out += fmt::format("{:<40}{:>10.2f}{:>10.2f}", fmt::format("{} ({})", s.name, s.key), mean(s.ms), percentile(s.ms, 50));
    for (const double p : run.percentiles) out += fmt::format("{:>10.2f}", percentile(s.ms, p));
    out += '\n';
  }
  return out;
}

std::vector<std::string> serve_warnings(const ServeRun& run) {
  std::map<std::string, int> errors;
  int unsent = 0, odd = 0;
  bool varied = false;
  for (const RequestRecord& r : run.records) {
    unsent += !r.sent;
    varied = varied || (r.asked > 0 && r.asked != run.asked_output);
    odd += r.completed() && r.output != (r.asked > 0 ? r.asked : run.asked_output);
    if (r.sent && !r.completed()) ++errors[r.error];
  }
  std::vector<std::string> out;
  if (run.interrupted) out.push_back(fmt::format("interrupted: {} requests were not sent", unsent));
  constexpr size_t kShown = 5;
  for (const auto& [message, n] : errors) {
    if (out.size() >= kShown) break;
    out.push_back(fmt::format("{} requests failed: {}", n, message));
  }
  if (odd) out.push_back(fmt::format("{} answers do not have the {}tokens that were asked for", odd, varied ? "" : fmt::format("{} ", run.asked_output)));
  return out;
}

}  // namespace isotope::app
