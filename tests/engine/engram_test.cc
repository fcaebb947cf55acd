// N-gram tables through the whole engine: neither setting of the group changes a token, each changes what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "family.h"
#include "support/bytes.h"

namespace isotope::engine::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class EngramLevers : public FamilyTest {};

TEST_P(EngramLevers, HowRowsAreReadChangesNoToken) {
  const Answers want = alone(eight());
  for (const char* in_place : {"1", "0"}) {
    SCOPED_TRACE(in_place);
    const auto e = open({}, {{"ATOM_ENGRAM_UVA", in_place}});
    ASSERT_TRUE(e);
    expect_all(run(*e, eight()), want, in_place);
    const std::string m = e->metrics();
    const bool staged = *in_place == '0';
    const auto rows = [&](const char* path) { return "isotope:engram_rows_total{model_name=\"deepseek_v41\",engine=\"0\",path=\"" + std::string(path) + "\"} 0.0"; };
    EXPECT_THAT(m, HasSubstr(rows(staged ? "in_place" : "staged")));
    EXPECT_THAT(m, Not(HasSubstr(rows(staged ? "staged" : "in_place"))));
    EXPECT_EQ(e->info().fingerprint, open()->info().fingerprint) << "a setting that changes no bit";
  }
}

TEST_P(EngramLevers, TheMapOfTokensIsKeptWhereTheSettingSays) {
  const isotope::test::TempDir dir;
  const std::string folder = dir.file("kept");
  const std::map<std::string, std::string> settings = {{"ATOM_ENGRAM_CACHE_DIR", folder}};
  const auto vocab = [&](const Engine& e, const char* source) {
    return e.metrics().find("isotope:engram_vocab_total{model_name=\"deepseek_v41\",engine=\"0\",source=\"" + std::string(source) + "\"} 1.0") != std::string::npos;
  };
  const auto first = open({}, settings);
  ASSERT_TRUE(first);
  const Answer want = run_one(*first, request(0, prompt(40, 1)));
  EXPECT_TRUE(vocab(*first, "built"));
  int files = 0;
  for (const auto& f : std::filesystem::directory_iterator(folder)) files += f.path().extension() == ".engram";
  EXPECT_EQ(files, 1);
  const auto second = open({}, settings);
  ASSERT_TRUE(second);
  expect_same(run_one(*second, request(0, prompt(40, 1))), want, "with the kept map");
  EXPECT_TRUE(vocab(*second, "kept"));
}

/// Nobody reads the vocabulary: the model is refused with the reason, not run with wrong rows.
TEST_P(EngramLevers, WithoutTokenTextsTheModelIsRefused) {
  EngineOptions o;
  o.model = golden_folder(GetParam());
  const auto e = Engine::open(o, levers::Levers::defaults());
  ASSERT_FALSE(e);
  EXPECT_THAT(e.error().message(), HasSubstr("what tokens say"));
}

INSTANTIATE_TEST_SUITE_P(Models, EngramLevers, testing::Values("deepseek_v41"), [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace isotope::engine::test
