// The hand-written scanners against the regular expressions they stand for.
#include "text/fast_split.h"

#include <gtest/gtest.h>

#include <random>

#include "text/regex.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

std::vector<std::pair<size_t, size_t>> by_regex(const Regex& regex, std::string_view text) {
  RegexWork work;
  work.begin();
  std::vector<std::pair<size_t, size_t>> out;
  regex.for_each(text, work, [&](Span s) { out.emplace_back(s.begin, s.end); });
  EXPECT_FALSE(work.failed()) << work.error();
  return out;
}

std::vector<std::pair<size_t, size_t>> by_scanner(SplitFunction split, std::string_view text) {
  std::vector<Span> spans;
  split(text, 0, spans);
  std::vector<std::pair<size_t, size_t>> out;
  for (const Span s : spans) out.emplace_back(s.begin, s.end);
  return out;
}

class FastSplit : public testing::TestWithParam<FastPattern> {
 protected:
  void SetUp() override {
    auto made = Regex::compile(GetParam().regex);
    ASSERT_TRUE(made) << made.error().message();
    regex_ = std::move(*made);
  }
  void check(std::string_view text) const { EXPECT_EQ(by_scanner(GetParam().split, text), by_regex(*regex_, text)) << text; }
  std::unique_ptr<Regex> regex_;
};

TEST_P(FastSplit, AgreesOnRandomTexts) {
  constexpr std::string_view kPool[] = {"a",  "B",  "cd", "EF", "Gh", " ",  " ",  "  ", "\n",   "\r", "\r\n", "\t", "\v", "\u00a0", "\u3000", "\u2028", "\x1c", "'s", "'S", "'ſ", "'ll", "'LL", "'rE", "'", "''",
                                       "1",  "23", "²",  "Ⅷ",  "٣",  ".",  ",",  "/",  "//",   "!?", "$",    "_",  "é",  "É",      "ß",      "ǅ",      "ʰ",    "ª",  "中", "〇", "々",  "ひ",  "한",  "ж", "\u0301",
                                       "ก",  "ำ",  "\u200d", "\u200b", "😀", "\U00031350", "\U0001e6c0", "\u0897", "⼀", "€", "א", "\u05b0", "क", "ि", "\U00011f5a"};
  std::mt19937 random(7);
  for (int i = 0; i < 4000; i++) {
    std::string text;
    for (size_t n = 1 + random() % 14; n > 0; n--) text += kPool[random() % std::size(kPool)];
    check(text);
  }
}

/// Every code point in a few neighbourhoods, many to a text.
TEST_P(FastSplit, AgreesOnEveryCodePoint) {
  std::string text;
  for (char32_t c = 0; c < 0x110000; c += c < 0x3100 || (c >= 0xA000 && c < 0x20000) ? 1 : 97) {
    if (c >= 0xD800 && c < 0xE000) continue;
    for (const std::string_view before : {"a", " ", "\n", "1", ".", "A"}) {
      text += before;
      append_char(text, c);
      text += before == "A" ? "'s" : "b";
    }
    if (text.size() > 4000) check(text), text.clear();
  }
  check(text);
}

INSTANTIATE_TEST_SUITE_P(All, FastSplit, testing::ValuesIn(fast_patterns().begin(), fast_patterns().end()), [](const auto& i) {
  std::string name(i.param.name);
  std::erase(name, '.');
  return name;
});

TEST(FastSplit, LongRunsStayLinear) {
  for (const FastPattern& p : fast_patterns()) {
    for (const std::string_view unit : {"a", " ", "A", "1", ".", "\n", "中", "aA", "'s", " .", " \n"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      const auto spans = by_scanner(p.split, text);
      EXPECT_EQ(spans.back().second, text.size()) << p.name;
    }
  }
}

}  // namespace
}  // namespace isotope::text
