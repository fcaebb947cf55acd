// Limits that a container puts on this process: CPU quota and memory, cgroup v1 and v2 (and both at once).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace isotope::base {

/// Where the kernel's files are looked up; tests point it at a literal tree.
struct SystemRoots {
  std::string proc = "/proc";
  std::string root;  ///< put before every absolute path that a kernel file names (mount points); "" on a real machine
};

/// CPUs that the tightest quota of this process' control groups allows (3.5), or nothing if there is no quota. Files: cpu.max (v2), cpu.cfs_quota_us (v1).
std::optional<double> cpu_quota(const SystemRoots& roots = {});

/// Bytes this process may still take before the machine or one of its control groups is full. Page cache that can be dropped counts as free.
/// 0 if nothing could be read.
uint64_t available_memory(const SystemRoots& roots = {});

/// Total memory this process may ever have: the machine's, or the tightest control group limit.
uint64_t total_memory(const SystemRoots& roots = {});

}  // namespace isotope::base
