#include "bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench_explain.h"

namespace isotope::app {

namespace {

std::string size_text(int64_t bytes) {
  return double(bytes) >= 0x1p30 ? fmt::format("{:.2f} GiB", double(bytes) / 0x1p30)
                                 : fmt::format("{:.2f} MiB", double(bytes) / 0x1p20);
}

std::string count_text(int64_t n) {
  return n >= 1'000'000'000 ? fmt::format("{:.2f} B", double(n) / 1e9) : fmt::format("{:.2f} M", double(n) / 1e6);
}

std::string model_type(const ModelInfo& m) {
  return fmt::format("{} {} {}", m.architecture, count_text(m.parameters), m.file_type);
}

std::string turns_text(std::vector<double> shares) {
  if (shares.empty()) return {};
  std::sort(shares.begin(), shares.end());
  const auto percent = [&](size_t tenth) { return 100 * shares[(shares.size() - 1) * tenth / 10]; };
  return fmt::format("In {} turns with nothing but reading as many bytes: {:.0f} % of the read bandwidth ({:.0f} to {:.0f} %).\n", shares.size(), percent(5), percent(1),
                     percent(9));
}

}  // namespace

std::vector<double> BenchRow::samples_ts() const {
  std::vector<double> ts;
  for (const int64_t ns : samples_ns) ts.push_back(double(tokens()) * 1e9 / double(std::max<int64_t>(1, ns)));
  return ts;
}

std::string BenchRow::name() const {
  std::string s = prompt ? fmt::format("pp{}", prompt) : fmt::format("tg{}", gen);
  if (depth) s += fmt::format(" @ d{}", depth);
  return s;
}

Spread spread(const std::vector<double>& v) {
  if (v.empty()) return {};
  Spread s;
  for (const double x : v) s.mean += x;
  s.mean /= double(v.size());
  double squares = 0;
  for (const double x : v) squares += (x - s.mean) * (x - s.mean);
  if (v.size() > 1) s.stddev = std::sqrt(squares / double(v.size() - 1));
  return s;
}

std::string bench_table(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> cells{
      {"model", "size", "params", "backend", "threads", "n_batch", "npl", "kv", "test", "t/s"}};
  for (const BenchRow& r : rows) {
    const Spread s = spread(r.samples_ts());
    cells.push_back({model_type(r.model), size_text(r.model.weight_bytes), count_text(r.model.parameters), "CPU",
                     std::to_string(r.threads), std::to_string(r.batch), std::to_string(r.parallel), r.kv_type, r.name(),
                     fmt::format("{:.2f} ± {:.2f}", s.mean, s.stddev)});
  }
  constexpr size_t kLeft = 4;  // columns of words; numbers stand to the right
  std::vector<size_t> width(cells[0].size(), 0);
  const auto columns = [](const std::string& s) {
    return size_t(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  };
  for (const auto& row : cells)
    for (size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], columns(row[c]));
  std::string out;
  const auto line = [&](const std::vector<std::string>& row) {
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(width[c] - columns(row[c]), ' ');
      out += c < kLeft ? "| " + row[c] + pad + " " : "| " + pad + row[c] + " ";
    }
    out += "|\n";
  };
  line(cells[0]);
  for (size_t c = 0; c < width.size(); ++c)
    out += c < kLeft ? "| " + std::string(width[c], '-') + " " : "| " + std::string(width[c] - 1, '-') + ": ";
  out += "|\n";
  for (size_t i = 1; i < cells.size(); ++i) line(cells[i]);
  for (const BenchRow& r : rows)
    if (r.profile) out += explain_text(fmt::format("{}, {}, npl {}", r.model.name, r.name(), r.parallel), *r.profile, r.limits) + turns_text(r.read_shares);
  return out;
}

std::string bench_json(const std::vector<BenchRow>& rows) {
  auto all = nlohmann::ordered_json::array();
  for (const BenchRow& r : rows) {
    std::vector<double> ns(r.samples_ns.begin(), r.samples_ns.end());
    const Spread t = spread(ns), s = spread(r.samples_ts());
    all.push_back({{"build_commit", ISOTOPE_VERSION},
                   {"build_number", 0},
                   {"cpu_info", r.cpu},
                   {"gpu_info", ""},
                   {"backends", "CPU"},
                   {"model_filename", r.model.path},
                   {"model_type", model_type(r.model)},
                   {"model_size", r.model.weight_bytes},
                   {"model_n_params", r.model.parameters},
                   {"n_batch", r.batch},
                   {"n_ubatch", r.batch},
                   {"n_threads", r.threads},
                   {"type_k", r.kv_type},
                   {"type_v", r.kv_type},
                   {"n_gpu_layers", 0},
                   {"n_parallel", r.parallel},
                   {"path", "engine"},
                   {"n_prompt", r.prompt},
                   {"n_gen", r.gen},
                   {"n_depth", r.depth},
                   {"test_time", r.time},
                   {"avg_ns", int64_t(t.mean)},
                   {"stddev_ns", int64_t(t.stddev)},
                   {"avg_ts", s.mean},
                   {"stddev_ts", s.stddev},
                   {"samples_ns", r.samples_ns},
                   {"samples_ts", r.samples_ts()}});
    if (r.profile) all.back()["explain"] = explain_json(*r.profile, r.limits);
    if (!r.read_shares.empty()) all.back()["explain"]["read_shares"] = r.read_shares;
  }
  return all.dump(2) + "\n";
}

}  // namespace isotope::app
