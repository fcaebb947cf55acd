#include "text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isotope::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  if (!regex) return {"refused: " + regex.error().what};
  RegexWork work;
  work.begin();
  std::vector<std::string> out;
  (*regex)->for_each(text, work, [&](Span s) { out.emplace_back(text.substr(s.begin, s.end - s.begin)); });
  if (work.failed()) out.push_back("failed: " + work.error());
  return out;
}

// What Oniguruma's Ruby syntax means and PCRE2's syntax does not.
TEST(Regex, ReadsRubySyntax) {
  EXPECT_THAT(matches("a{2}?", "aaa"), ElementsAre("aa", ""));              // a fixed interval is optional, not lazy
  EXPECT_THAT(matches("a{1,2}+b", "aaaab"), ElementsAre("aaaab"));          // '+' repeats the interval
  EXPECT_THAT(matches("a{,2}", "aaa"), ElementsAre("aa", "a"));
  EXPECT_THAT(matches("^b$", "a\nb\nc"), ElementsAre("b"));                 // lines, always
  EXPECT_THAT(matches("(?m)a.c", "a\nc"), ElementsAre("a\nc"));             // (?m) is "dot matches newline"
  EXPECT_THAT(matches("a(?i)b|c", "aB aC c"), ElementsAre("aB", "aC"));     // the option reaches over alternatives
  EXPECT_THAT(matches("\\h+", "xyz12af"), ElementsAre("12af"));             // hexadecimal digits
  EXPECT_THAT(matches("[a-z&&[^aeiou]]+", "hello"), ElementsAre("h", "ll"));
  EXPECT_THAT(matches("[[a-c]x]+", "abxy"), ElementsAre("abx"));
  EXPECT_THAT(matches("\\s+", "a\u180e\u3000b"), ElementsAre("\u3000"));    // U+180E is no white space
  EXPECT_THAT(matches("\\p{^L}\\P{N}", "1a2"), ElementsAre("1a"));
}

TEST(Regex, KnowsCharactersThatPcreDoesNot) {
  EXPECT_THAT(matches("\\p{Han}", "\U00031350"), ElementsAre("\U00031350"));
  EXPECT_THAT(matches("[^\\p{L}]", "\U00031350"), ElementsAre());
  EXPECT_THAT(matches("\\P{Lo}", "\U00031350"), ElementsAre());
  EXPECT_THAT(matches("\\p{Cn}", "\U00031350"), ElementsAre());
}

TEST(Regex, RefusesWhatItCannotRunExactly) {
  for (const std::string_view pattern : {"(?<n>a)\\k<n>", "\\G", "\\X", "(?~a)", "(?i)ss", "(?i:ß)", "a{2,1}", "[", "(", ")", "*a", "a|*", "\\p{Klingon}", "[a-\\d]", "[z-a]", "\\", "(?u:a)", "[[:foo:]]", "\\xZZ", "[a", "(?#"}) {
    const auto regex = Regex::compile(pattern);
    EXPECT_FALSE(regex) << pattern;
    if (!regex) EXPECT_THAT(regex.error().message(), HasSubstr(std::string(pattern)));
  }
  EXPECT_FALSE(Regex::compile(std::string(100'000, 'a')));
  std::string deep;
  for (int i = 0; i < 5000; i++) deep += '(';
  EXPECT_FALSE(Regex::compile(deep));
  EXPECT_FALSE(Regex::compile(std::string(5000, '[')));
  EXPECT_FALSE(Regex::compile("\xff"));
}

TEST(Regex, StopsRunawayBacktracking) {
  EXPECT_THAT(matches("(a+)+$", std::string(40, 'a') + "b"), testing::Contains(HasSubstr("failed: ")));
  EXPECT_THAT(matches("(a|aa)+$", std::string(2000, 'a') + "b"), testing::Contains(HasSubstr("failed: ")));
}

TEST(Regex, PassesOverEmptyMatchesBehindAMatch) {
  EXPECT_THAT(matches("x*", "axxb"), ElementsAre("", "xx", ""));
  EXPECT_THAT(matches("", "é"), ElementsAre("", ""));
}

}  // namespace
}  // namespace isotope::text
