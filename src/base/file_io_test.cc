// read_input() and OutputFile on what users name: files, folders, links, pipes, devices.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/input_file.h"
#include "base/output_file.h"

namespace isotope::base {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class FileIo : public testing::Test {
 protected:
  FileIo() {
    std::string name = (fs::temp_directory_path() / "isotope-file-io-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FileIo() override { fs::remove_all(folder_); }
  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  std::string text(const std::string& name) const { return read_input(at(name), 1000, "").value_or("(unreadable)"); }
  size_t entries() const { return size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }
  std::string folder_;
};

TEST_F(FileIo, ReadsFilesPipesAndDevices) {
  ASSERT_TRUE(write_output(at("a"), "hello", "-o"));
  EXPECT_EQ(read_input(at("a"), 5, ""), "hello");
  EXPECT_EQ(read_input("/dev/null", 5, ""), "");
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  std::thread writer([&] {
    const int fd = ::open(at("pipe").c_str(), O_WRONLY);
    EXPECT_EQ(::write(fd, "abc", 3), 3);
    ::close(fd);
  });
  EXPECT_EQ(read_input(at("pipe"), 5, ""), "abc");
  writer.join();
}

TEST_F(FileIo, RefusesWhatIsNoInputAndNamesIt) {
  ASSERT_TRUE(write_output(at("long"), "123456", "-o"));
  const std::pair<std::string, const char*> cases[] = {{folder_, "is a folder"},        {at("none"), "cannot be opened: No such file"},
                                                       {"", "is no path"},              {std::string("a\0b", 3), "is no path"},
                                                       {at("long"), "more than 5 bytes"}, {"/dev/zero", "more than 5 bytes"},
                                                       {at("long") + "/x", "cannot be opened: Not a directory"}};
  for (const auto& [path, words] : cases) {
    const auto r = read_input(path, 5, "--file");
    ASSERT_FALSE(r) << path;
    EXPECT_THAT(r.error().message(), StartsWith("'" + path + "' "));
    EXPECT_THAT(r.error().message(), HasSubstr(words));
    EXPECT_EQ(r.error().source, "--file");
  }
}

TEST_F(FileIo, AFileIsReplacedWholeAndKeepsItsMode) {
  ASSERT_TRUE(write_output(at("a"), "old", "-o"));
  ASSERT_EQ(::chmod(at("a").c_str(), 0640), 0);
  {
    auto file = OutputFile::create(at("a"), "-o");
    ASSERT_TRUE(file);
    file->write("new");
    EXPECT_EQ(text("a"), "old");
  }
  EXPECT_EQ(text("a"), "old") << "without commit() nothing changes";
  ASSERT_TRUE(write_output(at("a"), "new", "-o"));
  EXPECT_EQ(text("a"), "new");
  struct stat st {};
  ::stat(at("a").c_str(), &st);
  EXPECT_EQ(st.st_mode & 07777, 0640u);
  EXPECT_TRUE(OutputFile::check(at("b"), "-o"));
  EXPECT_EQ(entries(), 1u) << "no part is left behind";
}

TEST_F(FileIo, LinksAreFollowed) {
  fs::create_directory(at("sub"));
  fs::create_symlink("sub/real", at("link"));
  for (const char* words : {"first", "second"}) {
    ASSERT_TRUE(write_output(at("link"), words, "-o"));
    EXPECT_TRUE(fs::is_symlink(at("link")));
    EXPECT_EQ(text("sub/real"), words);
  }
  fs::create_symlink("loop", at("loop"));
  EXPECT_FALSE(write_output(at("loop"), "x", "-o"));
  EXPECT_TRUE(fs::is_symlink(at("loop")));
}

TEST_F(FileIo, DevicesAndPipesStayWhatTheyAre) {
  ASSERT_TRUE(write_output("/dev/null", "x", "-o"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const auto full = write_output("/dev/full", "x", "-o");
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message(), StartsWith("'/dev/full' cannot be written: No space left"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  std::thread reader([&] { EXPECT_EQ(text("pipe"), "through"); });
  EXPECT_TRUE(write_output(at("pipe"), "through", "-o"));
  reader.join();
  EXPECT_TRUE(fs::is_fifo(at("pipe")));
}

TEST_F(FileIo, OutputErrorsNameThePath) {
  for (const std::string& path : {folder_, at("none/x"), std::string()}) {
    const auto r = write_output(path, "x", "--output");
    ASSERT_FALSE(r);
    EXPECT_THAT(r.error().message(), StartsWith("'" + path + "' "));
    EXPECT_EQ(r.error().source, "--output");
    EXPECT_EQ(r.error().code, Code::invalid_argument);
    EXPECT_FALSE(OutputFile::check(path, "--output"));
  }
}

}  // namespace
}  // namespace isotope::base
