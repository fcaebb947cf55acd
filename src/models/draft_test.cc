// Multi-token-prediction heads: which ones a checkpoint has, what becomes of those that are damaged or not wanted, and what they take. What they compute is
// compared with transformers in tests/oracle.
#include "models/draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "base/log.h"
#include "models/direct.h"
#include "models/dummy.h"
#include "models/layer.h"
#include "models/loader.h"
#include "models/planner.h"
#include "support/bytes.h"
#include "weights/online.h"

namespace isotope::models {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using weights::TensorEntry;

std::string golden(const std::string& family) { return ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/" + family; }

/// A checkpoint whose list of tensors a test has changed: false drops an entry.
class Edited final : public weights::Checkpoint {
 public:
  Edited(const std::string& path, const std::function<bool(TensorEntry&)>& edit) : in_(*weights::open_checkpoint(path, {})) {
    for (TensorEntry e : in_->tensors())
      if (edit(e)) tensors_.push_back(e);
  }
  std::string_view container() const override { return in_->container(); }
  const std::vector<TensorEntry>& tensors() const override { return tensors_; }
  const std::vector<std::string>& files() const override { return in_->files(); }
  const weights::Metadata& metadata() const override { return in_->metadata(); }
  const VocabSource& vocab() const override { return in_->vocab(); }
  Result<void> check_unchanged(const TensorEntry& e) const override { return in_->check_unchanged(e); }
  Result<Data> read(const TensorEntry& e) const override { return in_->read(e); }
  const TensorEntry* find(std::string_view name) const override {
    const auto it = std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorEntry& e) { return e.name == name; });
    return it == tensors_.end() ? nullptr : &*it;
  }

 private:
  std::unique_ptr<weights::Checkpoint> in_;
  std::vector<TensorEntry> tensors_;
};

struct Outcome {
  std::unique_ptr<ops::Ops> ops;
  Result<std::unique_ptr<Model>> model = fail(Code::internal, "");
  std::string log;
  const Transformer& transformer() const { return static_cast<const Transformer&>(**model); }
};

Outcome load(const weights::Checkpoint& c, const std::function<void(ModelConfig&)>& change = {}) {
  Outcome out;
  base::set_log_sink([&](base::LogLevel, std::string_view line) { (out.log += line) += "\n"; });
  out.ops = *ops::make_cpu_ops({.threads = 1, .precision = Precision::exact, .pin = false});
  auto config = parse_config(c);
  if (config && change) change(*config);
  out.model = config ? load_model(c, *out.ops, {.num_threads = 1, .prefetch = false}, *config) : tl::unexpected(config.error());
  base::set_log_sink({});
  return out;
}

bool keep_all(TensorEntry&) { return true; }
auto without(std::string part) {
  return [part = std::move(part)](TensorEntry& e) { return e.name.find(part) == e.name.npos; };
}

TEST(DraftHeads, AreFoundWhereConfigurationsOrTensorsSaySo) {
  struct Case {
    const char* family;
    int heads;
    bool experts, slides;
  };
  for (const Case& c : {Case{"deepseek_v3", 2, true, false}, {"deepseek_v32", 1, true, false}, {"glm4_moe", 1, true, false}, {"glm4_moe_lite", 1, true, false},
                        {"glm_moe_dsa", 1, true, false}, {"qwen3_next", 1, true, false}, {"qwen3_5", 1, false, false}, {"qwen3_5_moe", 1, true, false},
                        {"deepseek_v4", 1, true, true}, {"mimo_v2_flash", 2, false, true}, {"step3p5", 1, false, true}, {"kimi_k25", 0, false, false}}) {
    SCOPED_TRACE(c.family);
    const auto files = weights::open_checkpoint(golden(c.family), {});
    ASSERT_TRUE(files) << files.error().message();
    const auto config = parse_config(**files);
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->draft_heads, c.heads);
    ASSERT_EQ(int64_t(config->layer.size()), config->layers + c.heads);
    if (!c.heads) continue;
    EXPECT_EQ(config->layer.back().moe, c.experts);
    EXPECT_EQ(config->layer.back().window > 0, c.slides);
    EXPECT_TRUE(config->layer.back().attends());
  }
}

