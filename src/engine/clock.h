// Times of requests: seconds on the steady clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace isotope::engine {

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
inline double seconds_between(int64_t from_ns, int64_t to_ns) {
  return double(to_ns - from_ns) * 1e-9;
}

}  // namespace isotope::engine
