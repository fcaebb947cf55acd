// Files opened for reading: by position, or mapped into memory. Move-only owners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "isotope/result.h"

namespace isotope::base {

/// An open regular file. Errors name the path.
class File {
 public:
  static Result<File> open(const std::string& path);
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  ///< when it was opened
  int fd() const { return fd_; }
  /// Fails when the file was written to or cut since open(): what a mapping shows is then no longer one state of it.
  Result<void> check_unchanged() const;
  /// Fills `out` from `offset`; a file that ends earlier is an error.
  Result<void> read(uint64_t offset, std::span<std::byte> out) const;

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  int64_t modified_ns_ = 0;
};

/// The whole content of a small text file. Refuses files above `limit` bytes before allocating.
Result<std::string> read_text_file(const std::string& path, uint64_t limit);

/// A private read-only mapping of a whole file. Pages come in when they are touched.
class MappedFile {
 public:
  static Result<MappedFile> map(const File&);
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Gives the pages that lie wholly inside [offset, offset + n) back to the system; they are read again if touched. Safe against
  /// concurrent readers.
  void release(uint64_t offset, uint64_t n) const noexcept;

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace isotope::base
