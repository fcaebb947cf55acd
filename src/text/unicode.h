// UTF-8 and what the published tokenizers take each code point for. The tables are measured (see unicode_data.inc), not one Unicode version.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isotope::text {

/// General categories in the order of the tables.
enum class Gc : uint8_t {
  Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po, Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Co, Cn, Cs
};

namespace props {
constexpr uint64_t gc(Gc g) { return uint64_t{1} << unsigned(g); }
// The low 30 bits of a property word hold the general category, one bit each, so that a class is a mask.
constexpr uint64_t kUpperish = gc(Gc::Lu) | gc(Gc::Lt);
constexpr uint64_t kLetter = gc(Gc::Lu) | gc(Gc::Ll) | gc(Gc::Lt) | gc(Gc::Lm) | gc(Gc::Lo);
constexpr uint64_t kMark = gc(Gc::Mn) | gc(Gc::Mc) | gc(Gc::Me);
constexpr uint64_t kNumber = gc(Gc::Nd) | gc(Gc::Nl) | gc(Gc::No);
constexpr uint64_t kWhite = uint64_t{1} << 32;       ///< White_Space: \s of Oniguruma and Rust
constexpr uint64_t kNumeric = uint64_t{1} << 33;     ///< Rust's char::is_numeric
constexpr uint64_t kPunct = uint64_t{1} << 34;       ///< what BertPreTokenizer and Punctuation split at
constexpr uint64_t kWord = uint64_t{1} << 35;        ///< \w of Rust's regex
constexpr uint64_t kAccent = uint64_t{1} << 36;      ///< what StripAccents removes
constexpr uint64_t kNonspacing = uint64_t{1} << 37;  ///< what BertNormalizer's strip_accents removes
constexpr uint64_t kControl = uint64_t{1} << 38;     ///< what BertNormalizer's clean_text removes
constexpr uint64_t kCjk = uint64_t{1} << 39;         ///< what BertNormalizer sets apart with spaces
constexpr uint64_t kInert = uint64_t{1} << 40;       ///< the normal forms leave it alone
constexpr uint64_t kHan = uint64_t{1} << 41;         ///< script Han
constexpr uint64_t kNewline = uint64_t{1} << 42;     ///< \r or \n
}  // namespace props

/// Property words of all code points, as a two-stage table that is built on first use (a few milliseconds).
class CharTable {
 public:
  static const CharTable& get();
  uint64_t operator[](char32_t c) const { return words_[size_t(index_[c >> 8]) << 8 | (c & 255)]; }
  const uint64_t* ascii() const { return words_.data() + (size_t(index_[0]) << 8); }

 private:
  CharTable();
  std::array<uint16_t, 0x1100> index_{};
  std::vector<uint64_t> words_;
};

/// Reads one code point of valid UTF-8 and moves `p` past it.
inline char32_t next_char(const char*& p) {
  const auto b = [&](int i) { return char32_t(uint8_t(p[i])); };
  const char32_t c = b(0);
  if (c < 0x80) return p += 1, c;
  if (c < 0xE0) return p += 2, (c & 0x1F) << 6 | (char32_t(uint8_t(p[-1])) & 0x3F);
  if (c < 0xF0) return p += 3, (c & 0x0F) << 12 | (char32_t(uint8_t(p[-2])) & 0x3F) << 6 | (char32_t(uint8_t(p[-1])) & 0x3F);
  return p += 4, (c & 0x07) << 18 | (char32_t(uint8_t(p[-3])) & 0x3F) << 12 | (char32_t(uint8_t(p[-2])) & 0x3F) << 6 | (char32_t(uint8_t(p[-1])) & 0x3F);
}
/// Start of the code point before `p` in valid UTF-8.
inline const char* previous_char(const char* p) {
  do --p;
  while ((uint8_t(*p) & 0xC0) == 0x80);
  return p;
}
/// Bytes of the character that starts with this byte (valid UTF-8).
inline size_t char_length(char lead) { return uint8_t(lead) < 0x80 ? 1 : uint8_t(lead) < 0xE0 ? 2 : uint8_t(lead) < 0xF0 ? 3 : 4; }
size_t count_chars(std::string_view text);
void append_char(std::string& out, char32_t c);

/// What the bytes at the start of `s` are: a whole character, the beginning of one, or a maximal invalid part (Unicode 16, table 3-8).
struct Utf8Part {
  enum Kind { whole, incomplete, invalid } kind;
  size_t length;
};
Utf8Part utf8_part(std::string_view s);
bool valid_utf8(std::string_view s);
/// One U+FFFD per maximal invalid part; three bytes that spell a surrogate count as one part, so that a lone "\ud800" becomes one U+FFFD.
std::string repair_utf8(std::string_view s);
/// As Python's and Rust's lossy decoding: one U+FFFD per maximal invalid part (a surrogate's three bytes are three parts).
std::string lossy_utf8(std::string_view s);
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Lowercase as Rust's char::to_lowercase (only U+0130 gives two characters).
void append_lower(std::string& out, char32_t c);

enum class NormalForm { nfd, nfc, nfkd, nfkc };
/// The normal form of valid UTF-8 as the published library computes it.
std::string normalize(std::string_view text, NormalForm form);
/// Byte offsets at which extended grapheme clusters end.
std::vector<size_t> grapheme_ends(std::string_view text);

/// What the UnicodeScripts pre-tokenizer keeps together; 0 joins anything.
uint8_t script_class(char32_t c);

/// Names of properties that regular expressions may use, and the characters PCRE2 does not count to them yet.
struct CharRange { char32_t first, last; };
std::span<const CharRange> newer_members(std::string_view property);
std::span<const std::string_view> script_names();
std::span<const std::string_view> binary_property_names();

}  // namespace isotope::text
