#include "telemetry/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <vector>

namespace isotope::telemetry {
namespace {

double value(const std::string& name) {
  const std::string text = "\n" + process_metrics(), key = "\n" + name + " ";
  const size_t at = text.find(key);
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + key.size(), nullptr);
}

TEST(ProcessMetrics, CpuSecondsGrowWithWork) {
  const double before = value("process_cpu_seconds_total");
  ASSERT_GE(before, 0);
  const auto spent = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
  };
  for (const double end = spent() + 0.1; spent() < end;) {}
  EXPECT_GE(value("process_cpu_seconds_total"), before + 0.05);
  EXPECT_NEAR(value("process_cpu_seconds_total"), spent(), 0.05);
}

TEST(ProcessMetrics, MemoryThatIsTouchedIsResident) {
  const double before = value("process_resident_memory_bytes");
  std::vector<char> block(64 << 20, 1);
  EXPECT_GE(value("process_resident_memory_bytes"), before + (48 << 20)) << int(block[1000]);
  EXPECT_GE(value("process_virtual_memory_bytes"), value("process_resident_memory_bytes"));
}

TEST(ProcessMetrics, StartedBeforeNowAndAfterTheMachine) {
  const double start = value("process_start_time_seconds"), now = double(time(nullptr));
  EXPECT_LE(start, now + 1);
  EXPECT_GE(start, now - 3600);
}

TEST(ProcessMetrics, OpenFilesAreCounted) {
  const double before = value("process_open_fds");
  const int fd = open("/dev/null", O_RDONLY);
  EXPECT_EQ(value("process_open_fds"), before + 1);
  close(fd);
  EXPECT_EQ(value("process_open_fds"), before);
  EXPECT_GE(value("process_max_fds"), before);
}

}  // namespace
}  // namespace isotope::telemetry
