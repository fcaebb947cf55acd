// Log lines go to a sink that the host program installs; without one they are dropped, so the library itself never prints.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace isotope::base {

enum class LogLevel { debug, info, warning, error };

/// Called from any thread, one call at a time.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Installs the sink and the lowest level that reaches it; a null sink drops everything. Thread-safe.
void set_log_sink(LogSink, LogLevel lowest = LogLevel::info);
bool log_enabled(LogLevel) noexcept;
/// Hands one line (without line end) to the sink. An exception of the sink is swallowed: logging never disturbs a request.
void log_line(LogLevel, std::string_view) noexcept;

template <class... A>
void log(LogLevel level, fmt::format_string<A...> f, A&&... a) {
  if (log_enabled(level)) log_line(level, fmt::format(f, std::forward<A>(a)...));
}

}  // namespace isotope::base
