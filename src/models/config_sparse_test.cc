// What config.json says of indexers, compressed keys, residual streams and n-grams, and the errors where it says something impossible.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/ngram.h"
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

const std::string kPooled =
    R"("kv_lora_rank": 32, "q_lora_rank": 48, "qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 3, "index_n_heads": 4,
       "index_head_dim": 16, "index_topk": 16, "index_kpool": 4, "linear_head_dim": 24, "linear_num_heads": 4,
       "layer_types": ["linear_attention", "indexed_attention", "linear_attention", "full_attention"],
       "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"])";
const std::string kNgrams =
    R"("num_key_value_heads": 2, "head_dim": 32, "num_experts": 8, "num_experts_per_tok": 3, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
       "linear_key_head_dim": 16, "linear_value_head_dim": 24, "hc_count": 2, "hc_lowrank": 16, "ple_layer_ids": [3, 1], "ple_embed_dim": 32,
       "heads_per_ngram": 2, "ngram_vocab_size_base": 100, "make_ngram_vocab_size_divisible_by": 16, "split_ngram_parts": 3, "indexer_n_heads": 16,
       "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 16, "indexer_compress_ratio": 4, "eos_token_id": [2, 3],
       "layer_types": ["linear_attention", "full_attention", "linear_attention", "indexed_attention"])";

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

TEST(SparseConfig, PoolsOfGlm5Next) {
  const auto c = parse("Glm5NextForConditionalGeneration", kPooled);
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(choosing(*c), "-O-O");
  EXPECT_EQ(c->layer[0].mixer, Mixer::channel_delta);
  EXPECT_EQ(c->index.pool, 4);
  EXPECT_EQ(c->index.top, 4) << "pools, where the file counts tokens";
  EXPECT_TRUE(c->index.pool_gated);
  EXPECT_LT(c->index.rope_index, 0) << "nothing turns";
  EXPECT_FALSE(c->layer[1].rope);
  EXPECT_EQ(c->head_dim, 32);
  EXPECT_EQ(c->latent.norm_eps, c->norm_eps);
  EXPECT_EQ(c->state.decay_floor, -5.0f);
  EXPECT_EQ(c->hyper.streams, 4);
  EXPECT_EQ(c->hyper.iterations, 20);
  EXPECT_TRUE(c->hyper.mean);
  EXPECT_EQ(c->mlp_limit, 10.0f);
  EXPECT_EQ(c->moe.shared_limit, 10.0f);
  EXPECT_FALSE(c->layer[0].moe);
  const auto free = parse("Glm5NextForConditionalGeneration", kPooled, {{"linear_lower_bound", "null"}});
  ASSERT_TRUE(free) << free.error().message();
  EXPECT_EQ(free->state.decay_floor, 0.0f);
  const auto nested = parse("Glm5NextForConditionalGeneration", kPooled, {{"linear_attn_config", R"({"head_dim": 16, "num_heads": 2, "gate_lower_bound": -3.0})"}});
  ASSERT_TRUE(nested) << nested.error().message();
  EXPECT_EQ(nested->state.value_heads, 2);
  EXPECT_EQ(nested->state.decay_floor, -3.0f);
  const auto single = parse("Glm5NextForConditionalGeneration", kPooled, {{"index_kpool", "1"}, {"index_kpool_always_select_tail", "false"}});
  ASSERT_TRUE(single) << single.error().message();
  EXPECT_EQ(single->index.top, 16);
  const auto usual = parse("Glm5NextForConditionalGeneration", kPooled, {{"layer_types", "null"}, {"mlp_layer_types", "null"}});
  ASSERT_TRUE(usual) << usual.error().message();
  EXPECT_EQ(choosing(*usual), "---O");
}

TEST(SparseConfig, GatesSinksAndStreamsOfHyV4) {
  const auto c = parse("HYV4ForCausalLM", kLatent);
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(choosing(*c), "OOLL") << "the class' way: the first two, then every fourth";
  EXPECT_TRUE(c->latent.wide_gate);
  EXPECT_EQ(c->latent.norm_eps, 1e-6f);
  EXPECT_EQ(c->index.norm_eps, 1e-5f);
  EXPECT_EQ(c->ropes[size_t(c->index.rope_index)].first, 8) << "the last dimensions of an index head turn";
  EXPECT_EQ(c->ropes[0].first, 0);
  EXPECT_EQ(c->hyper.iterations, 0);
  EXPECT_EQ(c->hyper.added_eps, 1e-6f);
  EXPECT_FALSE(c->hyper.mean);
  EXPECT_EQ(c->moe.swiglu_limit, 10.0f);
  EXPECT_EQ(c->moe.shared_limit, 0.0f) << "experts alone clamp";
  EXPECT_EQ(c->mlp_limit, 0.0f);
}

