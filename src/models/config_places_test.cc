// Hybrid models: which layers attend, carry a state or are a feed-forward block alone, and what is said of configurations that make no sense.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/parse_json.h"
#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"
#include "weights/checkpoint.h"

namespace isotope::models {
namespace {

using testing::HasSubstr;

Result<ModelConfig> parse(const std::string& cls, const std::string& more) {
  return parse_json(fmt::format(R"({{"architectures": ["{}"], "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
                                          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100{}{}}})",
                                      cls, more.empty() ? "" : ", ", more));
}

/// A letter a layer: A attends, M has a mixer, B both, D a feed-forward block alone, E experts alone; small where the layer has experts beside its mixer.
std::string places(const ModelConfig& c) {
  std::string out;
  for (const LayerConfig& l : c.layer) {
    const char kind = l.mixer == Mixer::none ? (l.moe ? 'E' : 'D') : l.beside ? 'B' : l.attends() ? 'A' : 'M';
    out += l.moe && l.mixer != Mixer::none ? char(kind - 'A' + 'a') : kind;
  }
  return out;
}

const std::string kSsm = R"("mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16)", kNemotron = R"("mamba_num_heads": 8, "mamba_head_dim": 16)";

struct Good {
  const char* cls;
  std::string more;
  const char* want;
};
TEST(ConfigPlaces, EachFamilyHasItsOwnWay) {
  const Good cases[] = {
      {"NemotronHForCausalLM", kNemotron + R"(, "hybrid_override_pattern": "M-*E")", "MDAE"},
      {"NemotronHForCausalLM", kNemotron + R"(, "layers_block_type": ["full_attention", "moe", "linear_attention", "mlp"])", "AEMD"},
      {"GraniteMoeHybridForCausalLM", kSsm + R"(, "layer_types": ["mamba", "attention", "mamba", "mamba"])", "mamm"},
      {"GraniteMoeHybridForCausalLM", kSsm + R"(, "num_local_experts": 0, "layer_types": ["mamba", "attention", "mamba", "mamba"])", "MAMM"},
      {"JambaForCausalLM", R"("attn_layer_period": 4, "attn_layer_offset": 2)", "MmAm"},
      {"JambaForCausalLM", R"("attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 1)", "MAMA"},
      {"FalconH1ForCausalLM", R"("mamba_d_ssm": 128, "mamba_n_heads": 8)", "BBBB"},
      {"KimiLinearForCausalLM", R"("linear_attn_config": {"full_attn_layers": [2, 4], "kda_layers": [1, 3], "head_dim": 16, "num_heads": 4, "short_conv_kernel_size": 4})",
       "Mama"},
      {"MiniMaxForCausalLM", R"("attn_type_list": [0, 0, 0, 1])", "mmma"},
      {"Lfm2ForCausalLM", R"("full_attn_idxs": [1])", "MAMM"},
      {"OlmoHybridForCausalLM", "", "MMMA"},
      {"Mamba2ForCausalLM", "", "MMMM"},
  };
  for (const Good& g : cases) {
    SCOPED_TRACE(g.cls + (" " + g.more));
    const auto c = parse(g.cls, g.more);
    ASSERT_TRUE(c) << c.error().message();
    EXPECT_EQ(places(*c), g.want);
  }
}

TEST(ConfigPlaces, SomeHybridsDoNotTurn) {
  const auto turns = [](const char* cls, const std::string& more) {
    const auto c = parse(cls, more);
    EXPECT_TRUE(c) << c.error().message();
    return c && c->layer[0].rope;
  };
  EXPECT_FALSE(turns("GraniteMoeHybridForCausalLM", kSsm));
  EXPECT_TRUE(turns("GraniteMoeHybridForCausalLM", kSsm + R"(, "position_embedding_type": "rope")"));
  EXPECT_FALSE(turns("JambaForCausalLM", ""));
  EXPECT_FALSE(turns("NemotronHForCausalLM", kNemotron + R"(, "hybrid_override_pattern": "****")"));
  EXPECT_TRUE(turns("OlmoHybridForCausalLM", ""));
  EXPECT_FALSE(turns("OlmoHybridForCausalLM", R"("rope_theta": null)"));
  EXPECT_FALSE(turns("OlmoHybridForCausalLM", R"("rope_parameters": {"rope_theta": null, "rope_type": "default"})"));
  EXPECT_TRUE(turns("FalconH1ForCausalLM", R"("mamba_d_ssm": 128, "mamba_n_heads": 8)"));
}

