#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace isotope::base {

struct OutputFile::State {
  std::string path, source;  ///< as the user wrote them
  std::string target, part;  ///< links followed; part is empty when the target is written in place
  int fd = -1;
  int error = 0;

  ~State() {
    if (fd >= 0) ::close(fd);
    if (!part.empty()) ::unlink(part.c_str());
  }
  tl::unexpected<Error> failed(int number) const {
    const bool place = number == ENOENT || number == ENOTDIR || number == EACCES || number == EROFS || number == EPERM;
    return fail(place ? Code::invalid_argument : Code::unavailable, "'" + path + "' cannot be written: " + std::generic_category().message(number), source,
                place ? "choose a folder that exists and that this user may write into" : "check the folder and its free space");
  }
};

namespace {

constexpr int kMostLinks = 40;

/// Follows symbolic links also where the last one points to nothing yet.
std::string followed(std::filesystem::path path) {
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    if (std::filesystem::symlink_status(path, error).type() != std::filesystem::file_type::symlink) break;
    const auto to = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / to;  // an absolute target replaces the folder
  }
  return path.string();
}

/// Whoever redirected standard output or standard error to the file keeps it open: it must stay the same file.
bool is_own_stream(const struct stat& st) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own {};
    if (::fstat(fd, &own) == 0 && own.st_dev == st.st_dev && own.st_ino == st.st_ino) return true;
  }
  return false;
}

int open_new(const std::string& target, std::string& part) {
  for (int i = 0; i < 100; ++i) {
    part = target + ".part-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

}  // namespace

OutputFile::OutputFile(std::unique_ptr<State> s) : s_(std::move(s)) {}
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;
OutputFile::~OutputFile() = default;

Result<OutputFile> OutputFile::create(const std::string& path, const std::string& source) {
  if (path.empty() || path.find('\0') != std::string::npos) return fail(Code::invalid_argument, "'" + path + "' is no path", source, "give the path of a file");
  auto s = std::make_unique<State>();
  s->path = path, s->source = source;
  struct stat st {};
  const bool exists = ::stat(path.c_str(), &st) == 0;
  if (!exists && errno != ENOENT) return s->failed(errno);
  if (exists && S_ISDIR(st.st_mode)) return fail(Code::invalid_argument, "'" + path + "' is a folder", source, "give the path of a file");
  if (exists && (!S_ISREG(st.st_mode) || is_own_stream(st))) {
    s->fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | (S_ISREG(st.st_mode) ? O_APPEND : 0));
    if (s->fd < 0) return s->failed(errno);
    return OutputFile(std::move(s));
  }
  // A file that may not be written is not to be replaced either, though its folder would allow that.
  if (exists && ::access(path.c_str(), W_OK) != 0) return s->failed(errno);
  s->target = followed(path);
  s->fd = open_new(s->target, s->part);
  if (s->fd < 0) {
    const int number = errno;
    s->part.clear();
    return s->failed(number);
  }
  if (exists) (void)::fchmod(s->fd, st.st_mode & 07777);
  return OutputFile(std::move(s));
}

Result<void> OutputFile::check(const std::string& path, const std::string& source) {
  struct stat st {};
  if (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return {};
  ISO_TRY(const OutputFile probe, create(path, source));
  return {};
}

const std::string& OutputFile::path() const { return s_->path; }

bool OutputFile::fine() const { return s_->error == 0; }

void OutputFile::write(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0 && s_->error == 0) {
    const ssize_t n = ::write(s_->fd, at, std::min<size_t>(bytes, size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      s_->error = errno;
      return;
    }
    at += n, bytes -= size_t(n);
  }
}

Result<void> OutputFile::commit() {
  if (::close(std::exchange(s_->fd, -1)) != 0 && s_->error == 0) s_->error = errno;
  if (s_->error == 0 && !s_->part.empty() && ::rename(s_->part.c_str(), s_->target.c_str()) != 0) s_->error = errno;
  if (s_->error != 0) return s_->failed(s_->error);
  s_->part.clear();
  return {};
}

Result<void> write_output(const std::string& path, std::string_view text, const std::string& source) {
  ISO_TRY(OutputFile file, OutputFile::create(path, source));
  file.write(text);
  return file.commit();
}

}  // namespace isotope::base
