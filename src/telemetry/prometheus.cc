#include <fmt/format.h>

#include <cmath>

#include "telemetry/metrics.h"

namespace isotope::telemetry {

namespace {

std::string escaped(std::string_view s) {
  std::string out;
  for (char c : s) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string_view type_name(Kind k) {
  return k == Kind::counter ? "counter" : k == Kind::gauge ? "gauge" : "histogram";
}

void header(std::string& out, std::string_view name, std::string_view help, Kind kind) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type_name(kind));
}

std::string exposed_name(const Row& r) {
  return std::string(r.name) + (r.kind == Kind::counter ? "_total" : "");
}

}  // namespace

std::string number_text(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "+Inf" : "-Inf";
  if (v == std::floor(v) && std::abs(v) < 1e15) return fmt::format("{:.1f}", v);
  return fmt::format("{}", v);
}

std::string label_text(const Labels& labels) {
  if (labels.empty()) return {};
  std::string out = "{";
  for (const auto& [name, value] : labels) {
    if (out.size() > 1) out += ',';
    fmt::format_to(std::back_inserter(out), "{}=\"{}\"", name, escaped(value));
  }
  return out + "}";
}

std::string info_metric(std::string_view name, std::string_view help, std::span<const Labels> each) {
  std::string out;
  header(out, name, help, Kind::gauge);
  for (const Labels& labels : each) fmt::format_to(std::back_inserter(out), "{}{} 1.0\n", name, label_text(labels));
  return out;
}

void Registry::write_series(std::string& out, size_t row) const {
  const Row& r = rows_[row];
  const std::string name = exposed_name(r);
  for (size_t l = 0; l < std::max<size_t>(1, r.values.size()); ++l) {
    Labels labels = r.common_labels ? common_ : Labels{};
    if (!r.label.empty()) labels.emplace_back(r.label, r.values.empty() ? "" : r.values[l]);
    const Series& s = at(row, l);
    const double value = s.value.load(std::memory_order_relaxed);
    if (r.kind != Kind::histogram) {
      fmt::format_to(std::back_inserter(out), "{}{} {}\n", name, label_text(labels), number_text(value));
      continue;
    }
    uint64_t count = 0;
    labels.emplace_back("le", "");
    for (size_t i = 0; i <= r.buckets.size(); ++i) {
      count += s.counts[i].load(std::memory_order_relaxed);
      labels.back().second = i < r.buckets.size() ? number_text(r.buckets[i]) : "+Inf";
      fmt::format_to(std::back_inserter(out), "{}_bucket{} {}.0\n", name, label_text(labels), count);
    }
    labels.pop_back();
    fmt::format_to(std::back_inserter(out), "{}_sum{} {}\n{}_count{} {}.0\n", name, label_text(labels), number_text(value), name,
                   label_text(labels), count);
  }
}

std::string Registry::prometheus() const {
  const Registry* const kSelf[] = {this};
  return telemetry::prometheus(kSelf);
}

std::string prometheus(std::span<const Registry* const> registries, const Registry* total) {
  std::string out;
  if (registries.empty()) return out;
  const auto rows = registries[0]->rows_;
  for (size_t i = 0; i < rows.size(); ++i) {
    header(out, exposed_name(rows[i]), rows[i].help, rows[i].kind);
    if (!rows[i].common_labels)
      (total ? total : registries[0])->write_series(out, i);
    else
      for (const Registry* r : registries) r->write_series(out, i);
  }
  return out;
}

}  // namespace isotope::telemetry
