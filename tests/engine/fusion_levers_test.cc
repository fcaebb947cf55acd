// The fusion settings on published models through the whole engine: each switches what it says (the names of the ops that ran), and no token or
// log-probability changes a bit; the one setting whose purpose is other rounding changes the fingerprint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "collector.h"
#include "isotope/profile.h"
#include "levers/levers.h"
#include "support/models.h"

namespace isotope::engine::test {
namespace {

using testing::HasSubstr;
using Set = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kNorm = "ATOM_LLAMA_ENABLE_AITER_TRITON_FUSED_RMSNORM_QUANT";
constexpr const char* kAct = "ATOM_LLAMA_ENABLE_AITER_TRITON_FUSED_SILU_MUL_QUANT";
constexpr const char* kQk = "ATOM_ENABLE_QK_NORM_ROPE_CACHE_QUANT_FUSION";
constexpr const char* kMost = "ATOM_QK_NORM_ROPE_CACHE_FUSION_MAX_TOKENS";
constexpr const char* kSensitive = "ATOM_USE_MODEL_SENSITIVE_RMSNORM";

struct Outcome {
  Answer answer;
  std::set<std::string> ops;
  std::string fingerprint;
  bool ran(std::string_view part) const {
    return std::any_of(ops.begin(), ops.end(), [&](const std::string& name) { return name.find(part) != std::string::npos; });
  }
};

constexpr int64_t kPromptTokens = 40;

Outcome run_with(const std::string& path, const Set& set) {
  const auto levers = levers::Levers::resolve({.set = set});
  if (!levers) return ADD_FAILURE() << levers.error().message(), Outcome{};
  EngineOptions o;
  o.model = path;
  o.kv_bytes = 128 << 20;
  o.threads = 2;
  o.profile = std::make_shared<StepProfile>();
  auto e = Engine::open(o, *levers);
  if (!e) return ADD_FAILURE() << e.error().message(), Outcome{};
  Request r;
  r.id = 1;
  for (int32_t i = 0; i < kPromptTokens; ++i) r.prompt.push_back(300 + i * 7919 % 40000);
  r.sampling = {.temperature = 0.7f, .seed = 3, .max_tokens = 8, .ignore_eos = true, .logprobs = 2, .prompt_logprobs = 1};
  Outcome out{.answer = run_one(**e, std::move(r)), .ops = {}, .fingerprint = (*e)->info().fingerprint};
  for (const OpTime& op : o.profile->take().ops) out.ops.insert(op.name);
  return out;
}

class FusionLevers : public testing::Test {
 protected:
  std::string model(const char* name) { return isotope::test::cached_model(name); }
};

TEST_F(FusionLevers, NormAndQuantize) {
  const std::string path = model("smollm2-135m");
  if (path.empty()) GTEST_SKIP() << "the model has not been fetched";
  const Outcome on = run_with(path, {}), off = run_with(path, {{kNorm, "0"}}), act_off = run_with(path, {{kAct, "0"}}), both_off = run_with(path, {{kNorm, "0"}, {kAct, "0"}});
  for (const Outcome* o : {&off, &act_off, &both_off}) {
    expect_same(o->answer, on.answer, "other settings");
    EXPECT_EQ(o->fingerprint, on.fingerprint) << "no bit depends on it";
  }
  EXPECT_TRUE(on.ran("add+norm+linear Q4_1"));
  EXPECT_TRUE(on.ran("add+norm+linear+activation+quantize Q4_1"));
  EXPECT_TRUE(on.ran("quantized+linear"));
  EXPECT_TRUE(on.ran("rope+cache write"));
  EXPECT_FALSE(on.ran("rms_norm"));
  EXPECT_TRUE(off.ran("add + rms_norm"));
  EXPECT_FALSE(off.ran("norm+linear"));
  EXPECT_TRUE(off.ran("linear+activation+quantize"));
  EXPECT_TRUE(act_off.ran("add+norm+linear+activation Q4_1"));
  EXPECT_FALSE(act_off.ran("quantize"));
  EXPECT_TRUE(both_off.ran("linear + activation Q4_1"));
  EXPECT_FALSE(both_off.ran("quantize"));
}

TEST_F(FusionLevers, HeadNormsRotationAndCacheWrite) {
  const std::string path = model("gemma3-270m");
  if (path.empty()) GTEST_SKIP() << "the model has not been fetched";
  const Outcome off = run_with(path, {}), on = run_with(path, {{kQk, "1"}});
  // The bound is one token short of the prompt's step: that one runs the ops one by one, the steps of one token do not.
  const Outcome bound = run_with(path, {{kQk, "1"}, {kMost, std::to_string(kPromptTokens - 1)}});
  for (const Outcome* o : {&on, &bound}) {
    expect_same(o->answer, off.answer, "other settings");
    EXPECT_EQ(o->fingerprint, off.fingerprint);
  }
  EXPECT_TRUE(off.ran("head_norm"));
  EXPECT_FALSE(off.ran("cache write"));
  EXPECT_TRUE(on.ran("qk_norm+rope+cache write"));
  EXPECT_FALSE(on.ran("head_norm"));
  EXPECT_TRUE(bound.ran("qk_norm+rope+cache write"));
  EXPECT_TRUE(bound.ran("head_norm"));
  EXPECT_TRUE(on.ran("norm+add+norm+linear")) << "a norm before and after the add";
}

TEST_F(FusionLevers, ModelSensitiveNormsAreAnotherNumericPath) {
  const std::string path = model("smollm2-135m");
  if (path.empty()) GTEST_SKIP() << "the model has not been fetched";
  const Outcome plain = run_with(path, {}), rounded = run_with(path, {{kSensitive, "1"}}), composed = run_with(path, {{kSensitive, "1"}, {kNorm, "0"}});
  EXPECT_NE(rounded.fingerprint, plain.fingerprint);
  EXPECT_FALSE(same(rounded.answer.prompt.back(), plain.answer.prompt.back()));
  expect_same(composed.answer, rounded.answer, "joined and not");
  const double moved = std::abs(double(rounded.answer.prompt.back()[0].logprob) - double(plain.answer.prompt.back()[0].logprob));
  EXPECT_LT(moved, 0.5) << "rounding moves a log-probability a little";
}

}  // namespace
}  // namespace isotope::engine::test
