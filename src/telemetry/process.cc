#include "telemetry/process.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "telemetry/metrics.h"

namespace isotope::telemetry {
namespace {

// Places in /proc/self/stat (proc(5)), counted from the one after the name: a name may hold blanks and parentheses.
constexpr size_t kUserTicks = 11, kSystemTicks = 12, kStartTicks = 19, kVirtualBytes = 20, kResidentPages = 21;

std::vector<double> stat_fields() {
  std::ifstream in("/proc/self/stat");
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  const size_t name_end = all.rfind(')');
  std::vector<double> out;
  if (name_end == std::string::npos) return out;
  std::istringstream rest(all.substr(name_end + 2));
  for (std::string field; rest >> field;) out.push_back(std::strtod(field.c_str(), nullptr));  // the first is a letter: 0
  return out;
}

/// Seconds since 1970 at which the machine started.
std::optional<double> boot_time() {
  std::ifstream in("/proc/stat");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("btime ")) return std::strtod(line.c_str() + 6, nullptr);
  return std::nullopt;
}

}  // namespace

std::string process_metrics() {
  std::string out;
  const auto add = [&](std::string_view name, std::string_view type, std::string_view help, double value) {
    fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n{} {}\n", name, help, name, type, name, number_text(value));
  };
  const double tick = double(sysconf(_SC_CLK_TCK));
  if (const std::vector<double> s = stat_fields(); s.size() > kResidentPages) {
    add("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.", (s[kUserTicks] + s[kSystemTicks]) / tick);
    add("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", s[kVirtualBytes]);
    add("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", s[kResidentPages] * double(sysconf(_SC_PAGESIZE)));
    if (const auto boot = boot_time()) add("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.", *boot + s[kStartTicks] / tick);
  }
  std::error_code bad;
  const auto open = std::filesystem::directory_iterator("/proc/self/fd", bad);
  if (!bad) add("process_open_fds", "gauge", "Number of open file descriptors.", double(std::distance(begin(open), end(open)) - 1));  // one is the walk's own
  if (rlimit limit{}; getrlimit(RLIMIT_NOFILE, &limit) == 0) add("process_max_fds", "gauge", "Maximum number of open file descriptors.", double(limit.rlim_cur));
  return out;
}

}  // namespace isotope::telemetry
