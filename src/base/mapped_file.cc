#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace isotope::base {

namespace {

// Linux transfers at most 2 GiB - 4 KiB a call.
constexpr size_t kMaxRead = size_t{1} << 30;

int64_t modified_ns(const struct stat& st) { return int64_t(st.st_mtim.tv_sec) * 1'000'000'000 + st.st_mtim.tv_nsec; }

std::string reason(int error) { return std::generic_category().message(error); }

tl::unexpected<Error> cannot_open(const std::string& path, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  return fail(missing ? Code::not_found : Code::invalid_argument, "cannot open the file: " + reason(error), path,
              missing ? "check the path" : "check the path and that this user may read it");
}

}  // namespace

Result<File> File::open(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    return fail(Code::invalid_argument, "the path contains a NUL byte", path.c_str(), "check the path");
  int fd;
  // Non-blocking, so that a pipe given as a path is refused below instead of hanging here.
  do fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return cannot_open(path, errno);
  File file(path, fd);
  struct stat st;
  if (::fstat(fd, &st) != 0) return cannot_open(path, errno);
  if (!S_ISREG(st.st_mode))
    return fail(Code::invalid_argument, S_ISDIR(st.st_mode) ? "the path leads to a directory, not to a file" : "the path leads to a device or pipe, not to a regular file", path,
                "give a file");
  file.size_ = uint64_t(st.st_size);
  file.modified_ns_ = modified_ns(st);
  return file;
}

File::File(File&& o) noexcept
    : path_(std::move(o.path_)), fd_(std::exchange(o.fd_, -1)), size_(o.size_), modified_ns_(o.modified_ns_) {}
File& File::operator=(File&& o) noexcept {
  std::swap(path_, o.path_), std::swap(fd_, o.fd_), std::swap(size_, o.size_), std::swap(modified_ns_, o.modified_ns_);
  return *this;
}
File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> File::check_unchanged() const {
  struct stat st;
  if (::fstat(fd_, &st) != 0)
    return fail(Code::data_loss, "the file's state cannot be read: " + reason(errno), path_, "check the storage device");
  const bool shorter = uint64_t(st.st_size) < size_;
  if (!shorter && modified_ns(st) == modified_ns_) return {};
  return fail(Code::data_loss,
              shorter ? "the file became shorter than " + std::to_string(size_) + " bytes while it was in use"
                      : std::string("the file was written to while it was in use"),
              path_, "replace model files by renaming a new file over them, never by writing into them; then load again");
}

Result<void> File::read(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), std::min(out.size(), kMaxRead), off_t(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return fail(Code::data_loss, "reading at offset " + std::to_string(offset) + " failed: " + reason(errno), path_,
                  "check the storage device");
    if (n == 0)
      return fail(Code::data_loss,
                  "the file ends at offset " + std::to_string(offset) + ", " + std::to_string(out.size()) + " bytes too early",
                  path_, "download the file again");
    out = out.subspan(size_t(n));
    offset += uint64_t(n);
  }
  return {};
}

Result<std::string> read_text_file(const std::string& path, uint64_t limit) {
  ISO_TRY(const File file, File::open(path));
  if (file.size() > limit)
    return fail(Code::invalid_argument,
                "the file has " + std::to_string(file.size()) + " bytes, at most " + std::to_string(limit) + " are accepted",
                path, "check that it is the file it should be");
  std::string text(size_t(file.size()), '\0');
  ISO_CHECK_OK(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<MappedFile> MappedFile::map(const File& file) {
  if (file.size() == 0) return MappedFile(nullptr, 0);
  void* p = ::mmap(nullptr, size_t(file.size()), PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (p == MAP_FAILED)
    return fail(Code::resource_exhausted, "cannot map " + std::to_string(file.size()) + " bytes: " + reason(errno), file.path(),
                "set ATOM_DISABLE_MMAP=true to read the file instead");
  return MappedFile(static_cast<const std::byte*>(p), size_t(file.size()));
}

MappedFile::MappedFile(MappedFile&& o) noexcept : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
MappedFile& MappedFile::operator=(MappedFile&& o) noexcept {
  std::swap(data_, o.data_), std::swap(size_, o.size_);
  return *this;
}
MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(uint64_t offset, uint64_t n) const noexcept {
  if (offset >= size_) return;
  const uint64_t page = uint64_t(::sysconf(_SC_PAGESIZE)), end = offset + std::min<uint64_t>(n, size_ - offset);
  const uint64_t first = (offset + page - 1) / page * page, last = end / page * page;
  if (first < last) ::madvise(const_cast<std::byte*>(data_) + first, size_t(last - first), MADV_DONTNEED);
}

}  // namespace isotope::base
