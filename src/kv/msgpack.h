// Writing MessagePack: the few kinds of values that KV events need, each in its shortest form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isotope::kv {

class MsgpackWriter {
 public:
  void nil() { byte(0xc0); }
  void uint(uint64_t v);
  void real(double v);  ///< always 64 bits
  void text(std::string_view);
  void array(size_t n) { header(n, 0x90, 16, 0xdc); }
  void map(size_t n) { header(n, 0x80, 16, 0xde); }
  const std::string& bytes() const { return out_; }
  std::string take() { return std::move(out_); }
  void reserve(size_t n) { out_.reserve(n); }

 private:
  void byte(uint8_t b) { out_.push_back(char(b)); }
  void big_endian(uint64_t v, int bytes);
  void header(size_t n, uint8_t small, size_t small_limit, uint8_t code16);
  std::string out_;
};

}  // namespace isotope::kv
