// Counters, gauges and histograms as rows of a table, and their Prometheus text. Writing is one relaxed atomic operation and
// cannot fail; reading at a scrape takes no lock, so a scrape never waits for a step and a step never for a scrape.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isotope::telemetry {

enum class Kind { counter, gauge, histogram };

struct Row {
  std::string_view name;  ///< without "_total", which the writer appends to counters
  Kind kind;
  std::string_view help;
  std::string_view label = {};                    ///< name of the row's own label, or empty
  std::span<const std::string_view> values = {};  ///< all values of that label: one series each
  std::span<const double> buckets = {};           ///< histogram: upper bounds, ascending, without +Inf
  bool common_labels = true;                      ///< carries the registry's labels
};

using Labels = std::vector<std::pair<std::string, std::string>>;

/// One value for each row and label value, addressed by the row's index.
class Registry {
 public:
  Registry(std::span<const Row> rows, Labels common);

  /// Counters never fall: a negative or NaN increment is dropped.
  void add(size_t row, double by = 1, size_t label = 0) noexcept;
  void set(size_t row, double to, size_t label = 0) noexcept;
  void observe(size_t row, double value, size_t label = 0) noexcept;

  double value(size_t row, size_t label = 0) const noexcept;  ///< of a histogram: how many observations
  /// Text exposition format 0.0.4.
  std::string prometheus() const;
  friend std::string prometheus(std::span<const Registry* const>, const Registry* total);
  /// Adds the values of a registry of the same rows, gauges too.
  void absorb(const Registry&) noexcept;

 private:
  struct Series {
    std::atomic<double> value{0};                     ///< histogram: sum of observations
    std::unique_ptr<std::atomic<uint64_t>[]> counts;  ///< histogram: per bucket, the last is +Inf
  };
  const Series& at(size_t row, size_t label) const noexcept { return series_[first_[row] + label]; }
  Series& at(size_t row, size_t label) noexcept { return series_[first_[row] + label]; }
  void write_series(std::string& out, size_t row) const;

  std::span<const Row> rows_;
  Labels common_;
  std::vector<size_t> first_;
  std::unique_ptr<Series[]> series_;
};

/// Several registries of the same rows and different labels as one text: each family once, with the series of all. Rows without the registries' labels
/// would be the same series several times; they are taken from `total`, or from the first registry.
std::string prometheus(std::span<const Registry* const>, const Registry* total = nullptr);
/// `{a="b",c="d"}` with values escaped, or "" without labels.
std::string label_text(const Labels&);
/// A gauge of value 1 whose labels carry the information; one series for each set of labels.
std::string info_metric(std::string_view name, std::string_view help, std::span<const Labels>);
/// Shortest text that reads back as the same number; "+Inf", "-Inf", "NaN" as Prometheus spells them.
std::string number_text(double);

}  // namespace isotope::telemetry
