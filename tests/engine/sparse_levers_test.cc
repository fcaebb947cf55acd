// Settings of sparse attention and of residual streams through the whole engine: each switches what it says, and no token or log-probability changes a bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "family.h"
#include "isotope/profile.h"

namespace isotope::engine::test {
namespace {

using testing::HasSubstr;
using Settings = std::map<std::string, std::string>;

constexpr const char* kPools = "ATOM_GLM5_KPOOL";
constexpr const char* kDense = "ATOM_GLM5_FORCE_DENSE_MLA";
constexpr int64_t kTop = 16;  ///< index_topk of the tiny model

class SparseLevers : public FamilyTest {
 protected:
  static Result<std::unique_ptr<Engine>> open_with(const Settings& settings, EngineOptions o = {}) {
    o.model = golden_folder(GetParam());
    o.kv_bytes = 64 << 20;
    o.threads = 2;
    return Engine::open(o, *levers::Levers::resolve({.environment = settings}));
  }
};
class GlmLevers : public SparseLevers {};

TEST_P(GlmLevers, SingleTokensAndAllKeysAnswerAsPoolsDo) {
  const auto question = [] {
    Request r = request(1, prompt(kTop - 12, 3));
    r.sampling.prompt_logprobs = 1;
    return r;
  };
  struct Outcome {
    Answer answer;
    int64_t bytes_per_token = 0;
    bool chose = false, pooled = false;
  };
  const auto run_with = [&](const Settings& settings) {
    EngineOptions o{.max_model_len = kTop, .profile = std::make_shared<StepProfile>()};
    auto e = open_with(settings, o);
    EXPECT_TRUE(e) << (e ? "" : e.error().message());
    Outcome out;
    if (!e) return out;
    out = {.answer = run_one(**e, question()), .bytes_per_token = (*e)->info().kv_bytes_per_token};
    for (const OpTime& op : o.profile->take().ops) {
      out.chose |= op.name.find("choice of keys") != std::string::npos;
      out.pooled |= op.name.find("compressed keys") != std::string::npos;
    }
    return out;
  };
  const Outcome pools = run_with({}), tokens = run_with({{kPools, "0"}}), dense = run_with({{kDense, "1"}});
  EXPECT_EQ(pools.answer.tokens.size(), 12u);
  expect_same(tokens.answer, pools.answer, "single tokens");
  expect_same(dense.answer, pools.answer, "all keys");
  EXPECT_TRUE(pools.chose && pools.pooled);
  EXPECT_TRUE(tokens.chose && !tokens.pooled);
  EXPECT_TRUE(!dense.chose && !dense.pooled);
  EXPECT_LT(dense.bytes_per_token, tokens.bytes_per_token);
}

TEST_P(GlmLevers, LongerContextsAreRefusedByName) {
  for (const char* name : {kPools, kDense}) {
    const Settings settings = {{name, name == kPools ? "0" : "1"}};
    const auto refused = open_with(settings, {.max_model_len = 512});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr(name));
    auto e = open_with(settings);
    ASSERT_TRUE(e) << e.error().message();
    EXPECT_EQ((*e)->info().max_model_len, kTop);
    for (const auto& [length, tokens] : {std::pair(kTop + 4, int64_t{1}), std::pair(kTop - 4, int64_t{8})}) {
      Request r = request(1, prompt(length, 1));
      r.sampling.max_tokens = int(tokens);
      r.sink = [](const TokenEvent&) {};
      const auto ok = (*e)->submit(std::move(r));
      ASSERT_FALSE(ok);
      EXPECT_THAT(ok.error().message(), HasSubstr(name));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GlmLevers, testing::Values("glm5_next"), [](const auto& info) { return std::string(info.param); });

/// Bands of scores, streams op by op, streams sequence by sequence: other ways to the same numbers.
TEST_P(SparseLevers, OtherWaysGiveTheSameBits) {
  const auto e = open();
  ASSERT_TRUE(e);
  const Answers want = run(*e, eight());
  for (const auto& [name, value] : {std::pair("ATOM_SPARSE_INDEXER_LOGITS_BUDGET_MB", "1"), std::pair("ATOM_SPARSE_INDEXER_LOGITS_BUDGET_MB", "0"),
                                    std::pair("ATOM_GLM5_DISABLE_FUSED_MHC", "1"), std::pair("ATLAS_HC_PERSEQ_DECODE", "1")}) {
    const auto other = open({}, {{name, value}});
    ASSERT_TRUE(other);
    expect_all(run(*other, eight()), want, std::string(name) + "=" + value);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SparseLevers, testing::Values("deepseek_v32", "deepseek_v4", "glm5_next", "hy_v4", "qwen4_exp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace isotope::engine::test
