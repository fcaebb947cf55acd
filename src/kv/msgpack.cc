#include "kv/msgpack.h"

#include <bit>

namespace isotope::kv {

void MsgpackWriter::big_endian(uint64_t v, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) byte(uint8_t(v >> (8 * i)));
}

void MsgpackWriter::uint(uint64_t v) {
  if (v < 0x80) return byte(uint8_t(v));
  const int log = v <= 0xff ? 0 : v <= 0xffff ? 1 : v <= 0xffffffff ? 2 : 3;
  byte(uint8_t(0xcc + log));
  big_endian(v, 1 << log);
}

void MsgpackWriter::real(double v) {
  byte(0xcb);
  big_endian(std::bit_cast<uint64_t>(v), 8);
}

void MsgpackWriter::text(std::string_view s) {
  if (s.size() < 32) {
    byte(uint8_t(0xa0 | s.size()));
  } else if (s.size() <= 0xff) {
    byte(0xd9);
    big_endian(s.size(), 1);
  } else {
    byte(s.size() <= 0xffff ? 0xda : 0xdb);
    big_endian(s.size(), s.size() <= 0xffff ? 2 : 4);
  }
  out_.append(s);
}

void MsgpackWriter::header(size_t n, uint8_t small, size_t small_limit, uint8_t code16) {
  if (n < small_limit) return byte(uint8_t(small | n));
  byte(n <= 0xffff ? code16 : uint8_t(code16 + 1));
  big_endian(n, n <= 0xffff ? 2 : 4);
}

}  // namespace isotope::kv
