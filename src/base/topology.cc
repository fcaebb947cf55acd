#include "base/topology.h"

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <thread>

namespace isotope::base {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
struct BitmapDeleter {
  void operator()(hwloc_bitmap_s* b) const { hwloc_bitmap_free(b); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;
using Machine = std::unique_ptr<hwloc_topology, TopologyDeleter>;

Machine load(const TopologySource& source) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Machine m(raw);
  if (!source.synthetic.empty() && hwloc_topology_set_synthetic(raw, source.synthetic.c_str()) != 0) return nullptr;
  return hwloc_topology_load(raw) == 0 ? std::move(m) : nullptr;
}

/// Logical CPUs this process may run on: the cgroup's cpuset (hwloc's own restriction) and the affinity mask (taskset, numactl).
Bitmap allowed_cpus(hwloc_topology_t t, bool real) {
  Bitmap set(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(t)));
  Bitmap mask(hwloc_bitmap_alloc());
  if (real && hwloc_get_cpubind(t, mask.get(), HWLOC_CPUBIND_PROCESS) == 0 && hwloc_bitmap_intersects(set.get(), mask.get())) {
    hwloc_bitmap_and(set.get(), set.get(), mask.get());
  }
  return set;
}

void find_cores(hwloc_topology_t t, hwloc_const_cpuset_t allowed, Topology& out) {
  out.logical_cpus = hwloc_bitmap_weight(allowed);
  const bool has_cores = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) > 0;
  Bitmap usable(hwloc_bitmap_alloc());
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(t, has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU, core));) {
    hwloc_bitmap_and(usable.get(), core->cpuset, allowed);
    if (const int cpu = hwloc_bitmap_first(usable.get()); cpu >= 0) out.cores.push_back(cpu);
  }
}

int cores_inside(const Topology& topology, hwloc_const_cpuset_t set) {
  return int(std::count_if(topology.cores.begin(), topology.cores.end(), [&](int cpu) { return hwloc_bitmap_isset(set, unsigned(cpu)); }));
}

void find_caches(hwloc_topology_t t, Topology& out) {
  constexpr hwloc_obj_type_t kLevels[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE};
  for (int i = 0; i < 4; ++i) {
    CacheLevel level{.level = i + 1};
    for (hwloc_obj_t c = nullptr; (c = hwloc_get_next_obj_by_type(t, kLevels[i], c));) {
      const int inside = cores_inside(out, c->cpuset);
      if (inside == 0) continue;
      ++level.count;
      level.bytes = c->attr->cache.size;
      level.cores_sharing = std::max(level.cores_sharing, inside);
    }
    if (level.count > 0) out.caches.push_back(level);
  }
}

void find_nodes(hwloc_topology_t t, Topology& out) {
  for (hwloc_obj_t n = nullptr; (n = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, n));) {
    NumaNode node{.id = int(n->os_index), .bytes = n->attr->numanode.local_memory};
    for (size_t i = 0; i < out.cores.size(); ++i) {
      if (hwloc_bitmap_isset(n->cpuset, unsigned(out.cores[i]))) node.cores.push_back(int(i));
    }
    if (!node.cores.empty()) out.nodes.push_back(std::move(node));
  }
}

}  // namespace

int Topology::default_threads() const {
  int n = int(cores.size());
  if (quota) n = int(std::min<double>(n, std::floor(*quota)));
  return std::max(n, 1);
}

Topology detect_topology(const TopologySource& source) {
  Topology out;
  out.quota = cpu_quota(source.roots);
  if (const Machine m = load(source)) {
    const Bitmap allowed = allowed_cpus(m.get(), source.synthetic.empty());
    find_cores(m.get(), allowed.get(), out);
    find_caches(m.get(), out);
    find_nodes(m.get(), out);
  }
  if (out.cores.empty()) {  // hwloc could not read the machine: the plain count is all there is to know
    out.logical_cpus = std::max(1, int(std::thread::hardware_concurrency()));
    for (int i = 0; i < out.logical_cpus; ++i) out.cores.push_back(i);
  }
  return out;
}

const Topology& machine() {
  static const Topology topology = detect_topology();
  return topology;
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown";
}

bool bind_thread(int cpu) noexcept {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

}  // namespace isotope::base
