// What config.json says of indexers, compressed keys and residual streams, and the errors where it says something impossible.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/parse_json.h"
#include "support/safetensors_writer.h"
#include "weights/checkpoint.h"

namespace isotope::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Overrides = std::map<std::string, std::string>;

constexpr const char* kSizes =
    R"("hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 4096)";
const std::string kLatent =
    R"("kv_lora_rank": 32, "q_lora_rank": 48, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 8, "n_group": 1,
       "topk_group": 1, "num_experts_per_tok": 3, "index_n_heads": 4, "index_head_dim": 16, "index_topk": 16)";
const std::string kBlocks =
    R"("num_key_value_heads": 2, "head_dim": 32, "rotary_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 3, "moe_layer_freq": [0, 1, 1, 1],
       "hidden_act": "swigluoai", "sparse_attention_config": {"sparse_attention_freq": [0, 1, 0, 1], "sparse_num_index_heads": 2, "sparse_index_dim": 16,
       "sparse_block_size": 8, "sparse_topk_blocks": 3, "sparse_local_block": 1})";
const std::string kCompressed =
    R"("head_dim": 32, "qk_rope_head_dim": 8, "q_lora_rank": 48, "moe_intermediate_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 3,
       "num_hash_layers": 1, "compress_ratios": [0, 4, 128, 4], "sliding_window": 16, "o_groups": 2, "o_lora_rank": 24, "index_n_heads": 4,
       "index_head_dim": 16, "index_topk": 8)";

Result<ModelConfig> parse(const char* cls, const std::string& fields, const Overrides& overrides = {}) {
  return parse_json(fmt::format(R"({{"architectures": ["{}"], {}, {}}})", cls, kSizes, fields), overrides);
}

std::string choosing(const ModelConfig& c) {
  std::string out;
  for (const LayerConfig& l : c.layer) out += "-OL"[int(l.choosing)];
  return out;
}

TEST(SparseConfig, EveryLayerOfDeepSeekV32Chooses) {
  const auto c = parse("DeepseekV32ForCausalLM", kLatent);
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(choosing(*c), "OOOO");
  EXPECT_EQ(c->index.heads, 4);
  EXPECT_EQ(c->index.top, 16);
  EXPECT_TRUE(c->ropes[0].interleaved);
  EXPECT_FALSE(c->ropes[size_t(c->index.rope_index)].interleaved) << "the indexer turns halves";
}

TEST(SparseConfig, LayersOfGlm5ShareChoices) {
  const auto types = [](const std::string& more) {
    const auto c = parse("GlmMoeDsaForCausalLM", kLatent + more);
    EXPECT_TRUE(c) << c.error().message();
    return c ? choosing(*c) : "";
  };
  EXPECT_EQ(types(""), "OOOO");
  EXPECT_EQ(types(R"(, "index_topk_freq": 2, "index_skip_topk_offset": 2)"), "OOLO");
  EXPECT_EQ(types(R"(, "index_topk_freq": 3, "index_skip_topk_offset": 1)"), "OLLO");
  EXPECT_EQ(types(R"(, "index_topk_pattern": "FSSF")"), "OLLO");
  EXPECT_EQ(types(R"(, "indexer_types": ["full", "full", "shared", "shared"])"), "OOLL");
  const auto c = parse("GlmMoeDsaForCausalLM", kLatent);
  EXPECT_TRUE(c->ropes[size_t(c->index.rope_index)].interleaved);
}

TEST(SparseConfig, BlocksOfMiniMaxM3InBothSpellings) {
  const auto c = parse("MiniMaxM3VLForCausalLM", kBlocks);
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(choosing(*c), "-O-O");
  EXPECT_EQ(c->index.block, 8);
  EXPECT_EQ(c->index.top, 3);
  EXPECT_EQ(c->index.local, 1);
  EXPECT_FALSE(c->layer[0].moe);
  EXPECT_TRUE(c->layer[1].moe);
  EXPECT_EQ(c->mlp_limit, 7.0f);
  const auto flat = parse("MiniMaxM3VLForCausalLM",
                          R"("num_key_value_heads": 2, "head_dim": 32, "rotary_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 3,
                             "layer_types": ["full_attention", "minimax_m3_sparse", "full_attention", "minimax_m3_sparse"], "index_n_heads": 2,
                             "index_head_dim": 16, "index_block_size": 64, "index_topk_blocks": 5, "index_local_blocks": 2)");
  ASSERT_TRUE(flat) << flat.error().message();
  EXPECT_EQ(choosing(*flat), "-O-O");
  EXPECT_EQ(flat->index.block, 64);
  EXPECT_EQ(flat->index.local, 2);
}

