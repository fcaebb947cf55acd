#include "models/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "models/model.h"
#include "support/safetensors_writer.h"

namespace isotope::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Loader, PutsPairsBackIntoHalves) {
  EXPECT_THAT(halves_from_pairs(2, 4, 4), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  EXPECT_THAT(halves_from_pairs(1, 6, 4), ElementsAre(0, 2, 1, 3, 4, 5));  // rows that do not turn stay
}

/// A checkpoint of two layers whose tensors a test may drop, rename or reshape.
struct Tiny {
  std::string config = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
                           "num_key_value_heads": 1, "vocab_size": 40, "max_position_embeddings": 128, "tie_word_embeddings": false})";
  std::map<std::string, std::vector<int64_t>> tensors = {{"model.embed_tokens.weight", {40, 32}}, {"model.norm.weight", {32}}, {"lm_head.weight", {40, 32}}};

  Tiny() {
    for (const std::string l : {"model.layers.0.", "model.layers.1."})
      tensors.merge(std::map<std::string, std::vector<int64_t>>{
          {l + "self_attn.q_proj.weight", {32, 32}}, {l + "self_attn.k_proj.weight", {16, 32}}, {l + "self_attn.v_proj.weight", {16, 32}},
          {l + "self_attn.o_proj.weight", {32, 32}}, {l + "mlp.gate_proj.weight", {64, 32}},    {l + "mlp.up_proj.weight", {64, 32}},
          {l + "mlp.down_proj.weight", {32, 64}},    {l + "input_layernorm.weight", {32}},      {l + "post_attention_layernorm.weight", {32}}});
  }

  Result<std::unique_ptr<Model>> load(const levers::Loading& levers = {}) const {
    const test::TempDir dir;
    dir.write("config.json", config);
    test::SafetensorsWriter w;
    for (const auto& [name, shape] : tensors) {
      int64_t n = 1;
      for (int64_t d : shape) n *= d;
      w.tensor(name, shape, tensor::DType::f32, std::vector<float>(size_t(n), 0.01f));
    }
    dir.write("model.safetensors", w.bytes());
    ISO_TRY(const auto ck, weights::open_checkpoint(dir.path(), levers));
    ISO_TRY(const ModelConfig c, parse_config(*ck));
    ISO_TRY(const auto ops, ops::make_cpu_ops({.threads = 1, .pin = false}));
    return load_model(*ck, *ops, levers, c, progress);
  }
  std::function<void(const LoadProgress&)> progress;
};

TEST(Loader, ReportsProgressUpToTheEnd) {
  Tiny t;
  LoadProgress last;
  int calls = 0;
  t.progress = [&](const LoadProgress& p) { last = p, ++calls; };
  const auto m = t.load();
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_GT(calls, 1);
  EXPECT_EQ(last.done, last.total);
  EXPECT_GT(last.total, 0);
}

TEST(Loader, ListsMissingTensors) {
  Tiny t;
  t.tensors.erase("model.layers.1.mlp.up_proj.weight");
  t.tensors.erase("lm_head.weight");
  const auto m = t.load();
  ASSERT_FALSE(m);
  EXPECT_THAT(m.error().message(), HasSubstr("model.layers.1.mlp.up_proj.weight"));
  EXPECT_THAT(m.error().message(), HasSubstr("lm_head.weight"));
}

TEST(Loader, RefusesTensorsNobodyReadsUnlessToldOtherwise) {
  Tiny t;
  t.tensors["model.layers.0.self_attn.q_norm.weight"] = {16};
  const auto m = t.load();
  ASSERT_FALSE(m);
  EXPECT_THAT(m.error().message(), HasSubstr("model.layers.0.self_attn.q_norm.weight"));
  EXPECT_TRUE(t.load({.strict_coverage = false}));
}

TEST(Loader, IgnoresWhatOldAndWrappedFilesCarry) {
  Tiny t;
  t.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {8};
  t.tensors["vision_tower.x"] = {3};
  const auto m = t.load();
  EXPECT_TRUE(m) << m.error().message();
}

TEST(Loader, NamesTensorAndBothShapes) {
  Tiny t;
  t.tensors["model.layers.1.self_attn.k_proj.weight"] = {32, 32};
  const auto m = t.load();
  ASSERT_FALSE(m);
  EXPECT_THAT(m.error().message(), HasSubstr("model.layers.1.self_attn.k_proj.weight has shape [32, 32], the configuration asks for [16, 32]"));
  EXPECT_FALSE(m.error().remedy.empty());
  t.tensors["model.layers.1.self_attn.k_proj.weight"] = {512};
  EXPECT_FALSE(t.load());
}

TEST(Loader, FindsTheTextModelInsideWrappers) {
  for (const char* body : {"language_model.model.", "model.language_model."}) {
    Tiny t, plain;
    t.tensors.clear();
    for (const auto& [name, shape] : plain.tensors)
      if (name.starts_with("model.")) t.tensors[body + name.substr(6)] = shape;
    t.tensors[std::string(body).starts_with("language") ? "language_model.lm_head.weight" : "lm_head.weight"] = {40, 32};
    const auto m = t.load();
    EXPECT_TRUE(m) << m.error().message();
  }
}

TEST(Loader, ATiedHeadIsOneMatrixAndACopyInTheFileIsIgnored) {
  Tiny t;
  t.config.replace(t.config.find("false}"), 6, "true}");
  const auto m = t.load();
  ASSERT_TRUE(m) << m.error().message();
  const auto& g = static_cast<const Transformer&>(**m).globals;
  EXPECT_FALSE(g.embed);
  EXPECT_EQ(&g.table(), g.head.w.get());
}

