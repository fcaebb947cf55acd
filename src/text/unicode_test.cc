#include "text/unicode.h"

#include <gtest/gtest.h>

namespace isotope::text {
namespace {

TEST(Utf8, RepairsOneCharacterPerMaximalPart) {
  struct Case { std::string_view in, repaired, lossy; };
  const Case cases[] = {
      {"", "", ""}, {"aé中😀", "aé中😀", "aé中😀"},
      {"\x80", "\uFFFD", "\uFFFD"}, {"\xE4\xBD", "\uFFFD", "\uFFFD"}, {"\xE4\xBDz", "\uFFFDz", "\uFFFDz"}, {"\xF0\x9F\x98", "\uFFFD", "\uFFFD"},
      {"\xC0\xAF", "\uFFFD\uFFFD", "\uFFFD\uFFFD"}, {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD", "\uFFFD\uFFFD\uFFFD"},
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD", "\uFFFD\uFFFD\uFFFD\uFFFD"}, {"\xFF\xFE", "\uFFFD\uFFFD", "\uFFFD\uFFFD"},
      {"a\xED\xA0\x80z", "a\uFFFDz", "a\uFFFD\uFFFD\uFFFDz"},            // a lone surrogate
      {"\xED\xA0\xBD\xED\xB8\x80", "\uFFFD\uFFFD", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"}, {"\xED\x9F\xBF", "\xED\x9F\xBF", "\xED\x9F\xBF"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(repair_utf8(c.in), c.repaired);
    EXPECT_EQ(lossy_utf8(c.in), c.lossy);
  }
}

TEST(Utf8, ReadsBackWhatItWrites) {
  for (char32_t c = 0; c < 0x110000; c++) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string s;
    append_char(s, c);
    ASSERT_TRUE(valid_utf8(s)) << uint32_t(c);
    const char* p = s.data();
    ASSERT_EQ(next_char(p), c);
    ASSERT_EQ(p, s.data() + s.size());
    ASSERT_EQ(char_length(s[0]), s.size());
  }
}

TEST(CharTable, SpotChecks) {
  const CharTable& t = CharTable::get();
  EXPECT_TRUE(t[U'a'] & props::kLetter);
  EXPECT_TRUE(t[U'中'] & props::kHan);
  EXPECT_TRUE(t[0x0301] & props::kMark);
  EXPECT_TRUE(t[0x3000] & props::kWhite);
  EXPECT_FALSE(t[0x200B] & props::kWhite);
  EXPECT_TRUE(t[0x31350] & props::kLetter);   // Unicode 15
  EXPECT_TRUE(t[0xB2] & props::kNumeric);
  EXPECT_TRUE(t[U'$'] & props::kPunct);
  EXPECT_EQ(t[0x10FFFF] & ((uint64_t{1} << 30) - 1), props::gc(Gc::Cn));
}

TEST(Normalize, HangulEndsBeforeTheTrailingConsonants) {
  EXPECT_EQ(normalize("\u1102\u1161\u11a7", NormalForm::nfc), "\ub098\u11a7");
  EXPECT_EQ(normalize("\u1102\u1161\u11a8", NormalForm::nfc), "\ub099");
}

}  // namespace
}  // namespace isotope::text
