#include "base/fault_guard.h"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <thread>

#include "base/mapped_file.h"

namespace isotope::base {
namespace {

const size_t kPage = size_t(::sysconf(_SC_PAGESIZE));

/// A mapped file of eight pages of ones that was then cut to two and a half.
class Cut : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "fault_guard_test_" + std::to_string(::getpid());
    std::ofstream(path_, std::ios::binary) << std::string(8 * kPage, '\1');
    file_.emplace(*File::open(path_));
    map_.emplace(*MappedFile::map(*file_));
    std::filesystem::resize_file(path_, 2 * kPage + kPage / 2);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::span<const std::byte> bytes() const { return map_->bytes(); }
  static size_t ones(std::span<const std::byte> b) {
    return std::accumulate(b.begin(), b.end(), size_t{0}, [](size_t n, std::byte v) { return n + size_t(v); });
  }

  std::string path_;
  std::optional<File> file_;
  std::optional<MappedFile> map_;
};
using CutDeathTest = Cut;

struct sigaction current() {
  struct sigaction a {};
  ::sigaction(SIGBUS, nullptr, &a);
  return a;
}

TEST_F(Cut, ReadsZerosAndTells) {
  const auto before = current().sa_sigaction;
  {
    const FaultGuard guard(bytes());
    EXPECT_EQ(ones(bytes().first(2 * kPage)), 2 * kPage);
    EXPECT_FALSE(guard.faulted());
    EXPECT_EQ(ones(bytes()), 2 * kPage + kPage / 2);
    EXPECT_TRUE(guard.faulted());
    EXPECT_NE(current().sa_sigaction, before);
  }
  EXPECT_EQ(current().sa_sigaction, before);
}

TEST_F(Cut, OnlyTheGuardWhoseBytesFailedIsMarked) {
  auto first = std::make_unique<FaultGuard>(bytes().first(3 * kPage));
  const FaultGuard second(bytes().subspan(4 * kPage + 100, 2 * kPage));
  EXPECT_EQ(ones(bytes().subspan(5 * kPage, 10)), 0u);
  EXPECT_TRUE(second.faulted());
  EXPECT_FALSE(first->faulted());
  first.reset();  // in any order
  EXPECT_EQ(ones(bytes().subspan(6 * kPage, 10)), 0u);
}

TEST_F(Cut, EachThreadForItself) {
  const FaultGuard outside(bytes());
  std::thread([&] {
    const FaultGuard guard(bytes().subspan(3 * kPage, kPage));
    EXPECT_EQ(ones(bytes().subspan(3 * kPage, kPage)), 0u);
    EXPECT_TRUE(guard.faulted());
  }).join();
  EXPECT_FALSE(outside.faulted());
}

TEST_F(CutDeathTest, UnguardedReadsEndTheProcessAsBefore) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        const FaultGuard guard(bytes().first(kPage));
        EXPECT_EQ(ones(bytes()), 0u);
      },
      "");
}

sigjmp_buf g_back;
void jump_back(int) { siglongjmp(g_back, 1); }

TEST_F(Cut, OtherFaultsGoToTheHandlerThatWasThere) {
  struct sigaction mine {}, before {};
  mine.sa_handler = jump_back;
  ::sigaction(SIGBUS, &mine, &before);
  volatile bool jumped = false;
  {
    const FaultGuard guard(bytes().first(kPage));
    if (sigsetjmp(g_back, 1) == 0) {
      EXPECT_EQ(ones(bytes()), 0u);  // not reached
    } else {
      jumped = true;
    }
  }
  EXPECT_TRUE(jumped);
  EXPECT_EQ(current().sa_handler, &jump_back);
  ::sigaction(SIGBUS, &before, nullptr);
}

TEST(FaultGuard, NothingToGuardIsFine) {
  const FaultGuard guard(std::span<const std::byte>{});
  EXPECT_FALSE(guard.faulted());
}

}  // namespace
}  // namespace isotope::base
