#include "base/others.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace isotope::base {

double worked_seconds(std::string_view stat, const std::vector<bool>& allowed, double ticks_per_second) {
  std::istringstream lines{std::string(stat)};
  double ticks = 0;
  for (std::string line; std::getline(lines, line);) {
    size_t cpu = 0;
    const char* const digits = line.data() + 3;
    if (!line.starts_with("cpu") || line.size() < 4 || std::from_chars(digits, line.data() + line.size(), cpu).ec != std::errc()) continue;
    if (cpu >= allowed.size() || !allowed[cpu]) continue;
    std::istringstream fields(line);
    std::string name;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0;
    fields >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft;
    ticks += user + nice + system + interrupts + soft;
  }
  return ticks / ticks_per_second;
}

Others::Others() : start_(now()) {}

Others::Times Others::now() {
  Times t;
  t.wall = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  std::vector<bool> allowed(CPU_SETSIZE);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (size_t i = 0; i < allowed.size(); ++i) allowed[i] = CPU_ISSET(i, &set);
  std::ifstream in("/proc/stat");
  t.all = worked_seconds(std::string(std::istreambuf_iterator<char>(in), {}), allowed, double(sysconf(_SC_CLK_TCK)));
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& v) { return double(v.tv_sec) + 1e-6 * double(v.tv_usec); };
  t.own = seconds(use.ru_utime) + seconds(use.ru_stime);
  return t;
}

double Others::cores() const {
  const Times t = now();
  const double wall = t.wall - start_.wall;
  return wall > 0 ? std::max(0.0, ((t.all - start_.all) - (t.own - start_.own)) / wall) : 0;
}

}  // namespace isotope::base
