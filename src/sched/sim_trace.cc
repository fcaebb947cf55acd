#include "sched/sim_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/input_file.h"
#include "sched/number_list.h"

namespace isotope::sched {

namespace {

using Json = nlohmann::json;

struct Number {
  const char* name;
  double least, most;
  void (*set)(SimRequest&, double);
  bool whole = false;
};
constexpr double kMostTokens = 1 << 24;
constexpr uint64_t kMostBytes = uint64_t{4} << 30;  ///< of a file
// Two spellings of the times and lengths: our own, and that of the published Mooncake traces (milliseconds).
constexpr Number kNumbers[] = {
    {"arrival_s", 0, 1e9, [](SimRequest& r, double v) { r.arrival_s = v; }},
    {"timestamp", 0, 1e12, [](SimRequest& r, double v) { r.arrival_s = v * 1e-3; }},
    {"prompt", 1, kMostTokens, [](SimRequest& r, double v) { r.prompt = int64_t(v); }, true},
    {"input_length", 1, kMostTokens, [](SimRequest& r, double v) { r.prompt = int64_t(v); }, true},
    {"output", 1, kMostTokens, [](SimRequest& r, double v) { r.output = int64_t(v); }, true},
    {"output_length", 1, kMostTokens, [](SimRequest& r, double v) { r.output = int64_t(v); }, true},
    {"prefix_tokens", 0, kMostTokens, [](SimRequest& r, double v) { r.prefix_tokens = int64_t(v); }, true},
    {"hash_block", 1, kMostTokens, [](SimRequest& r, double v) { r.hash_block = int64_t(v); }, true},
    {"priority", -1e9, 1e9, [](SimRequest& r, double v) { r.priority = int(v); }, true},
    {"rank", -1, 65535, [](SimRequest& r, double v) { r.rank = int(v); }, true},
    {"deadline_ms", 0, 1e9, [](SimRequest& r, double v) { r.deadline_ms = v; }},
    {"transfer_ms", 0, 1e9, [](SimRequest& r, double v) { r.transfer_ms = v; }},
    {"cancel_s", 0, 1e9, [](SimRequest& r, double v) { r.cancel_s = v; }},
};

struct Text {
  const char* name;
  std::string SimRequest::*field;
};
constexpr Text kTexts[] = {{"prefix", &SimRequest::prefix}, {"session", &SimRequest::session}, {"key", &SimRequest::key}};

std::string names() {
  std::string all;
  for (const Number& n : kNumbers) all += std::string(n.name) + ", ";
  for (const Text& t : kTexts) all += std::string(t.name) + ", ";
  return all + "hash_ids";
}

/// A prefix, session or key may be a number in a trace.
std::string text_of(const Json& v) {
  return v.is_string() ? v.get<std::string>() : v.dump();
}

Result<void> read_field(SimRequest& r, const std::string& name, const Json& v, const std::string& where) {
  for (const Number& n : kNumbers) {
    if (name != n.name) continue;
    const double x = v.is_number() ? v.get<double>() : std::nan("");
    if (!(x >= n.least && x <= n.most) || (n.whole && x != std::floor(x)))
      return fail(Code::invalid_argument, fmt::format("\"{}\" is {}", name, v.dump().substr(0, 40)), where,
                  fmt::format("use a {}number from {} to {}", n.whole ? "whole " : "", n.least, n.most));
    n.set(r, x);
    return {};
  }
  for (const Text& t : kTexts) {
    if (name != t.name) continue;
    if (!v.is_string() && !v.is_number_integer())
      return fail(Code::invalid_argument, fmt::format("\"{}\" is neither a text nor a whole number", name), where);
    r.*t.field = text_of(v);
    return {};
  }
  if (name != "hash_ids")
    return fail(Code::invalid_argument, fmt::format("there is no field \"{}\"", name.substr(0, 40)), where, "fields are " + names());
  if (!v.is_array() || !std::all_of(v.begin(), v.end(), [](const Json& i) { return i.is_number_integer(); }))
    return fail(Code::invalid_argument, "\"hash_ids\" is no array of whole numbers", where);
  r.hash_ids = v.get<std::vector<int64_t>>();
  return {};
}

Result<SimRequest> read_line(std::string_view line, const std::string& where) {
  const Json j = Json::parse(line, nullptr, false);
  if (!j.is_object()) return fail(Code::invalid_argument, "the line is no JSON object", where);
  SimRequest r;
  for (const auto& [name, value] : j.items()) ISO_CHECK_OK(read_field(r, name, value, where));
  if (r.prefix_tokens > 0 && r.prefix.empty()) return fail(Code::invalid_argument, "\"prefix_tokens\" without \"prefix\"", where);
  return r;
}

void sort_by_arrival(std::vector<SimRequest>& v) {
  std::stable_sort(v.begin(), v.end(), [](const SimRequest& a, const SimRequest& b) { return a.arrival_s < b.arrival_s; });
}

struct Spec {
  double requests = 1000, rate = 20, prompt = 512, output = 128, prefixes = 4, prefix_tokens = 256, sessions = 0, keys = 1, priorities = 1, burst = 1,
         seed = 1;
};

Result<Spec> read_spec(std::string_view text) {
  Spec s;
  const NamedNumber known[] = {{"requests", &s.requests, 0, 1e8},
                               {"rate", &s.rate, 1e-6, 1e9},
                               {"prompt", &s.prompt, 1, kMostTokens},
                               {"output", &s.output, 1, kMostTokens},
                               {"prefixes", &s.prefixes, 0, 1e8},
                               {"prefix_tokens", &s.prefix_tokens, 0, kMostTokens},
                               {"sessions", &s.sessions, 0, 1e8},
                               {"keys", &s.keys, 1, 1e8},
                               {"priorities", &s.priorities, 1, 1e6},
                               {"burst", &s.burst, 1, 1e6},
                               {"seed", &s.seed, 0, 1e15}};
  ISO_CHECK_OK(parse_numbers(text, known, "--simulate synthetic"));
  return s;
}

/// Uniform in [0, 1); the standard library's distributions differ between implementations.
double uniform(std::mt19937_64& g) {
  return double(g() >> 11) * 0x1p-53;
}
/// Half to double the mean; its own mean is about 1.08 times that.
int64_t around(std::mt19937_64& g, double mean) {
  return std::max<int64_t>(1, std::llround(mean * std::exp2(2 * uniform(g) - 1)));
}

}  // namespace

Result<std::vector<SimRequest>> parse_trace(std::string_view text, std::string_view source) {
  std::vector<SimRequest> out;
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ISO_TRY(SimRequest r, read_line(one, fmt::format("{}, line {}", source, line)));
    out.push_back(std::move(r));
  }
  sort_by_arrival(out);
  return out;
}

