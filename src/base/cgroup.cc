// Documents: Linux Documentation/admin-guide/cgroup-v1, cgroup-v2.rst; proc(5) for mountinfo and cgroup.
#include "base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

namespace isotope::base {
namespace {

std::optional<std::string> read_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line)) return std::nullopt;
  return line;
}

std::optional<int64_t> parse_int(std::string_view s) {
  int64_t v = 0;
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (ec != std::errc() || end == s.data()) return std::nullopt;
  return v;
}

std::optional<int64_t> read_int(const std::string& path) {
  const auto line = read_line(path);
  return line ? parse_int(*line) : std::nullopt;
}

/// Value of `key` in a file of "key value" or "key: value kB" lines.
std::optional<int64_t> read_key(const std::string& path, std::string_view key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string k, v;
    if (words >> k >> v && k == key) return parse_int(v);
  }
  return std::nullopt;
}

std::vector<std::string> split(const std::string& s, char sep) {
  std::vector<std::string> out;
  std::istringstream in(s);
  for (std::string part; std::getline(in, part, sep);) out.push_back(part);
  return out;
}

bool contains(const std::string& list, std::string_view item) {
  for (const std::string& s : split(list, ',')) {
    if (s == item) return true;
  }
  return false;
}

/// The hierarchy that governs `controller` for this process, as directories from its own group up to the mount point.
struct Hierarchy {
  bool v2 = false;
  std::vector<std::string> dirs;
};

struct Mount {
  std::string root, point, type, options;
};

std::vector<Mount> cgroup_mounts(const SystemRoots& roots) {
  std::vector<Mount> out;
  std::ifstream in(roots.proc + "/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const auto f = split(line, ' ');
    const auto dash = std::find(f.begin(), f.end(), "-");
    if (f.size() < 5 || f.end() - dash < 4) continue;
    if (dash[1] == "cgroup" || dash[1] == "cgroup2") out.push_back({f[3], f[4], dash[1], dash[3]});
  }
  return out;
}

/// Path of this process' group as /proc/self/cgroup names it: v2 is the line with an empty controller list.
std::optional<std::string> group_path(const SystemRoots& roots, bool v2, std::string_view controller) {
  std::ifstream in(roots.proc + "/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto a = line.find(':');
    const auto b = a == std::string::npos ? a : line.find(':', a + 1);
    if (b == std::string::npos) continue;
    const std::string controllers = line.substr(a + 1, b - a - 1);
    if (v2 ? controllers.empty() : contains(controllers, controller)) return line.substr(b + 1);
  }
  return std::nullopt;
}

/// Inside a container the path may be the host's while the mount shows only the container's part: then the mount's root is cut off the front, and a
/// path that does not lie below it means the mount point itself.
std::vector<std::string> group_dirs(const SystemRoots& roots, const Mount& m, std::string path) {
  if (m.root != "/") path = path.rfind(m.root, 0) == 0 ? path.substr(m.root.size()) : "";
  std::vector<std::string> dirs;
  while (path.size() > 1 && path.find("..") == std::string::npos) {
    dirs.push_back(roots.root + m.point + (path.front() == '/' ? "" : "/") + path);
    const auto slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
  dirs.push_back(roots.root + m.point);
  return dirs;
}

std::vector<Hierarchy> hierarchies(const SystemRoots& roots, std::string_view controller) {
  std::vector<Hierarchy> out;
  for (const Mount& m : cgroup_mounts(roots)) {
    const bool v2 = m.type == "cgroup2";
    if (!v2 && !contains(m.options, controller)) continue;
    if (const auto path = group_path(roots, v2, controller)) out.push_back({v2, group_dirs(roots, m, *path)});
  }
  return out;
}

std::optional<double> quota_of(const std::string& dir, bool v2) {
  if (v2) {
    const auto line = read_line(dir + "/cpu.max");
    if (!line) return std::nullopt;
    const auto f = split(*line, ' ');
    const auto quota = f.size() == 2 ? parse_int(f[0]) : std::nullopt, period = f.size() == 2 ? parse_int(f[1]) : std::nullopt;
    return quota && period && *quota > 0 && *period > 0 ? std::optional(double(*quota) / double(*period)) : std::nullopt;
  }
  const auto quota = read_int(dir + "/cpu.cfs_quota_us"), period = read_int(dir + "/cpu.cfs_period_us");
  return quota && period && *quota > 0 && *period > 0 ? std::optional(double(*quota) / double(*period)) : std::nullopt;
}

/// v1 writes "no limit" as the largest page-aligned number.
constexpr int64_t kNoLimit = int64_t{1} << 60;

struct MemoryFiles {
  const char *limit, *usage, *inactive;
};
constexpr MemoryFiles kV1{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};
constexpr MemoryFiles kV2{"/memory.max", "/memory.current", "inactive_file"};

/// Calls f(limit, still free) for every group on the way up that has a limit.
template <class F>
void for_memory_limits(const SystemRoots& roots, F f) {
  for (const Hierarchy& h : hierarchies(roots, "memory")) {
    const MemoryFiles& files = h.v2 ? kV2 : kV1;
    for (const std::string& dir : h.dirs) {
      const auto limit = read_int(dir + files.limit);
      if (!limit || *limit < 0 || *limit >= kNoLimit) continue;
      const int64_t used = read_int(dir + files.usage).value_or(0), cache = read_key(dir + "/memory.stat", files.inactive).value_or(0);
      f(*limit, std::max<int64_t>(0, *limit - std::max<int64_t>(0, used - cache)));
    }
  }
}

uint64_t meminfo(const SystemRoots& roots, std::string_view key) {
  const auto kib = read_key(roots.proc + "/meminfo", key);
  return kib && *kib > 0 ? uint64_t(*kib) * 1024 : 0;
}

}  // namespace

std::optional<double> cpu_quota(const SystemRoots& roots) {
  std::optional<double> tightest;
  for (const Hierarchy& h : hierarchies(roots, "cpu")) {
    for (const std::string& dir : h.dirs) {
      const auto q = quota_of(dir, h.v2);
      if (q && (!tightest || *q < *tightest)) tightest = q;
    }
  }
  return tightest;
}

uint64_t available_memory(const SystemRoots& roots) {
  uint64_t free = meminfo(roots, "MemAvailable:");
  if (free == 0) free = meminfo(roots, "MemFree:");
  for_memory_limits(roots, [&](int64_t, int64_t left) { free = free == 0 ? uint64_t(left) : std::min(free, uint64_t(left)); });
  return free;
}

uint64_t total_memory(const SystemRoots& roots) {
  uint64_t total = meminfo(roots, "MemTotal:");
  for_memory_limits(roots, [&](int64_t limit, int64_t) { total = total == 0 ? uint64_t(limit) : std::min(total, uint64_t(limit)); });
  return total;
}

}  // namespace isotope::base
