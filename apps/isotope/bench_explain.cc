#include "bench_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace isotope::app {

namespace {

/// One op, or a step's other parts, as shares of the limits.
struct Line {
  const OpTime* op;
  double us;        ///< a step
  double memory_s, compute_s;  ///< least seconds of all calls together that bandwidth and arithmetic allow
  double of_limit() const { return std::max(memory_s, compute_s) / (double(op->ns) * 1e-9); }
  const char* bound() const {
    if (memory_s == 0 && compute_s == 0) return "-";
    // Far from both limits, time goes into waking and waiting, or into instructions that are not counted as operations.
    if (of_limit() < 0.25) return "overhead";
    return memory_s > compute_s ? "memory" : "arithmetic";
  }
};

double peak_of(OpTime::Arithmetic a, const ops::MachineLimits& m) {
  const double peaks[] = {m.float_ops, m.bf16_ops, m.int8_ops};
  return peaks[size_t(a)];
}
constexpr const char* kArithmetic[] = {"float32", "bf16", "int8"};

struct Steps {
  std::vector<Line> lines;  ///< dearest first
  double total_us = 0, ops_us = 0, sample_us = 0, glue_us = 0, engine_us = 0;
};

Steps analyse(const StepTimes& t, const ops::MachineLimits& limits) {
  Steps s;
  const double steps = double(std::max<int64_t>(1, t.steps));
  for (const OpTime& o : t.ops) {
    const double peak = peak_of(o.arithmetic, limits);
    s.lines.push_back({&o, double(o.ns) * 1e-3 / steps, limits.read_bytes > 0 ? double(o.bytes) / limits.read_bytes : 0,
                       peak > 0 ? double(o.operations) / peak : 0});
    s.ops_us += s.lines.back().us;
  }
  std::sort(s.lines.begin(), s.lines.end(), [](const Line& a, const Line& b) { return a.us > b.us; });
  s.sample_us = double(t.sample_ns) * 1e-3 / steps;
  s.glue_us = double(t.forward_ns) * 1e-3 / steps - s.ops_us;
  s.engine_us = double(t.between_ns) * 1e-3 / steps;
  s.total_us = s.ops_us + s.glue_us + s.sample_us + s.engine_us;
  return s;
}

}  // namespace

std::string explain_text(const std::string& test, const StepTimes& t, const ops::MachineLimits& limits) {
  const Steps s = analyse(t, limits);
  std::string out = fmt::format("\n{}: {} steps of {:.1f} µs; limits: {:.1f} GB/s read, {:.0f} Gop/s int8, {:.0f} bf16, {:.0f} float32\n", test, t.steps,
                                s.total_us, limits.read_bytes / 1e9, limits.int8_ops / 1e9, limits.bf16_ops / 1e9, limits.float_ops / 1e9);
  out += fmt::format("| {:<54} | {:<36} | {:>5} | {:>9} | {:>6} | {:>6} | {:>6} | {:>8} | {:<10} |\n", "op", "kernel", "calls", "µs/step", "share", "GB/s",
                     "Gop/s", "of limit", "bound by");
  out += fmt::format("|{:-<56}|{:-<38}|{:->6}:|{:->10}:|{:->7}:|{:->7}:|{:->7}:|{:->9}:|{:-<12}|\n", "", "", "", "", "", "", "", "", "");
  const double steps = double(std::max<int64_t>(1, t.steps));
  const auto percent = [&](double us) { return fmt::format("{:.1f} %", 100 * us / s.total_us); };
  for (const Line& l : s.lines) {
    const double ns = double(l.op->ns);
    out += fmt::format("| {:<54} | {:<36} | {:>5.0f} | {:>9.1f} | {:>6} | {:>6.1f} | {:>6} | {:>8} | {:<10} |\n", l.op->name, l.op->kernel,
                       double(l.op->calls) / steps, l.us, percent(l.us), double(l.op->bytes) / ns,
                       l.op->operations ? fmt::format("{:.0f}", double(l.op->operations) / ns) : "-", fmt::format("{:.0f} %", 100 * l.of_limit()),
                       l.bound());
  }
  const std::pair<const char*, double> rest[] = {{"between ops (model code)", s.glue_us}, {"sampling", s.sample_us}, {"engine outside the model", s.engine_us}};
  for (const auto& [name, us] : rest)
    out += fmt::format("| {:<54} | {:<36} | {:>5} | {:>9.1f} | {:>6} | {:>6} | {:>6} | {:>8} | {:<10} |\n", name, "", "", us, percent(us), "", "", "", "");
  double memory = 0, arithmetic = 0;
  for (const Line& l : s.lines) (l.memory_s > l.compute_s ? memory : arithmetic) += std::max(l.memory_s, l.compute_s) * 1e6 / steps;
  out += fmt::format("The step could take {:.1f} µs at the limits ({:.0f} % reached), {:.0f} % of that for reading: it is bound by {}.\n", memory + arithmetic,
                     100 * (memory + arithmetic) / s.total_us, 100 * memory / std::max(1e-9, memory + arithmetic),
                     memory > arithmetic ? "memory" : "arithmetic");
  return out;
}

nlohmann::ordered_json explain_json(const StepTimes& t, const ops::MachineLimits& limits) {
  const Steps s = analyse(t, limits);
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const Line& l : s.lines)
    ops.push_back({{"op", l.op->name}, {"kernel", l.op->kernel}, {"calls", l.op->calls}, {"us_per_step", l.us}, {"bytes", l.op->bytes},
                   {"operations", l.op->operations}, {"arithmetic", kArithmetic[size_t(l.op->arithmetic)]}, {"share_of_limit", l.of_limit()}, {"bound_by", l.bound()}});
  return {{"steps", t.steps},
          {"us_per_step", s.total_us},
          {"ops_us", s.ops_us},
          {"model_us", s.glue_us},
          {"sampling_us", s.sample_us},
          {"engine_us", s.engine_us},
          {"engine_share", s.engine_us / std::max(1e-9, s.total_us)},
          {"limits", {{"read_bytes_per_s", limits.read_bytes}, {"int8_ops_per_s", limits.int8_ops}, {"bf16_ops_per_s", limits.bf16_ops}, {"float_ops_per_s", limits.float_ops}}},
          {"ops", ops}};
}

}  // namespace isotope::app
