// Words of SentencePiece-like vocabularies are merged one by one. Merged tokens that hold the border of two words must still come out.
#include <gtest/gtest.h>


#include "text/tokenizer.h"

namespace isotope::text {
namespace {

using Ids = std::vector<int32_t>;

struct Case {
  const char* name;
  const char* vocabulary;  ///< further entries, from id 10 on
  const char* merges;
  const char* text;
  Ids ids;
};

// Spaces become ▁ (5). "ü" and "é" end in the bytes BC and A9.
const Case kCases[] = {
    {"InsideTheWord", R"("a>":12,"a>▁":10)", R"(["a",">"],["a>","▁"])", "a> b>a b", {10, 1, 9, 0, 5, 1}},
    {"AcrossTheBorder", R"(">▁":10,">▁a":11)", R"([">","▁"],[">▁","a"])", "b> a b", {1, 11, 5, 1}},
    {"RunsOfSpaces", R"("▁▁":10,">▁▁":11)", R"(["▁","▁"],[">","▁▁"])", ">  a  b> a", {11, 0, 10, 1, 9, 5, 0}},
    {"BehindACharacterOfTwoBytes", R"("ü▁":10)", R"(["ü","▁"])", "aü b", {0, 10, 1}},
    {"TheOtherBytesStayApart", R"("ü▁":10)", R"(["ü","▁"])", "aé b", {0, 8, 5, 1}},
};

std::unique_ptr<Tokenizer> make(const Case& c) {
  VocabSource source;
  source.tokenizer_json = std::string(R"({"version":"1.0","normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},"added_tokens":[],"model":{"type":"BPE",)"
                                      R"("unk_token":"<unk>","vocab":{"a":0,"b":1,"<unk>":2,"▁a":3,"c":4,"▁":5,"▁b":6,"ü":7,"é":8,">":9,)") +
                          c.vocabulary + "},\"merges\":[" + c.merges + "]}}";
  auto made = Tokenizer::create(source);
  EXPECT_TRUE(made) << made.error().message();
  return made ? std::move(*made) : nullptr;
}

class Cuts : public testing::TestWithParam<Case> {};

TEST_P(Cuts, GiveTheMergesOfTheWholeText) {
  const auto tok = make(GetParam());
  ASSERT_TRUE(tok);
  EXPECT_EQ(tok->encode(GetParam().text, false, true), GetParam().ids);
}

INSTANTIATE_TEST_SUITE_P(All, Cuts, testing::ValuesIn(kCases), [](const auto& i) { return std::string(i.param.name); });

// The unknown token may be any character, so a merge with it keeps everything together.
TEST(CutsUnknown, AMergeWithTheUnknownTokenKeepsTheTextWhole) {
  const auto tok = make({"", R"("<unk>▁":10)", R"(["<unk>","▁"])", "", {}});
  ASSERT_TRUE(tok);
  EXPECT_EQ(tok->encode("a% b", false, true), (Ids{0, 10, 1}));
}

}  // namespace
}  // namespace isotope::text