TEST(SparseConfig, NgramsAndPoolsOfQwen4) {
  const auto c = parse("Qwen4ExpForConditionalGeneration", kNgrams);
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(choosing(*c), "-O-O");
  EXPECT_EQ(c->index.top, 4);
  EXPECT_TRUE(c->index.summed);
  EXPECT_EQ(c->hyper.low_rank, 16);
  EXPECT_EQ(c->ngram.separator, 2) << "the first of several";
  EXPECT_EQ(c->layer[0].ngrams, 0);
  EXPECT_EQ(c->layer[1].ngrams, -1);
  EXPECT_EQ(c->layer[2].ngrams, 1);
  const auto primes = ngram_primes(*c);
  const NgramHash first = ngram_hash(*c, 0, primes), second = ngram_hash(*c, 1, primes);
  EXPECT_THAT(first.vocabularies, ElementsAre(101, 103, 107, 109));
  EXPECT_THAT(second.vocabularies, ElementsAre(113, 127, 131, 137));
  EXPECT_THAT(first.offsets, ElementsAre(0, 101, 204, 311));
  EXPECT_EQ(first.rows, 432);
  for (int64_t m : first.multipliers) EXPECT_EQ(m % 2, 1);
  EXPECT_NE(first.multipliers, second.multipliers);
  const auto none = parse("Qwen4ExpForConditionalGeneration", kNgrams, {{"ple_layer_ids", "[]"}});
  ASSERT_TRUE(none) << none.error().message();
  EXPECT_FALSE(none->ngram);
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
      {"Glm5NextForConditionalGeneration", kPooled, "index_kpool", "0", "index_kpool is 0"},
      {"Glm5NextForConditionalGeneration", kPooled, "index_kpool", "3", "index_kpool is 3"},
      {"Glm5NextForConditionalGeneration", kPooled, "index_topk", "18", "index_topk 18 is no multiple of index_kpool 4"},
      {"Glm5NextForConditionalGeneration", kPooled, "index_kpool_always_select_tail", "false", "index_kpool_always_select_tail is false"},
      {"Glm5NextForConditionalGeneration", kPooled, "qk_rope_head_dim", "8", "qk_rope_head_dim is 8"},
      {"Glm5NextForConditionalGeneration", kPooled, "linear_lower_bound", "1", "linear_lower_bound is 1"},
      {"Glm5NextForConditionalGeneration", kPooled, "indexer_types", R"(["full", "shared", "full", "full"])", "the first layer that attends shares"},
      {"Glm5NextForConditionalGeneration", kPooled, "layer_types", R"(["conv1d", "full_attention", "full_attention", "full_attention"])",
       "layer_types names 'conv1d'"},
      {"Glm5NextForConditionalGeneration", kPooled, "hc_sinkhorn_iters", "0", "hc_sinkhorn_iters is 0"},
      {"Glm5NextForConditionalGeneration", kPooled, "swiglu_limit", "0", "swiglu_limit is 0"},
      {"HYV4ForCausalLM", kLatent, "hc_mult", "0", "hc_mult is 0"},
      {"HYV4ForCausalLM", kLatent, "qk_rope_head_dim", "7", "qk_rope_head_dim is 7, must be even"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "hc_count", "1", "hc_count is 1"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "hc_lowrank", "0", "hc_lowrank is 0"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "ple_layer_ids", "[5]", "ple_layer_ids names layer 5 of 4"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "ple_layer_ids", "[2]", "ple_layer_ids names layer 2, which attends"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "ple_embed_dim", "30", "ple_embed_dim 30 is no multiple of the 4 heads"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "ngram_size", "9", "ngram_size is 9"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "heads_per_ngram", "2048", "heads_per_ngram is 2048"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "eos_token_id", "100", "eos_token_id is 100"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "eos_token_id", "[]", "eos_token_id is an empty list"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "indexer_kv_heads", "2", "indexer_kv_heads is 2"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "indexer_budget", "18", "indexer_budget 18 is no multiple of indexer_compress_ratio 4"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "indexer_compress_ratio", "6", "indexer_compress_ratio is 6"},
      {"Qwen4ExpForConditionalGeneration", kNgrams, "output_gate_type", "\"tanh\"", "output_gate_type is 'tanh'"},
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
