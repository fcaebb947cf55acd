#include "base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace isotope::base {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

std::string reason(int error) { return std::generic_category().message(error); }

struct Fd {
  int fd;
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
};

int open_for_reading(const std::string& path) {
  int fd;
  do fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  while (fd < 0 && errno == EINTR);
  return fd;
}

}  // namespace

Result<std::string> read_input(const std::string& path, uint64_t limit, const std::string& source) {
  const std::string name = "'" + path + "'";
  if (path.empty() || path.find('\0') != std::string::npos) return fail(Code::invalid_argument, name + " is no path", source, "give the path of a file");
  const Fd file{open_for_reading(path)};
  if (file.fd < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    return fail(missing ? Code::not_found : Code::invalid_argument, name + " cannot be opened: " + reason(errno), source,
                missing ? "check the path" : "check the path and that this user may read it");
  }
  struct stat st {};
  if (::fstat(file.fd, &st) == 0 && S_ISDIR(st.st_mode)) return fail(Code::invalid_argument, name + " is a folder, not a file", source, "give a file");
  std::string text;
  for (;;) {
    const size_t old = text.size();
    text.resize(old + kChunk);
    const ssize_t n = ::read(file.fd, text.data() + old, kChunk);
    text.resize(old + (n > 0 ? size_t(n) : 0));
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) return fail(Code::data_loss, name + " cannot be read: " + reason(errno), source, "check the file and the storage device");
    if (text.size() > limit) {
      return fail(Code::invalid_argument, name + " has more than " + std::to_string(limit) + " bytes, the most that is read here", source,
                  "check that it is the file it should be");
    }
  }
}

}  // namespace isotope::base
