// Builds binary content piece by piece, little-endian; for tests that need files of every kind, broken ones included.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace isotope::test {

class Bytes {
 public:
  template <class T>
  Bytes& put(T v) {
    char b[sizeof v];
    std::memcpy(b, &v, sizeof v);
    data_.append(b, sizeof v);
    return *this;
  }
  Bytes& raw(std::string_view s) {
    data_.append(s);
    return *this;
  }
  Bytes& text(std::string_view s) { return put<uint64_t>(s.size()).raw(s); }  ///< GGUF's string: length and bytes
  Bytes& pad_to(size_t multiple) {
    data_.resize((data_.size() + multiple - 1) / multiple * multiple, '\0');
    return *this;
  }
  size_t size() const { return data_.size(); }
  const std::string& str() const { return data_; }

 private:
  std::string data_;
};

/// A directory for one test, removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "isotope_test_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ec;
    std::filesystem::remove_all(path_, ec);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  /// Writes a file into it and returns its path.
  std::string write(std::string_view name, std::string_view content) const {
    std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
    std::ofstream(file(name), std::ios::binary | std::ios::trunc).write(content.data(), std::streamsize(content.size()));
    return file(name);
  }

 private:
  std::string path_;
};

}  // namespace isotope::test
