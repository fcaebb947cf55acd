// The machine as this process may use it: physical cores of its cpuset, caches, NUMA nodes, and what its container allows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cgroup.h"

namespace isotope::base {

struct CacheLevel {
  int level = 0;         ///< 1 (data), 2, 3 …
  uint64_t bytes = 0;    ///< of one cache
  int count = 0;         ///< caches of this level that the allowed cores use
  int cores_sharing = 0; ///< physical cores behind one of them
};

struct NumaNode {
  int id = 0;              ///< the operating system's number
  uint64_t bytes = 0;      ///< local memory
  std::vector<int> cores;  ///< indices into Topology::cores
};

struct Topology {
  std::vector<int> cores;  ///< one logical CPU (the operating system's number) of each physical core in the cpuset; best spread first
  int logical_cpus = 0;    ///< logical CPUs of the cpuset (SMT siblings counted)
  std::vector<CacheLevel> caches;
  std::vector<NumaNode> nodes;
  std::optional<double> quota;  ///< CPUs that the container allows, if it limits them

  /// Threads to compute with when nothing else is asked: physical cores, but no more than the whole CPUs of the quota (3.5 gives 3), at least 1.
  int default_threads() const;
};

struct TopologySource {
  SystemRoots roots;
  std::string synthetic;  ///< an hwloc synthetic description ("NUMANode:2 Core:4 PU:2") in place of this machine; for tests
};

Topology detect_topology(const TopologySource& source = {});

/// This machine, detected once.
const Topology& machine();

/// What the system calls the CPU ("AMD EPYC …"), or "unknown".
std::string cpu_name();

/// Binds the calling thread to one logical CPU. False if the system refuses; that is never fatal.
bool bind_thread(int cpu) noexcept;

}  // namespace isotope::base
