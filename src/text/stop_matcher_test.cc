#include <gtest/gtest.h>

#include <random>

#include "text/detokenizer.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

struct Outcome {
  std::string text;
  std::string matched;
  bool operator==(const Outcome&) const = default;
};

Outcome stream(const std::vector<std::string>& stops, std::span<const std::string> pieces, bool include) {
  StopMatcher m(stops, include);
  Outcome out;
  for (const std::string& p : pieces) {
    const std::string sent = m.add(p);
    EXPECT_TRUE(valid_utf8(sent));
    out.text += sent;
  }
  if (!m.stopped()) out.text += m.finish();
  if (m.matched()) out.matched = *m.matched();
  EXPECT_EQ(m.add("more"), m.stopped() ? "" : "more");
  return out;
}

TEST(StopMatcher, HoldsOnlyWhatMayBecomeAStop) {
  StopMatcher m({"DEFGHIJ"});
  EXPECT_EQ(m.add("alphabet: ABC"), "alphabet: ABC");
  EXPECT_EQ(m.add("DEF"), "");
  EXPECT_EQ(m.add("GX"), "DEFGX");
  EXPECT_EQ(m.add("zDE"), "z");
  EXPECT_EQ(m.add("FGHIJK"), "");
  EXPECT_TRUE(m.stopped());
  EXPECT_EQ(*m.matched(), "DEFGHIJ");
}

TEST(StopMatcher, Cases) {
  EXPECT_EQ(stream({}, std::vector<std::string>{"a", "b"}, false), (Outcome{"ab", ""}));
  EXPECT_EQ(stream({"", ""}, std::vector<std::string>{"a", "b"}, false), (Outcome{"ab", ""}));
  EXPECT_EQ(stream({"b"}, std::vector<std::string>{"abc"}, true), (Outcome{"ab", "b"}));
  EXPECT_EQ(stream({"abcd", "bc"}, std::vector<std::string>{"abcd"}, false), (Outcome{"a", "bc"}));   // complete first
  EXPECT_EQ(stream({"bc", "abc"}, std::vector<std::string>{"xabc"}, false), (Outcome{"x", "abc"}));   // both end together
  EXPECT_EQ(stream({"aab"}, std::vector<std::string>{"a", "a", "a", "b", "c"}, false), (Outcome{"a", "aab"}));
  EXPECT_EQ(stream({"é"}, std::vector<std::string>{"è", "è", "é"}, false), (Outcome{"èè", "é"}));
}

/// The result does not depend on how the text is cut into pieces.
TEST(StopMatcher, StreamedIsTheSameAsWhole) {
  constexpr std::string_view kLetters[] = {"a", "b", "é", "è", "\n", "😀"};
  std::mt19937 random(3);
  const auto word = [&](size_t most) {
    std::string s;
    for (size_t n = random() % (most + 1); n > 0; n--) s += kLetters[random() % std::size(kLetters)];
    return s;
  };
  for (int i = 0; i < 20000; i++) {
    std::vector<std::string> stops;
    for (size_t n = random() % 4; n > 0; n--) stops.push_back(word(4));
    const std::string text = word(14);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      size_t end = at;
      do end += char_length(text[end]);
      while (end < text.size() && random() % 2);
      pieces.push_back(text.substr(at, end - at));
      at = end;
    }
    const bool include = random() % 2;
    ASSERT_EQ(stream(stops, pieces, include), stream(stops, std::vector<std::string>{text}, include)) << text;
  }
}

}  // namespace
}  // namespace isotope::text
