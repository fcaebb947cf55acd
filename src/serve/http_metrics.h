// Counts of what went over the wire, for /metrics. Names as prometheus-fastapi-instrumentator gives them, which dashboards for vLLM use,
// and `isotope:` for the rest.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace isotope::serve {

class HttpMetrics {
 public:
  /// `route` is a path of the route table, never a client's own text: the number of series stays bounded.
  void request(std::string_view method, std::string_view route, int status, double seconds);
  void call_started() { running_.fetch_add(1, std::memory_order_relaxed); }
  void call_refused() { running_.fetch_sub(1, std::memory_order_relaxed); }
  /// `choices` and `max_tokens` as asked for.
  void call_ended(bool abandoned, int choices, int64_t max_tokens);
  int64_t running() const { return running_.load(std::memory_order_relaxed); }
  std::string prometheus(std::string_view model) const;

 private:
  static constexpr std::array<double, 12> kSeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60};
  static constexpr std::array<double, 5> kChoices = {1, 2, 5, 10, 20};
  static constexpr std::array<double, 13> kTokens = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000};
  template <size_t N>
  struct Histogram {
    std::array<uint64_t, N + 1> counts{};
    double sum = 0;
    uint64_t count = 0;
    void observe(const std::array<double, N>& bounds, double v);
  };
  struct Route {
    std::map<int, uint64_t> by_status;
    Histogram<12> seconds;
  };
  template <size_t N>
  static void write(std::string& out, std::string_view name, std::string_view labels, const std::array<double, N>& bounds, const Histogram<N>& h);

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Route> routes_;
  Histogram<5> choices_;
  Histogram<13> max_tokens_;
  uint64_t abandoned_ = 0;
  std::atomic<int64_t> running_{0};
};

}  // namespace isotope::serve