TEST(Loader, WorksOnOneThreadAndOnMany) {
  for (int threads : {1, 2, 64}) EXPECT_TRUE(Tiny().load({.num_threads = threads}));
}

// ---- mixtures of experts ------------------------------------------------------------------------------------------------------------
/// Two layers with four experts each; a test may drop, rename or reshape tensors.
struct TinyMoe : Tiny {
  TinyMoe() {
    config.replace(config.find("LlamaForCausalLM"), 16, "Qwen3MoeForCausalLM");
    config.insert(1, R"("num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "head_dim": 16, )");
    std::erase_if(tensors, [](const auto& t) { return t.first.find(".mlp.") != std::string::npos; });
    for (const std::string l : {"model.layers.0.", "model.layers.1."}) {
      tensors[l + "self_attn.q_norm.weight"] = tensors[l + "self_attn.k_norm.weight"] = {16};
      tensors[l + "mlp.gate.weight"] = {4, 32};
      for (int e = 0; e < 4; ++e) {
        const std::string at = l + "mlp.experts." + std::to_string(e) + ".";
        tensors[at + "gate_proj.weight"] = tensors[at + "up_proj.weight"] = {64, 32};
        tensors[at + "down_proj.weight"] = {32, 64};
      }
    }
  }
  void stack(const std::string& layer) {
    std::erase_if(tensors, [&](const auto& t) { return t.first.starts_with(layer + "mlp.experts."); });
    tensors[layer + "mlp.experts.gate_up_proj"] = {4, 128, 32};
    tensors[layer + "mlp.experts.down_proj"] = {4, 32, 64};
  }
};

void expect_error(const TinyMoe& t, std::initializer_list<const char*> says, const levers::Loading& levers = {}) {
  const auto m = t.load(levers);
  ASSERT_FALSE(m);
  for (const char* s : says) EXPECT_THAT(m.error().message(), HasSubstr(s));
  EXPECT_FALSE(m.error().remedy.empty());
  EXPECT_THAT(m.error().source, HasSubstr("model.safetensors"));
}

TEST(MoeLoader, TakesOneTensorEachOrStacksOrBothInOneFile) {
  TinyMoe t;
  ASSERT_TRUE(t.load()) << t.load().error().message();
  t.stack("model.layers.1.");
  const auto m = t.load();
  ASSERT_TRUE(m) << m.error().message();
  const ops::Moe& moe = static_cast<const Transformer&>(**m).layers[1].moe;
  ASSERT_EQ(moe.experts.size(), 4u);
  for (const ops::FeedForward& e : moe.experts) {
    EXPECT_EQ(e.gate.w->n, 64);
    EXPECT_EQ(e.up.w->k, 32);
    EXPECT_EQ(e.down.w->n, 32);
  }
}

TEST(MoeLoader, APartialSetOfExpertsEndsTheLoadUnlessToldOtherwise) {
  TinyMoe t;
  t.tensors.erase("model.layers.1.mlp.experts.2.up_proj.weight");
  t.tensors.erase("model.layers.1.mlp.experts.3.down_proj.weight");
  expect_error(t, {"2 tensors are missing", "model.layers.1.mlp.experts.2.up_proj.weight", "experts.3.down_proj"});
  const auto m = t.load({.strict_coverage = false});
  ASSERT_TRUE(m) << m.error().message();  // those matrices count as zero
  EXPECT_EQ(static_cast<const Transformer&>(**m).layers[1].moe.experts[2].up.w->n, 64);
  t.tensors.erase("model.layers.0.mlp.gate.weight");  // a router cannot be made up
  expect_error(t, {"model.layers.0.mlp.gate.weight"}, {.strict_coverage = false});
}

TEST(MoeLoader, MoreExpertsThanTheConfigurationNamesAreUnexpected) {
  TinyMoe t;
  t.tensors["model.layers.0.mlp.experts.4.up_proj.weight"] = {64, 32};
  expect_error(t, {"model.layers.0.mlp.experts.4.up_proj.weight"});
}

TEST(MoeLoader, NamesTensorAndBothShapes) {
  TinyMoe t;
  t.tensors["model.layers.1.mlp.experts.3.down_proj.weight"] = {64, 32};
  expect_error(t, {"model.layers.1.mlp.experts.3.down_proj.weight has shape [64, 32], the configuration asks for [32, 64]"});
  TinyMoe stacked;
  stacked.stack("model.layers.0.");
  stacked.tensors["model.layers.0.mlp.experts.gate_up_proj"] = {3, 128, 32};
  expect_error(stacked, {"model.layers.0.mlp.experts.gate_up_proj has shape [3, 128, 32], the configuration asks for [4, 128, 32]"});
  stacked.tensors["model.layers.0.mlp.experts.gate_up_proj"] = {512, 32};
  EXPECT_FALSE(stacked.load());
  TinyMoe half;
  half.stack("model.layers.0.");
  half.tensors.erase("model.layers.0.mlp.experts.down_proj");
  expect_error(half, {"model.layers.0.mlp.experts.down_proj"});
  TinyMoe router;
  router.tensors["model.layers.0.mlp.gate.weight"] = {8, 32};
  expect_error(router, {"mlp.gate.weight has shape [8, 32], the configuration asks for [4, 32]"});
}

}  // namespace
}  // namespace isotope::models
