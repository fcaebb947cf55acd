#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace isotope::base {
namespace {

std::string temp_file(const std::string& content) {
  std::string path = testing::TempDir() + "mapped_file_test_" + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  return path;
}

TEST(File, ReadsByPosition) {
  auto f = File::open(temp_file("0123456789"));
  ASSERT_TRUE(f);
  EXPECT_EQ(f->size(), 10u);
  char b[4];
  ASSERT_TRUE(f->read(3, std::as_writable_bytes(std::span(b))));
  EXPECT_EQ(std::string(b, 4), "3456");
  auto past = f->read(8, std::as_writable_bytes(std::span(b)));
  ASSERT_FALSE(past);
  EXPECT_EQ(past.error().code, Code::data_loss);
}

struct OpenCase {
  const char* path;
  Code code;
  const char* says;
};
TEST(File, RefusesWhatIsNoRegularFile) {
  for (const OpenCase& c :
       {OpenCase{"/no/such/file", Code::not_found, "/no/such/file"}, OpenCase{"/tmp", Code::invalid_argument, "directory"},
        OpenCase{"/dev/null", Code::invalid_argument, "regular"}}) {
    auto f = File::open(c.path);
    ASSERT_FALSE(f) << c.path;
    EXPECT_EQ(f.error().code, c.code);
    EXPECT_NE(f.error().message().find(c.says), std::string::npos) << f.error().message();
    EXPECT_FALSE(f.error().remedy.empty());
  }
  const std::string fifo = testing::TempDir() + "mapped_file_test_fifo_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_FALSE(File::open(fifo));  // and does not hang
  std::filesystem::remove(fifo);
  EXPECT_FALSE(File::open(std::string("a\0b", 3)));
}

TEST(File, TextFilesHaveALimit) {
  const std::string path = temp_file("hello");
  EXPECT_EQ(read_text_file(path, 5).value(), "hello");
  auto r = read_text_file(path, 4);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, Code::invalid_argument);
}

TEST(File, NoticesThatItWasWrittenTo) {
  const std::string path = temp_file("0123456789");
  auto f = File::open(path);
  ASSERT_TRUE(f);
  EXPECT_TRUE(f->check_unchanged());
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::milliseconds(1));
  auto written = f->check_unchanged();
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().what.find("written to"), std::string::npos) << written.error().message();
  std::filesystem::resize_file(path, 4);
  auto cut = f->check_unchanged();
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::data_loss);
  EXPECT_NE(cut.error().what.find("shorter than 10 bytes"), std::string::npos) << cut.error().message();
}

TEST(MappedFile, ReleaseKeepsTheContent) {
  const size_t page = size_t(::sysconf(_SC_PAGESIZE));
  std::string content(page * 8, 'a');
  for (size_t i = 0; i < content.size(); ++i) content[i] = char(i % 251);
  auto f = File::open(temp_file(content));
  ASSERT_TRUE(f);
  auto m = MappedFile::map(*f);
  ASSERT_TRUE(m);
  const auto same = [&] { return std::memcmp(m->bytes().data(), content.data(), content.size()) == 0; };
  EXPECT_TRUE(same());
  m->release(100, page * 4);
  m->release(0, ~uint64_t{0});
  m->release(content.size(), 1);
  m->release(~uint64_t{0}, 10);
  EXPECT_TRUE(same());
  MappedFile moved = std::move(*m);
  EXPECT_EQ(moved.bytes().size(), content.size());
}

TEST(MappedFile, EmptyFileMapsToNothing) {
  auto f = File::open(temp_file(""));
  ASSERT_TRUE(f);
  auto m = MappedFile::map(*f);
  ASSERT_TRUE(m);
  EXPECT_TRUE(m->bytes().empty());
}

}  // namespace
}  // namespace isotope::base
