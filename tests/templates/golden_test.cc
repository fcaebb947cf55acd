#include "goldens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isotope::templates {
namespace {

const std::string kDir = std::string(ISOTOPE_SOURCE_DIR) + "/tests/templates";

TEST(TemplateGoldens, PublishedStylesRenderAsTheReferenceDoes) {
  const Report r = compare_templates(kDir + "/golden", kDir + "/templates");
  EXPECT_GT(r.renders, 2000);
  EXPECT_GT(r.errors, 200);
  EXPECT_THAT(r.differences, testing::IsEmpty());
}

TEST(TemplateGoldens, ExpressionsEvaluateAsInPython) {
  for (const char* file : {"expressions.json", "odd.json", "random.json"}) {
    const Report r = compare_expressions(kDir + "/golden/" + file, kDir + "/golden/cases.json");
    EXPECT_GT(r.renders, 100) << file;
    EXPECT_THAT(r.differences, testing::IsEmpty()) << file;
  }
}

}  // namespace
}  // namespace isotope::templates
