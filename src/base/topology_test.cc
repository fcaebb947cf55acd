#include "base/topology.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace isotope::base {
namespace {

namespace fs = std::filesystem;

/// A literal tree of kernel files under a directory of its own.
class Tree {
 public:
  explicit Tree(std::initializer_list<std::pair<const char*, const char*>> files) {
    static int serial = 0;
    dir_ = fs::path(testing::TempDir()) / ("isotope_roots_" + std::to_string(::getpid()) + "_" + std::to_string(serial++));
    for (const auto& [name, text] : files) {
      fs::create_directories((dir_ / name).parent_path());
      std::ofstream(dir_ / name) << text;
    }
  }
  ~Tree() { fs::remove_all(dir_); }
  SystemRoots roots() const { return {.proc = (dir_ / "proc").string(), .root = dir_.string()}; }

 private:
  fs::path dir_;
};

constexpr const char* kMountV2 = "24 30 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kMountV1 =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n";

TEST(Cgroup, QuotaOfVersion2) {
  Tree t{{"proc/self/mountinfo", kMountV2}, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "350000 100000\n"}};
  EXPECT_EQ(cpu_quota(t.roots()), 3.5);
}

TEST(Cgroup, TightestAncestorCounts) {
  Tree t{{"proc/self/mountinfo", kMountV2},
         {"proc/self/cgroup", "0::/kube/pod1/c1\n"},
         {"sys/fs/cgroup/kube/cpu.max", "800000 100000\n"},
         {"sys/fs/cgroup/kube/pod1/cpu.max", "150000 100000\n"},
         {"sys/fs/cgroup/kube/pod1/c1/cpu.max", "max 100000\n"}};
  EXPECT_EQ(cpu_quota(t.roots()), 1.5);
}

TEST(Cgroup, NoLimit) {
  Tree t{{"proc/self/mountinfo", kMountV2}, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "max 100000\n"}};
  EXPECT_EQ(cpu_quota(t.roots()), std::nullopt);
}

TEST(Cgroup, QuotaOfVersion1WithAHostPathInsideAContainer) {
  Tree t{{"proc/self/mountinfo", "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"},
         {"proc/self/cgroup", "4:cpu:/docker/abc\n"},
         {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n"},
         {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(cpu_quota(t.roots()), 2.5);
}

TEST(Cgroup, UnlimitedVersion1) {
  Tree t{{"proc/self/mountinfo", kMountV1},
         {"proc/self/cgroup", "4:memory:/\n2:cpu,cpuacct:/\n"},
         {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
         {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}};
  EXPECT_EQ(cpu_quota(t.roots()), std::nullopt);
}

TEST(Cgroup, NonsenseIsIgnored) {
  for (const char* text : {"", "\n", "abc def\n", "100000\n", "-5 100000\n", "100000 0\n", "99999999999999999999 1\n"}) {
    Tree t{{"proc/self/mountinfo", kMountV2}, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", text}};
    EXPECT_EQ(cpu_quota(t.roots()), std::nullopt) << text;
  }
  Tree empty{{"proc/self/mountinfo", "x y\n- - -\n"}, {"proc/self/cgroup", "::\n:\n"}};
  EXPECT_EQ(cpu_quota(empty.roots()), std::nullopt);
  EXPECT_EQ(available_memory(empty.roots()), 0u);
}

TEST(Cgroup, MemoryOfTheMachine) {
  Tree t{{"proc/meminfo", "MemTotal:       24000 kB\nMemFree: 10 kB\nMemAvailable:   20000 kB\n"}};
  EXPECT_EQ(available_memory(t.roots()), 20000u * 1024);
  EXPECT_EQ(total_memory(t.roots()), 24000u * 1024);
}

TEST(Cgroup, MemoryLimitOfVersion2CountsDroppableCacheAsFree) {
  Tree t{{"proc/meminfo", "MemTotal: 24000 kB\nMemAvailable: 20000 kB\n"},
         {"proc/self/mountinfo", kMountV2},
         {"proc/self/cgroup", "0::/a\n"},
         {"sys/fs/cgroup/a/memory.max", "8192000\n"},
         {"sys/fs/cgroup/a/memory.current", "6000000\n"},
         {"sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 1000000\nactive_file 7\n"}};
  EXPECT_EQ(available_memory(t.roots()), 3192000u);
  EXPECT_EQ(total_memory(t.roots()), 8192000u);
}

TEST(Cgroup, MemoryLimitOfVersion1) {
  Tree t{{"proc/meminfo", "MemTotal: 24000 kB\nMemAvailable: 20000 kB\n"},
         {"proc/self/mountinfo", kMountV1},
         {"proc/self/cgroup", "4:memory:/job/1\n2:cpu,cpuacct:/\n"},
         {"sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4096000\n"},
         {"sys/fs/cgroup/memory/job/memory.usage_in_bytes", "5000000\n"},
         {"sys/fs/cgroup/memory/job/1/memory.limit_in_bytes", "9223372036854771712\n"}};
  EXPECT_EQ(available_memory(t.roots()), 0u);  // over its limit already
  EXPECT_EQ(total_memory(t.roots()), 4096000u);
}

TEST(Topology, SmtSiblingsCountOnce) {
  const Topology t = detect_topology({.roots = {.proc = "/nonexistent"}, .synthetic = "NUMANode:2 L3:1 Core:4 PU:2"});
  EXPECT_EQ(t.cores.size(), 8u);
  EXPECT_EQ(t.logical_cpus, 16);
  EXPECT_EQ(t.default_threads(), 8);
  ASSERT_EQ(t.nodes.size(), 2u);
  EXPECT_EQ(t.nodes[1].cores, (std::vector<int>{4, 5, 6, 7}));
  ASSERT_FALSE(t.caches.empty());
  EXPECT_EQ(t.caches.back().level, 3);
  EXPECT_EQ(t.caches.back().count, 2);
  EXPECT_EQ(t.caches.back().cores_sharing, 4);
}

TEST(Topology, ThreadsAreTheWholeCpusOfTheQuota) {
  const struct {
    const char* quota;
    int threads;
  } cases[] = {{"350000 100000", 3}, {"max 100000", 8}, {"40000 100000", 1}, {"1600000 100000", 8}, {"100000 100000", 1}};
  for (const auto& c : cases) {
    Tree t{{"proc/self/mountinfo", kMountV2}, {"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", c.quota}};
    EXPECT_EQ(detect_topology({.roots = t.roots(), .synthetic = "Core:8 PU:2"}).default_threads(), c.threads) << c.quota;
  }
}

TEST(Topology, ThisMachine) {
  const Topology& t = machine();
  EXPECT_GE(t.cores.size(), 1u);
  EXPECT_LE(int(t.cores.size()), t.logical_cpus);
  EXPECT_GE(t.default_threads(), 1);
  EXPECT_GT(available_memory(), 0u);
  EXPECT_LE(available_memory(), total_memory());
}

TEST(Topology, BindingToAMissingCpuIsRefusedNotFatal) {
  EXPECT_FALSE(bind_thread(-1));
  EXPECT_FALSE(bind_thread(1 << 20));
}

}  // namespace
}  // namespace isotope::base