TEST(ConfigPlaces, WhatIsWrongIsNamed) {
  const Good cases[] = {
      {"NemotronHForCausalLM", kNemotron + R"(, "hybrid_override_pattern": "M-x*")", "hybrid_override_pattern names 'x'"},
      {"NemotronHForCausalLM", kNemotron + R"(, "hybrid_override_pattern": "M-*")", "hybrid_override_pattern has 3 entries for 4 layers"},
      {"NemotronHForCausalLM", kNemotron + R"(, "layers_block_type": ["attention", "ffn", "mamba", "mlp"])", "layers_block_type names 'ffn'"},
      {"NemotronHForCausalLM", kNemotron + R"(, "mlp_hidden_act": "mish")", "mlp_hidden_act is 'mish'"},
      {"NemotronHForCausalLM", kNemotron + R"(, "mamba_hidden_act": "gelu")", "mamba_hidden_act is 'gelu'"},
      {"GraniteMoeHybridForCausalLM", kSsm + R"(, "layer_types": ["mamba", "mlp", "mamba", "mamba"])", "layer_types names 'mlp'"},
      {"GraniteMoeHybridForCausalLM", kSsm + R"(, "position_embedding_type": "alibi")", "position_embedding_type is 'alibi'"},
      {"GraniteMoeHybridForCausalLM", kSsm + R"(, "mamba_proj_bias": true)", "mamba_proj_bias is true"},
      {"GraniteMoeHybridForCausalLM", R"("mamba_n_heads": 7)", "no multiple of 7 heads"},
      {"FalconH1ForCausalLM", R"("mamba_d_ssm": 100, "mamba_n_heads": 8, "mamba_d_head": 16)", "mamba_d_ssm is 100"},
      {"FalconH1ForCausalLM", R"("mamba_d_ssm": 128, "mamba_n_heads": 8, "ssm_multipliers": [1, 2])", "ssm_multipliers has 2 entries"},
      {"FalconH1ForCausalLM", R"("mamba_d_ssm": 128, "mamba_n_heads": 8, "attention_bias": true)", "attention_bias is true"},
      {"JambaForCausalLM", R"("attn_layer_period": 4, "attn_layer_offset": 4)", "attn_layer_offset is 4"},
      {"JambaForCausalLM", R"("expert_layer_period": 0)", "expert_layer_period is 0"},
      {"KimiLinearForCausalLM", R"("linear_attn_config": {"full_attn_layers": [0, 4]})", "names layer 0 of 4"},
      {"KimiLinearForCausalLM", R"("linear_attn_config": {"full_attn_layers": [4], "head_dim": 0})", "linear_attn_config.head_dim is 0"},
      {"MiniMaxForCausalLM", R"("attn_type_list": [0, 1])", "attn_type_list has 2 entries"},
      {"MiniMaxForCausalLM", R"("attn_type_list": [0, 0, 0, 1], "hidden_act": "relu")", "hidden_act is 'relu'"},
      {"Mamba2ForCausalLM", R"("layer_types": ["mamba", "attention", "mamba", "mamba"])", "layer_types names 'attention'"},
      {"Mamba2ForCausalLM", R"("attn_layer_period": 2)", "attn_layer_period has layers attend"},
  };
  for (const Good& g : cases) {
    SCOPED_TRACE(g.want);
    const auto c = parse(g.cls, g.more);
    ASSERT_FALSE(c);
    EXPECT_THAT(c.error().message(), HasSubstr(g.want));
    EXPECT_FALSE(c.error().remedy.empty());
  }
}

TEST(ConfigPlaces, NumbersThatJsonLacks) {
  for (const char* limit : {R"([0.5, Infinity])", R"([0.5, {"__float__": "Infinity"}])"}) {
    const auto c = parse("Mamba2ForCausalLM", std::string(R"("time_step_limit": )") + limit);
    ASSERT_TRUE(c) << c.error().message();
    EXPECT_EQ(c->state.dt_low, 0.5f);
    EXPECT_EQ(c->state.dt_high, std::numeric_limits<float>::max());
  }
  EXPECT_FALSE(parse("Mamba2ForCausalLM", R"("time_step_limit": [0.5, {"__float__": 5}])"));
  EXPECT_FALSE(parse("Mamba2ForCausalLM", R"("time_step_limit": [0.5, {"__float__": "NaN"}])"));
}

/// GGUF files of hybrid models say kinds of layers by the tensors they hold, and some numbers layer by layer.
TEST(ConfigPlaces, GgufTellsByTensors) {
  const std::string a = "nemotron_h_moe.";
  test::GgufWriter w;
  w.string("general.architecture", "nemotron_h_moe").u32(a + "block_count", 4).u32(a + "embedding_length", 64).u32(a + "context_length", 4096);
  w.u32(a + "attention.head_count", 4).f32(a + "attention.layer_norm_rms_epsilon", 1e-5f).u32(a + "attention.key_length", 16).u32(a + "attention.value_length", 16);
  w.u32(a + "ssm.conv_kernel", 4).u32(a + "ssm.state_size", 16).u32(a + "ssm.inner_size", 128).u32(a + "ssm.time_step_rank", 8).u32(a + "ssm.group_count", 2);
  w.u32(a + "expert_count", 8).u32(a + "expert_used_count", 2).u32(a + "expert_feed_forward_length", 32);
  w.u32(a + "feed_forward_length", 96).u32(a + "attention.head_count_kv", 2);
  const std::vector<float> table(100 * 64, 0.5f), one(1, 1.0f);
  w.tensor("token_embd.weight", {100, 64}, tensor::DType::f32, table);
  w.tensor("blk.0.ssm_conv1d.weight", {1}, tensor::DType::f32, one).tensor("blk.1.ffn_gate_inp.weight", {1}, tensor::DType::f32, one);
  w.tensor("blk.2.attn_q.weight", {1}, tensor::DType::f32, one).tensor("blk.3.ffn_up.weight", {1}, tensor::DType::f32, one);
  const test::TempDir dir;
  const auto ck = weights::open_checkpoint(dir.write("model.gguf", w.bytes()), {});
  ASSERT_TRUE(ck) << ck.error().message();
  const auto c = parse_config(**ck);
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(places(*c), "MEAD");
  EXPECT_EQ(c->act, ops::Activation::relu2);
  EXPECT_FALSE(c->layer[2].rope);
  EXPECT_EQ(c->state.head_dim, 16);
  EXPECT_FALSE(c->state.conv_bias);
}

}  // namespace
}  // namespace isotope::models
