// When a refused client should come again.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace isotope::sched {

/// How many requests start in a second, over about the last half minute.
class StartRate {
 public:
  void start(int64_t now_ns) {
    rate_ = per_s(now_ns) + 1 / kMemoryS;
    at_ns_ = now_ns;
  }
  double per_s(int64_t now_ns) const { return rate_ * std::exp(-double(std::max<int64_t>(0, now_ns - at_ns_)) * 1e-9 / kMemoryS); }

 private:
  static constexpr double kMemoryS = 30;
  double rate_ = 0;
  int64_t at_ns_ = 0;
};

/// Seconds until the `waiting` requests have started at that rate: 1 to 60. Without a rate nobody knows; then a few seconds.
inline int retry_after_s(int64_t waiting, double starts_per_s) {
  if (waiting <= 0) return 1;
  if (!(starts_per_s > 0)) return 5;
  return int(std::clamp(std::ceil(double(waiting) / starts_per_s), 1.0, 60.0));
}

}  // namespace isotope::sched
