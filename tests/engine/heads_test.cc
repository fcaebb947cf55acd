// Multi-token-prediction heads that are kept, or not: the same answers, another KV cache, and a line in the log.
#include <gmock/gmock.h>

#include "base/log.h"
#include "family.h"

namespace isotope::engine::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Heads : public FamilyTest {};

TEST_P(Heads, ChangeNoAnswerAndTakeTheirPartOfTheCache) {
  std::string log;
  base::set_log_sink([&](base::LogLevel, std::string_view line) { (log += line) += "\n"; });
  const auto with = open();
  EXPECT_THAT(log, HasSubstr("1 multi-token-prediction head is kept"));
  log.clear();
  const auto without = open({.keep_mtp = false});
  base::set_log_sink({});
  EXPECT_THAT(log, testing::AllOf(HasSubstr("tensors of multi-token-prediction heads are left out, as --no-mtp says"), Not(HasSubstr("head is kept"))));
  ASSERT_TRUE(with && without);
  EXPECT_GT(with->info().kv_bytes_per_token, without->info().kv_bytes_per_token);
  EXPECT_EQ(with->info().layers, without->info().layers);
  EXPECT_EQ(with->info().fingerprint, without->info().fingerprint);
  const Answers want = alone(eight());
  expect_all(alone(eight(), {.keep_mtp = false}), want, "alone, without heads");
  expect_all(run(*with, eight()), want, "together");
  expect_all(run(*without, eight()), want, "together, without heads");
}
INSTANTIATE_TEST_SUITE_P(Families, Heads, testing::Values("glm4_moe", "qwen3_next", "deepseek_v4"), [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace isotope::engine::test
