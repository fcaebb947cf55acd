// What `isotope tune` stores is found again, by this machine only.
#include "tuned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace isotope::app {
namespace {

namespace fs = std::filesystem;

class Tuned : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  const fs::path folder_ =
      fs::path(testing::TempDir()) / (std::string("isotope_tuned_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Tuned, PathFollowsTheConfigurationFolder) {
  EXPECT_EQ(tuned_path({}), "");
  const std::string home = tuned_path({{"HOME", "/h"}}), xdg = tuned_path({{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/x"}});
  EXPECT_THAT(home, testing::MatchesRegex("/h/.config/isotope/tuned-[0-9a-f]+.toml"));
  EXPECT_EQ(fs::path(xdg).parent_path(), "/x/isotope");
  EXPECT_EQ(fs::path(xdg).filename(), fs::path(home).filename());
}

TEST_F(Tuned, WritesAndReadsBack) {
  const std::string path = tuned_path({{"XDG_CONFIG_HOME", folder_}});
  EXPECT_TRUE(read_tuned(path)->empty()) << "no file, no settings";
  ASSERT_TRUE(write_tuned(path, {{"ISOTOPE_CPU_THREADS", "3"}}, "a comment"));
  const auto back = read_tuned(path);
  ASSERT_TRUE(back);
  EXPECT_THAT(*back, testing::ElementsAre(testing::Pair("ISOTOPE_CPU_THREADS", "3")));
}

TEST_F(Tuned, DamagedAndUnwritablePlacesAreErrors) {
  const std::string path = tuned_path({{"XDG_CONFIG_HOME", folder_}});
  ASSERT_TRUE(write_tuned(path, {}, "a comment"));
  std::ofstream(path) << "ISOTOPE_CPU_THREADS = = 3";
  const auto bad = read_tuned(path);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message(), testing::HasSubstr(path));
  EXPECT_FALSE(write_tuned("", {}, ""));
  EXPECT_FALSE(write_tuned(path + "/below/a/file.toml", {}, ""));
}

}  // namespace
}  // namespace isotope::app
