#include "base/log.h"

#include <atomic>
#include <mutex>

namespace isotope::base {

namespace {
constexpr int kOff = 100;
std::atomic<int> lowest_level{kOff};
std::mutex sink_mutex;
LogSink& sink() {
  static LogSink s;
  return s;
}
}  // namespace

void set_log_sink(LogSink s, LogLevel lowest) {
  const std::lock_guard lock(sink_mutex);
  lowest_level = s ? int(lowest) : kOff;
  sink() = std::move(s);
}

bool log_enabled(LogLevel level) noexcept {
  return int(level) >= lowest_level.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view text) noexcept {
  try {
    const std::lock_guard lock(sink_mutex);
    if (sink()) sink()(level, text);
  } catch (...) {
  }
}

}  // namespace isotope::base