TEST(DraftHeads, HaveLayersAndCachesOfTheirOwn) {
  const Edited files(golden("deepseek_v3"), keep_all);
  const Outcome with = load(files), without_heads = load(files, [](ModelConfig& c) { c.drop_heads("as the test says"); });
  ASSERT_TRUE(with.model && without_heads.model);
  const auto bytes = [](const Outcome& o) { return o.ops->kv_block_bytes((*o.model)->kv_layers(), 0, 16, KvType::bf16); };
  const auto layers = [](const Outcome& o) { return int64_t((*o.model)->kv_layers().size()); };
  EXPECT_EQ(layers(with), layers(without_heads) + 2);
  EXPECT_EQ(bytes(with) * uint64_t(layers(without_heads)), bytes(without_heads) * uint64_t(layers(with)));
  EXPECT_THAT(with.log, HasSubstr("2 multi-token-prediction heads are kept, "));
  EXPECT_THAT(with.log, HasSubstr("--no-mtp"));
  EXPECT_EQ((*without_heads.model)->draft_heads(), 0);
  EXPECT_THAT(without_heads.log, AllOf(HasSubstr("are left out, as the test says: 'model.layers.2."), Not(HasSubstr("kept"))));
}

TEST(DraftHeads, TablesThatAreTheModelsAreNotHeldTwice) {
  const Edited files(golden("glm4_moe"), keep_all);
  const Outcome same = load(files);
  ASSERT_TRUE(same.model) << same.model.error().message();
  EXPECT_FALSE(same.transformer().drafts[0].embed);
  EXPECT_FALSE(same.transformer().drafts[0].head);
  const Edited others(golden("glm4_moe_lite"), keep_all);
  const Outcome own = load(others);
  ASSERT_TRUE(own.model) << own.model.error().message();
  EXPECT_TRUE(own.transformer().drafts[0].embed);
  EXPECT_TRUE(own.transformer().drafts[0].head);
}

TEST(DraftHeads, AMissingTensorIsNamed) {
  for (const auto& [family, name] : {std::pair("deepseek_v3", "model.layers.3.eh_proj.weight"), {"deepseek_v3", "model.layers.2.self_attn.kv_b_proj.weight"},
                                     {"deepseek_v3", "model.layers.2.mlp.experts.5.up_proj.weight"}, {"glm4_moe", "model.layers.2.shared_head.norm.weight"},
                                     {"qwen3_next", "mtp.pre_fc_norm_hidden.weight"}, {"qwen3_5", "mtp.norm.weight"}, {"deepseek_v4", "mtp.0.h_proj.weight"},
                                     {"deepseek_v4", "mtp.0.hc_head_base"}, {"mimo_v2_flash", "model.mtp.layers.1.pre_mlp_layernorm.weight"},
                                     {"step3p5", "model.layers.4.transformer.shared_head.norm.weight"}}) {
    SCOPED_TRACE(name);
    const Outcome o = load(Edited(golden(family), without(name)));
    ASSERT_FALSE(o.model);
    EXPECT_THAT(o.model.error().message(), AllOf(HasSubstr(name), HasSubstr("missing"), HasSubstr("model.safetensors")));
  }
}

TEST(DraftHeads, AWrongShapeIsNamedWithBoth) {
  struct Case {
    const char *family, *name, *want;
  };
  for (const auto& [family, name, want] :
       {Case{"deepseek_v3", "model.layers.2.eh_proj.weight", "[64, 128]"}, {"glm4_moe", "model.layers.2.enorm.weight", "[64]"},
        {"glm4_moe_lite", "model.layers.2.shared_head.head.weight", "[256, 64]"}, {"qwen3_next", "mtp.fc.weight", "[64, 128]"},
        {"deepseek_v4", "mtp.0.e_proj.weight", "[64, 64]"}}) {
    SCOPED_TRACE(name);
    const Outcome o = load(Edited(golden(family), [n = std::string(name)](TensorEntry& e) {
      if (e.name == n) e.shape[0] /= 2, e.bytes /= 2;
      return true;
    }));
    ASSERT_FALSE(o.model);
    EXPECT_THAT(o.model.error().message(),
                AllOf(HasSubstr(name), HasSubstr("has shape ["), HasSubstr(std::string("asks for ") + want), HasSubstr("model.safetensors")));
  }
}

