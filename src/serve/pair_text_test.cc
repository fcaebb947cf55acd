// Templates for pairs as tokenizer.json spells them, and what a pair becomes when it is too long.
#include "serve/pair_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isotope::serve {
namespace {

using testing::ElementsAre;

Result<PairTemplate> read(const std::string& processor) {
  VocabSource v;
  if (!processor.empty()) v.tokenizer_json = "{\"post_processor\": " + processor + "}";
  return PairTemplate::read(v, {{1}, {2}});
}

struct Case {
  const char* processor;
  std::vector<int32_t> tokens;
  int64_t second;
};

TEST(PairText, TemplatesOfTheFamilies) {
  const Case cases[] = {
      {R"({"type": "TemplateProcessing", "single": [], "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
          {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
          "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [101], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [102], "tokens": ["[SEP]"]}}})",
       {101, 7, 8, 102, 9, 102}, 4},
      {R"({"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]})", {101, 7, 8, 102, 9, 102}, 4},
      {R"({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]})", {0, 7, 8, 2, 2, 9, 2}, -1},
      {R"({"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}]})", {0, 7, 8, 2, 2, 9, 2}, -1},
      {"null", {1, 7, 8, 2, 9, 2}, 4},
      {"", {1, 7, 8, 2, 9, 2}, 4},
  };
  for (const Case& c : cases) {
    const auto t = read(c.processor);
    ASSERT_TRUE(t) << t.error().message();
    const PoolInput in = t->join({7, 8}, {9});
    EXPECT_EQ(in.tokens, c.tokens) << c.processor;
    EXPECT_EQ(in.second, c.second) << c.processor;
    EXPECT_EQ(t->added(), c.tokens.size() - 3) << c.processor;
  }
}

TEST(PairText, RefusesWhatItCannotRead) {
  for (const char* bad : {R"({"type": "BertProcessing", "sep": 5, "cls": ["[CLS]", 101]})", R"({"type": "BertProcessing", "sep": ["[SEP]", -1], "cls": ["[CLS]", 101]})",
                          R"({"type": "TemplateProcessing", "pair": [{"Sequence": {"id": "C"}}]})", R"({"type": "TemplateProcessing", "pair": [5]})",
                          R"({"type": "TemplateProcessing", "pair": [{"Sequence": {"id": "A"}}]})",
                          R"({"type": "TemplateProcessing", "pair": [{"SpecialToken": {"id": "x"}}, {"Sequence": {"id": "A"}}, {"Sequence": {"id": "B"}}]})"}) {
    EXPECT_FALSE(read(bad)) << bad;
  }
}

// Lengths as `tokenizers` 0.22 leaves them with "longest_first".
TEST(PairText, TheLongerTextIsCutFirst) {
  struct Lengths {
    size_t n1, n2, most, want1, want2;
  };
  for (const Lengths& l : {Lengths{3, 4, 10, 3, 4}, {3, 10, 8, 3, 5}, {10, 3, 8, 5, 3}, {10, 10, 9, 4, 5}, {20, 10, 9, 5, 4}, {5, 5, 0, 0, 0}, {1, 1, 1, 0, 1}, {0, 9, 4, 0, 4}}) {
    size_t a = l.n1, b = l.n2;
    fit_pair(a, b, l.most);
    EXPECT_THAT((std::vector<size_t>{a, b}), ElementsAre(l.want1, l.want2)) << l.n1 << " " << l.n2 << " " << l.most;
  }
}

}  // namespace
}  // namespace isotope::serve
