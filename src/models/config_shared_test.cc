// What config.json says of DeepSeek V4.1: whose keys and choices a layer uses, n-gram tables, and the errors where it says something impossible.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/parse_json.h"

namespace isotope::models {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

/// The released model's configuration, as far as text goes.
json released() {
  json ratios = {0, 0};
  for (int i = 0; i < 18; ++i) ratios.push_back(2);
  for (int i = 0; i < 20; ++i) ratios.push_back(1);
  for (int i = 0; i < 3; ++i) ratios.push_back(0);
  json text = json::parse(R"({"model_type": "deepseek_v41_text", "vocab_size": 129280, "hidden_size": 5120, "moe_intermediate_size": 2304,
    "num_hidden_layers": 40, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1280,
    "o_lora_rank": 1024, "o_groups": 8, "hidden_act": "silu", "swiglu_limit": 10.0, "rms_norm_eps": 1e-20, "attention_bias": false,
    "max_position_embeddings": 1048576, "rope_theta": 10000, "rope_scaling": {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
    "original_max_position_embeddings": 65536}, "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 6, "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 1.5, "sliding_window": 128, "compress_rope_theta": 160000,
    "kv_source_layer_ids": [2, 8, 14, 20], "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36], "index_n_heads": 32, "index_head_dim": 128,
    "index_topk": 512, "candidate_source_layer_id": 20, "candidate_topk_blocks": 2048, "candidate_block_size": 8, "hc_mult": 4, "hc_sinkhorn_iters": 20,
    "hc_eps": 1e-06, "engram_layer_ids": [1, 14], "engram_num_embeddings": [384006168, 384016682], "engram_max_ngram_size": 4,
    "engram_vocab_size": 16000000, "engram_n_heads": 8, "engram_head_dim": 256, "engram_pad_token_id": 2, "engram_compressed_vocab_size": 99092,
    "num_nextn_predict_layers": 3, "tie_word_embeddings": false})");
  text["compress_ratios"] = ratios;
  return json{{"architectures", json::array({"DeepseekV41ForCausalLM"})},
              {"model_type", "deepseek_v41"},
              {"quantization_config", {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}, {"scale_fmt", "ue8m0"}, {"weight_block_size", {32, 32}}, {"expert_dtype", "fp4"}}},
              {"text_config", text},
              {"vision_config", {{"model_type", "deepseek_v41_vision"}}}};
}

TEST(SharedConfig, TheReleasedModel) {
  const auto c = parse_json(released().dump());
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(c->arch, "deepseek_v41");
  std::string choosing;
  for (const LayerConfig& l : c->layer) choosing += "-OL"[int(l.choosing)];
  EXPECT_EQ(choosing, "--OLLLLLOLLLLLOLLLLLOLLLOLLLOLLLOLLLOLLL");
  const auto owner = [&](size_t i) { return c->layer[i].entries_of; };
  EXPECT_EQ(owner(2), -1);
  EXPECT_EQ(owner(7), 2);
  EXPECT_EQ(owner(8), -1);
  EXPECT_EQ(owner(19), 14);
  EXPECT_EQ(owner(24), 20);
  EXPECT_EQ(owner(39), 20);
  EXPECT_EQ(c->layer[0].ratio, 0);
  EXPECT_EQ(c->layer[19].ratio, 2);
  EXPECT_EQ(c->layer[20].ratio, 1);
  EXPECT_EQ(c->layer[0].rope_index, 0);
  EXPECT_EQ(c->layer[20].rope_index, 1);
  EXPECT_TRUE(c->layer[0].moe);
  EXPECT_FALSE(c->layer[0].by_token);
  EXPECT_TRUE(c->hyper.late);
  EXPECT_EQ(c->index.blocks_of, 20);
  EXPECT_EQ(c->index.blocks, 2048);
  EXPECT_EQ(c->draft_layers, 3);
  EXPECT_EQ(c->norm_eps, 1e-20f);
  EXPECT_THAT(c->engram.layers, ElementsAre(1, 14));
  EXPECT_EQ(c->engram.columns(), 24);
  EXPECT_EQ(c->engram.width(), 6144);
  EXPECT_EQ(c->moe.swiglu_limit, 10.0f);
}

TEST(SharedConfig, WithoutTables) {
  json j = released();
  for (const char* key : {"engram_layer_ids", "engram_num_embeddings"}) j["text_config"][key] = json::array();
  const auto c = parse_json(j.dump());
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_FALSE(c->engram);
}

TEST(SharedConfig, NamesWhatIsWrong) {
  struct Case {
    const char* key;
    json value;
    const char* says;
  };
  const Case cases[] = {
      {"compress_ratios", {0, 0, 2}, "compress_ratios has 3 entries for 40 layers"},
      {"kv_source_layer_ids", {2, 8, 40}, "kv_source_layer_ids names layer 40 of 40"},
      {"kv_source_layer_ids", {8, 2}, "kv_source_layer_ids is not ascending at layer 2"},
      {"kv_source_layer_ids", {0, 2, 8, 14, 20}, "layer 0 sees its window alone"},
      {"kv_source_layer_ids", {2, 3, 8, 14, 20}, "layer 3 is in kv_source_layer_ids and not in index_source_layer_ids"},
      {"kv_source_layer_ids", {8, 14, 20}, "no layer before layer 2 makes keys of 2 tokens each"},
      {"kv_source_layer_ids", {2, 8, 14}, "no layer before layer 20 makes keys of 1 tokens each"},
      {"candidate_source_layer_id", 21, "candidate_source_layer_id is 21, which is not"},
      {"candidate_source_layer_id", 8, "layer 14 cannot choose within blocks of layer 8"},
      {"candidate_topk_blocks", 64, "64 blocks of 8 keys do not hold index_topk 512 keys"},
      {"candidate_block_size", 0, "candidate_block_size is 0"},
      {"engram_layer_ids", {1, 14, 20}, "engram_num_embeddings has 2 entries, engram_layer_ids 3"},
      {"engram_num_embeddings", {384006168, -1}, "engram_num_embeddings holds -1"},
      {"engram_max_ngram_size", 1, "engram_max_ngram_size is 1"},
      {"engram_n_heads", 0, "engram_n_heads is 0"},
      {"engram_head_dim", 0, "engram_head_dim is 0"},
      {"engram_vocab_size", 1, "engram_vocab_size is 1"},
      {"engram_compressed_vocab_size", 0, "engram_compressed_vocab_size is 0"},
      {"engram_pad_token_id", 129280, "engram_pad_token_id is 129280"},
      {"hc_mult", 0, "hc_mult is 0"},
  };
  for (const Case& k : cases) {
    json j = released();
    j["text_config"][k.key] = k.value;
    const auto c = parse_json(j.dump());
    ASSERT_FALSE(c) << k.key << " = " << k.value;
    EXPECT_THAT(c.error().message(), HasSubstr(k.says)) << k.key << " = " << k.value;
  }
  json j = released();
  j["text_config"]["compress_ratios"][5] = 3;
  EXPECT_THAT(parse_json(j.dump()).error().message(), HasSubstr("compress_ratios holds 3"));
}

}  // namespace
}  // namespace isotope::models