TEST(DraftHeads, WhatAHeadDoesNotKnowIsUnexpectedAsInAnyLayer) {
  const Outcome o = load(Edited(golden("deepseek_v3"), [](TensorEntry& e) {
    if (e.name == "model.layers.2.shared_head.head.weight") e.name = "model.layers.2.shared_head.other.weight";
    return true;
  }));
  ASSERT_FALSE(o.model);
  EXPECT_THAT(o.model.error().message(), HasSubstr("model.layers.2.shared_head.other.weight"));
}

/// Savers that know no heads drop them and keep the number.
TEST(DraftHeads, FilesWithoutThemLoadAllTheSame) {
  const Outcome none = load(Edited(golden("glm4_moe"), without("model.layers.2.")));
  ASSERT_TRUE(none.model) << none.model.error().message();
  EXPECT_EQ((*none.model)->draft_heads(), 0);
  EXPECT_THAT(none.log, HasSubstr("the configuration announces 1 multi-token-prediction heads, the files hold 0"));
  const Outcome one = load(Edited(golden("deepseek_v3"), without("model.layers.3.")));
  ASSERT_TRUE(one.model) << one.model.error().message();
  EXPECT_EQ((*one.model)->draft_heads(), 1);
  EXPECT_THAT(one.log, HasSubstr("announces 2 multi-token-prediction heads, the files hold 1"));
}

/// Whether a head of MiMo-V2 has sinks is up to its tensors.
TEST(DraftHeads, MayDoWithoutSinks) {
  const Outcome o = load(Edited(golden("mimo_v2_flash"), without("mtp.layers.1.self_attn.attention_sink_bias")));
  ASSERT_TRUE(o.model) << o.model.error().message();
  EXPECT_FALSE(o.transformer().layers[3].sinks.empty());
  EXPECT_TRUE(o.transformer().layers[4].sinks.empty());
}

TEST(DraftHeads, ThoseThatNobodyAnnouncedOrKnowsAreNamed) {
  const auto files = weights::open_checkpoint(golden("deepseek_v3"), {});
  ASSERT_TRUE(files);
  const auto config = parse_config(**files, {{"num_nextn_predict_layers", "0"}});
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->draft_heads, 0);
  const Outcome o = load(**files, [&](ModelConfig& c) { c = *config; });
  ASSERT_TRUE(o.model) << o.model.error().message();
  EXPECT_THAT(o.log, AllOf(HasSubstr("left out, the configuration announces no such heads: 'model.layers.2."), HasSubstr("tensors of multi-token-prediction heads")));
  // A head without the indexer that it needs.
  const Outcome dense = load(Edited(golden("deepseek_v32"), without("layers.2.self_attn.indexer.")));
  ASSERT_TRUE(dense.model) << dense.model.error().message();
  EXPECT_THAT(dense.log, HasSubstr("left out, head 0 has no indexer of its own: 'model.layers.2."));
}

TEST(DraftHeads, WeightsOutOfNothingHaveThem) {
  for (const auto& [family, heads] : {std::pair("deepseek_v3", 2), {"glm_moe_dsa", 1}, {"qwen3_5_moe", 1}, {"deepseek_v4", 1}, {"step3p5", 1}}) {
    SCOPED_TRACE(family);
    const test::TempDir dir;
    std::filesystem::copy_file(golden(family) + "/config.json", dir.file("config.json"));
    const auto files = dummy_checkpoint(dir.path(), "xavier");
    ASSERT_TRUE(files) << files.error().message();
    const Outcome o = load(**files);
    ASSERT_TRUE(o.model) << o.model.error().message();
    ASSERT_EQ((*o.model)->draft_heads(), heads);
    auto direct = Direct::create(**o.model, *o.ops, {.max_len = 16, .kv = KvType::f32});
    ASSERT_TRUE(direct);
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
    const Chunk chunk{.tokens = ids, .all_logits = true};
    ops::Tensor state;
    ASSERT_TRUE(direct->step_for_drafts({&chunk, 1}, state));
    std::vector<float> hidden;
    for (int64_t r = 0; r < state.rows; ++r) hidden.insert(hidden.end(), state.row(r), state.row(r) + state.cols);
    const auto r = direct->draft({&chunk, 1}, {.hidden = {hidden.data(), 8, (*o.model)->draft_width(), (*o.model)->draft_width()}});
    ASSERT_TRUE(r) << r.error().message();
    ASSERT_EQ(r->logits.rows, 8);
    float top = 0;
    for (int64_t t = 0; t < 8; ++t)
      for (int64_t v = 0; v < r->logits.cols; ++v) {
        const float x = r->logits.row(t)[v];
        ASSERT_TRUE(std::isfinite(x));
        top = std::max(top, std::abs(x));
      }
    EXPECT_GT(top, 0);
  }
}

