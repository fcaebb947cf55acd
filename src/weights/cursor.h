// Reads little-endian numbers from the head of a file and knows three places: the position, the end of the bytes at hand and the
// end of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace isotope::weights {

/// Every getter returns false when the bytes are not there. Then `starved()` tells whether the file has them (come back with a
/// longer head) or ends first.
class Cursor {
 public:
  Cursor(std::span<const std::byte> head, uint64_t file_size)
      : head_(head), file_size_(file_size < head.size() ? head.size() : file_size) {}

  uint64_t at() const { return at_; }
  uint64_t left_in_file() const { return file_size_ - at_; }
  bool starved() const { return starved_; }

  template <class T>
  [[nodiscard]] bool get(T& v) {
    std::span<const std::byte> b;
    if (!take(sizeof v, b)) return false;
    std::memcpy(&v, b.data(), sizeof v);
    return true;
  }

  [[nodiscard]] bool take(uint64_t n, std::span<const std::byte>& out) {
    if (n > head_.size() - at_) {
      starved_ = n <= left_in_file();
      return false;
    }
    out = head_.subspan(size_t(at_), size_t(n));
    at_ += n;
    return true;
  }

  /// A u64 length and that many bytes.
  [[nodiscard]] bool text(std::string_view& out) {
    uint64_t n;
    std::span<const std::byte> b;
    if (!get(n) || !take(n, b)) return false;
    out = {reinterpret_cast<const char*>(b.data()), b.size()};
    return true;
  }

  std::span<const std::byte> since(uint64_t begin) const { return head_.subspan(size_t(begin), size_t(at_ - begin)); }

 private:
  std::span<const std::byte> head_;
  uint64_t file_size_, at_ = 0;
  bool starved_ = false;
};

}  // namespace isotope::weights
