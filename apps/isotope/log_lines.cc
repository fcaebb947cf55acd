#include "log_lines.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

namespace isotope::app {
namespace {

using base::LogLevel;

// A progress bar may stand on the terminal's line.
void warn(LogLevel, std::string_view line) {
  static const bool terminal = ::isatty(STDERR_FILENO) != 0;
  std::fprintf(stderr, "%sisotope: %.*s\n", terminal ? "\r\x1b[K" : "", int(line.size()), line.data());
}

void tell(LogLevel, std::string_view line) { std::fprintf(stderr, "%.*s\n", int(line.size()), line.data()); }

}  // namespace

LogLevel level_of(const std::string& name) {
  static const std::map<std::string, LogLevel> kLevels = {
      {"trace", LogLevel::debug}, {"debug", LogLevel::debug}, {"warn", LogLevel::warning}, {"error", LogLevel::error}};
  const auto it = kLevels.find(name);
  return it != kLevels.end() ? it->second : LogLevel::info;
}

void show_log(const levers::Levers& levers, bool verbose) {
  const std::string& asked = levers.program().log_level;
  if (verbose) return base::set_log_sink(tell, std::min(LogLevel::info, level_of(asked)));
  base::set_log_sink(asked == "off" ? base::LogSink() : warn, std::max(LogLevel::warning, level_of(asked)));
}

}  // namespace isotope::app