TEST(DraftHeads, AreQuantizedWhileTheyLoad) {
  auto online = weights::quantize_online(*weights::open_checkpoint(golden("qwen3_next"), {}), R"({"global_quant_config": "ptpc_fp8"})");
  ASSERT_TRUE(online) << online.error().message();
  const auto& c = static_cast<const weights::OnlineCheckpoint&>(**online);
  for (const char* matrix : {"mtp.fc.weight", "mtp.layers.0.self_attn.o_proj.weight", "mtp.layers.0.mlp.experts.3.down_proj.weight"})
    EXPECT_TRUE(c.converts(*c.find(matrix))) << matrix;
  for (const char* kept : {"mtp.norm.weight", "mtp.layers.0.mlp.gate.weight"}) EXPECT_FALSE(c.converts(*c.find(kept))) << kept;
  const Outcome o = load(c);
  ASSERT_TRUE(o.model) << o.model.error().message();
  EXPECT_EQ((*o.model)->draft_heads(), 1);
  // What writes tokens stays, under the head's own name for it as well.
  const auto glm = weights::quantize_online(*weights::open_checkpoint(golden("glm4_moe_lite"), {}), R"({"global_quant_config": "ptpc_fp8"})");
  ASSERT_TRUE(glm) << glm.error().message();
  const auto& g = static_cast<const weights::OnlineCheckpoint&>(**glm);
  EXPECT_FALSE(g.converts(*g.find("model.layers.2.shared_head.head.weight")));
  EXPECT_TRUE(g.converts(*g.find("model.layers.2.eh_proj.weight")));
}

/// A model that would fit without its heads is told so.
TEST(DraftHeads, CountInTheForecast) {
  const Edited files(golden("deepseek_v3"), keep_all);
  const auto ops = *ops::make_cpu_ops({.threads = 1, .pin = false});
  const auto refusal = [&](bool heads, uint64_t free) {
    ModelConfig config = *parse_config(files);
    if (!heads) config.drop_heads("as the test says");
    const Arch& arch = *arch_by_name(config.arch);
    const auto model = arch.make();
    model->set_config(config);
    Planner plan(files, *ops, arch, config);
    EXPECT_TRUE(plan_weights(plan, arch, *model));
    const auto r = plan.forecast({}, free);
    return r ? std::string() : r.error().message();
  };
  EXPECT_THAT(refusal(true, 1000), AllOf(HasSubstr("are free"), Not(HasSubstr("--no-mtp"))));
  uint64_t enough = 1000;
  while (!refusal(false, enough).empty() && enough < 100'000'000) enough += enough / 8;
  EXPECT_THAT(refusal(true, enough), AllOf(HasSubstr("are free"), HasSubstr("GiB of multi-token-prediction heads: --no-mtp")));
  EXPECT_EQ(refusal(true, 100'000'000), "");
}

TEST(DraftHeads, ARunThatAsksForOneThatIsNotThereIsRefused) {
  const Edited files(golden("qwen3_5"), keep_all);
  const Outcome o = load(files);
  ASSERT_TRUE(o.model);
  auto direct = Direct::create(**o.model, *o.ops, {.max_len = 8, .kv = KvType::f32});
  ASSERT_TRUE(direct);
  const int32_t id = 1;
  const Chunk chunk{.tokens = {&id, 1}};
  const auto r = direct->draft({&chunk, 1}, {.head = 1});
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message(), HasSubstr("head 1 of 1"));
}

}  // namespace
}  // namespace isotope::models