Result<std::vector<SimRequest>> read_trace(const std::string& path) {
  ISO_TRY(const std::string text, base::read_input(path, kMostBytes, "--simulate"));
  return parse_trace(text, path);
}

Result<std::vector<SimRequest>> synthetic_trace(std::string_view text) {
  ISO_TRY(const Spec s, read_spec(text));
  std::mt19937_64 g(uint64_t(s.seed));
  std::vector<SimRequest> out(static_cast<size_t>(s.requests));
  double now = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    SimRequest& r = out[i];
    if (i % size_t(s.burst) == 0) now += -std::log(1 - uniform(g)) * s.burst / s.rate;
    r.arrival_s = now;
    r.prompt = around(g, s.prompt);
    r.output = around(g, s.output);
    const auto pick = [&](double n) { return std::to_string(g() % uint64_t(n)); };
    if (s.prefixes >= 1) {
      r.prefix = pick(s.prefixes);
      r.prefix_tokens = std::min(int64_t(s.prefix_tokens), r.prompt);
    }
    if (s.sessions >= 1) r.session = pick(s.sessions);
    if (s.keys > 1) r.key = pick(s.keys);
    if (s.priorities > 1) r.priority = int(g() % uint64_t(s.priorities));
  }
  return out;
}

}  // namespace isotope::sched
