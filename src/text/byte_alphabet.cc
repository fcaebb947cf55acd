#include "text/byte_alphabet.h"

#include "text/unicode.h"

namespace isotope::text::byte_alphabet {
namespace {

struct Tables {
  std::array<uint16_t, 256> forward{};
  std::array<int16_t, 0x180> back{};
  constexpr Tables() {
    back.fill(-1);
    uint16_t next = 256;
    for (int b = 0; b < 256; b++) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      forward[size_t(b)] = printable ? uint16_t(b) : next++;
      back[forward[size_t(b)]] = int16_t(b);
    }
  }
};
constexpr Tables kTables;

}  // namespace

char32_t of(uint8_t byte) { return kTables.forward[byte]; }
int byte_of(char32_t c) { return c < kTables.back.size() ? kTables.back[c] : -1; }

std::string encode(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char b : bytes) append_char(out, of(uint8_t(b)));
  return out;
}

std::optional<std::string> decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const int b = byte_of(next_char(p));
    if (b < 0) return std::nullopt;
    out += char(b);
  }
  return out;
}

}  // namespace isotope::text::byte_alphabet
