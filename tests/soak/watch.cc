#include "watch.h"

#include <unistd.h>

#include <fstream>

namespace isotope::test {

int64_t resident_bytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::vector<MemoryWatch::Sample> MemoryWatch::second_half() const {
  std::vector<Sample> out;
  for (const Sample& s : samples_)
    if (s.at >= samples_.back().at / 2) out.push_back(s);
  return out;
}

double MemoryWatch::slope() const {
  const auto s = second_half();
  double t = 0, b = 0, tt = 0, tb = 0;
  for (const auto& [at, bytes] : s) t += at, b += bytes, tt += at * at, tb += at * bytes;
  const double n = double(s.size()), spread = n * tt - t * t;
  return s.size() < 2 || spread <= 0 ? 0 : (n * tb - t * b) / spread;
}

double MemoryWatch::growth() const {
  const auto s = second_half();
  return s.empty() ? 0 : s.back().bytes - s.front().bytes;
}

}  // namespace isotope::test
