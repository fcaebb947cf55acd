// When a refused client should come again.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace isotope::sched {

/// How many requests start in a second while others wait, over about the last half minute of waiting. Time without a queue says nothing of how fast one
/// moves on: neither an idle night nor a second after the start makes the rate small.
class StartRate {
 public:
  /// After each pass: so many requests have started in it, and whether some still wait.
  void pass(int64_t now_ns, int64_t started, bool waiting) {
    if (waiting_) {
      const double dt = double(std::max<int64_t>(0, now_ns - at_ns_)) * 1e-9, fade = std::exp(-dt / kMemoryS);
      starts_ = starts_ * fade + double(started);
      seconds_ = seconds_ * fade + kMemoryS * (1 - fade);
    }
    at_ns_ = now_ns;
    waiting_ = waiting;
  }
  /// 0 = nobody has waited yet, or nobody has started since.
  double per_s() const { return seconds_ > 0 ? starts_ / seconds_ : 0; }

 private:
  static constexpr double kMemoryS = 30;
  double starts_ = 0, seconds_ = 0;
  int64_t at_ns_ = 0;
  bool waiting_ = false;  ///< since at_ns_
};

/// Seconds until the `waiting` requests have started at that rate: 1 to 60. Without a rate nobody knows; then a few seconds.
inline int retry_after_s(int64_t waiting, double starts_per_s) {
  if (waiting <= 0) return 1;
  if (!(starts_per_s > 0)) return 5;
  return int(std::clamp(std::ceil(double(waiting) / starts_per_s), 1.0, 60.0));
}

}  // namespace isotope::sched