TEST(SparseConfig, LayersOfDeepSeekV4) {
  const auto c = parse("DeepseekV4ForCausalLM", kCompressed);
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(choosing(*c), "-O-O");
  const auto ratios = [](const ModelConfig& m) {
    std::vector<int> out;
    for (const LayerConfig& l : m.layer) out.push_back(l.ratio);
    return out;
  };
  EXPECT_THAT(ratios(*c), ElementsAre(0, 4, 128, 4));
  EXPECT_EQ(c->compressed.overlap, 4);
  EXPECT_TRUE(c->layer[0].by_token);
  EXPECT_FALSE(c->layer[1].by_token);
  ASSERT_EQ(c->ropes.size(), 5u);
  EXPECT_EQ(c->ropes[0].first, 24) << "the last dimensions turn";
  EXPECT_EQ(c->ropes[2].inv_freq[1], -c->ropes[0].inv_freq[1]);
  EXPECT_EQ(c->ropes[size_t(c->index.rope_index)].first, 8);
  for (const LayerConfig& l : c->layer) EXPECT_EQ(l.window, 16);
  const auto named = parse("DeepseekV4ForCausalLM", kCompressed, {{"layer_types", R"(["heavily_compressed_attention", "sliding_attention",
                           "compressed_sparse_attention", "sliding_attention"])"}, {"mlp_layer_types", R"(["moe", "hash_moe", "moe", "moe"])"}});
  ASSERT_TRUE(named) << named.error().message();
  EXPECT_THAT(ratios(*named), ElementsAre(128, 0, 4, 0));
  EXPECT_TRUE(named->layer[1].by_token);
}

TEST(SparseConfig, NamesWhatIsWrong) {
  struct Case {
    const char* cls;
    const std::string& fields;
    const char *key, *value, *says;
  } cases[] = {
      {"DeepseekV32ForCausalLM", kLatent, "index_n_heads", "0", "index_n_heads is 0"},
      {"DeepseekV32ForCausalLM", kLatent, "index_head_dim", "12", "index_head_dim is 12"},
      {"DeepseekV32ForCausalLM", kLatent, "index_head_dim", "1024", "index_head_dim is 1024"},
      {"DeepseekV32ForCausalLM", kLatent, "index_topk", "0", "index_topk is 0"},
      {"DeepseekV32ForCausalLM", kLatent, "q_lora_rank", "0", "q_lora_rank is not set"},
      {"DeepseekV32ForCausalLM", kLatent, "qk_rope_head_dim", "32", "index_head_dim is 16, while 32 dimensions"},
      {"GlmMoeDsaForCausalLM", kLatent, "indexer_types", R"(["full", "half", "shared", "shared"])", "indexer_types names 'half'"},
      {"GlmMoeDsaForCausalLM", kLatent, "index_topk_pattern", "\"FS\"", "index_topk_pattern has 2 entries for 4 layers"},
      {"GlmMoeDsaForCausalLM", kLatent, "index_topk_pattern", "\"SFFF\"", "the first layer shares"},
      {"MiniMaxM3VLForCausalLM", kBlocks, "sparse_attention_config.sparse_num_index_heads", "4", "sparse_num_index_heads is 4"},
      {"MiniMaxM3VLForCausalLM", kBlocks, "sparse_attention_config.sparse_attention_freq", "[1, 0]", "2 entries for 4 layers"},
      {"MiniMaxM3VLForCausalLM", kBlocks, "sparse_attention_config.sparse_block_size", "0", "sparse_block_size is 0"},
      {"MiniMaxM3VLForCausalLM", kBlocks, "sparse_attention_config.sparse_local_block", "4", "sparse_local_block is 4"},
      {"MiniMaxM3VLForCausalLM", kBlocks, "sparse_attention_config.sparse_index_dim", "8", "sparse_index_dim is 8, while 16 dimensions"},
      {"MiniMaxM3VLForCausalLM", kBlocks, "moe_layer_freq", "[0, 1]", "moe_layer_freq has 2 entries"},
      {"MiniMaxM3VLForCausalLM", kBlocks, "hidden_act", "\"gelu\"", "hidden_act is 'gelu'"},
      {"DeepseekV4ForCausalLM", kCompressed, "compress_ratios", "[0, 4, 8, 4]", "compress_ratios holds 8"},
      {"DeepseekV4ForCausalLM", kCompressed, "compress_ratios", "[0, 4]", "compress_ratios has 2 entries"},
      {"DeepseekV4ForCausalLM", kCompressed, "compress_rate_csa", "6", "is 6"},
      {"DeepseekV4ForCausalLM", kCompressed, "compress_rate_hca", "4", "both compression rates are 4"},
      {"DeepseekV4ForCausalLM", kCompressed, "num_key_value_heads", "2", "num_key_value_heads is 2"},
      {"DeepseekV4ForCausalLM", kCompressed, "head_dim", "576", "head_dim is 576"},
      {"DeepseekV4ForCausalLM", kCompressed, "o_groups", "3", "no multiple of o_groups 3"},
      {"DeepseekV4ForCausalLM", kCompressed, "hc_mult", "17", "hc_mult is 17"},
      {"DeepseekV4ForCausalLM", kCompressed, "hc_sinkhorn_iters", "0", "hc_sinkhorn_iters is 0"},
      {"DeepseekV4ForCausalLM", kCompressed, "hc_eps", "2", "hc_eps is 2"},
      {"DeepseekV4ForCausalLM", kCompressed, "swiglu_limit", "-1", "swiglu_limit is -1"},
      {"DeepseekV4ForCausalLM", kCompressed, "layer_types", R"(["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"])",
       "layer_types names 'full_attention'"},
      {"DeepseekV4ForCausalLM", kCompressed, "mlp_layer_types", R"(["dense", "moe", "moe", "moe"])", "mlp_layer_types names 'dense'"},
      {"DeepseekV4ForCausalLM", kCompressed, "scoring_func", "\"tanh\"", "scoring_func is 'tanh'"},
      {"DeepseekV4ForCausalLM", kCompressed, "qk_rope_head_dim", "7", "an even number"},
  };
  for (const Case& c : cases) {
    const auto got = parse(c.cls, c.fields, {{c.key, c.value}});
    ASSERT_FALSE(got) << c.key << " = " << c.value;
    EXPECT_THAT(got.error().message(), HasSubstr(c.says)) << c.key << " = " << c.value;
  }
}

}  // namespace
}  // namespace isotope::models
