#include "models/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/parse_json.h"
#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"
#include "weights/checkpoint.h"

namespace isotope::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Overrides = std::map<std::string, std::string>;

constexpr const char* kSizes =
    R"("hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 4096)";

std::string json_of(const char* cls, const std::string& more) {
  return fmt::format(R"({{"architectures": ["{}"], {}{}{}}})", cls, kSizes, more.empty() ? "" : ", ", more);
}

test::GgufWriter gguf(const std::string& arch) {
  test::GgufWriter w;
  w.string("general.architecture", arch).u32(arch + ".block_count", 4).u32(arch + ".embedding_length", 64).u32(arch + ".feed_forward_length", 96);
  w.u32(arch + ".attention.head_count", 4).u32(arch + ".context_length", 4096).f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  const std::vector<float> table(100 * 64, 0.5f);
  w.tensor("token_embd.weight", {100, 64}, tensor::DType::f32, table);
  return w;
}

Result<ModelConfig> parse_gguf(const test::GgufWriter& w, const Overrides& overrides = {}, int64_t served_len = 0) {
  const test::TempDir dir;
  ISO_TRY(const auto c, weights::open_checkpoint(dir.write("model.gguf", w.bytes()), {}));
  return parse_config(*c, overrides, served_len);
}

std::vector<int64_t> windows(const ModelConfig& c) {
  std::vector<int64_t> out;
  for (const LayerConfig& l : c.layer) out.push_back(l.window);
  return out;
}

TEST(Config, ReadsTheFieldsOfConfigJson) {
  const auto c = parse_json(json_of("LlamaForCausalLM", R"("num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "attention_bias": true,
                                                           "mlp_bias": false, "eos_token_id": [2, 7], "bos_token_id": 1)"), {}, 0, R"({"eos_token_id": [7, 9]})");
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(c->arch, "llama");
  EXPECT_EQ(c->kv_heads, 2);
  EXPECT_EQ(c->head_dim, 16);
  EXPECT_FLOAT_EQ(c->attn_scale, 0.25f);
  EXPECT_EQ(c->qkv_bias, Presence::yes);
  EXPECT_EQ(c->out_bias, Presence::yes);
  EXPECT_EQ(c->mlp_bias, Presence::no);
  EXPECT_FALSE(c->tied_head);
  EXPECT_THAT(c->eos_ids, ElementsAre(2, 7, 9));
  EXPECT_EQ(c->bos_id, 1);
  EXPECT_THAT(windows(*c), ElementsAre(0, 0, 0, 0));
  ASSERT_EQ(c->ropes.size(), 1u);
  EXPECT_EQ(c->ropes[0].rot, 16);
}

TEST(Config, ClassDefaultsFillWhatFilesLeaveOut) {
  const auto mistral = parse_json(json_of("MistralForCausalLM", R"("num_key_value_heads": 4)"));  // no sliding_window: the class has 4096
  ASSERT_TRUE(mistral) << mistral.error().message();
  EXPECT_THAT(windows(*mistral), ElementsAre(4096, 4096, 4096, 4096));
  const auto never = parse_json(json_of("MistralForCausalLM", R"("num_key_value_heads": 4, "sliding_window": null)"));
  ASSERT_TRUE(never);
  EXPECT_THAT(windows(*never), ElementsAre(0, 0, 0, 0));
  // As google/gemma-3-4b-it publishes it: most numbers are the class's.
  const auto gemma = parse_json(R"({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "eos_token_id": [1, 106],
      "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 6, "sliding_window": 1024,
                      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})");
  ASSERT_TRUE(gemma) << gemma.error().message();
  EXPECT_EQ(gemma->vocab, 262208);
  EXPECT_EQ(gemma->heads, 8);
  EXPECT_EQ(gemma->kv_heads, 4);
  EXPECT_EQ(gemma->head_dim, 256);
  EXPECT_FLOAT_EQ(gemma->attn_scale, 1 / 16.0f);
  EXPECT_TRUE(gemma->tied_head);
  EXPECT_THAT(windows(*gemma), ElementsAre(1024, 1024, 1024, 1024, 1024, 0));
  ASSERT_EQ(gemma->ropes.size(), 2u);
  EXPECT_FLOAT_EQ(gemma->ropes[0].inv_freq[0], 0.125f);  // global: scaled
  EXPECT_FLOAT_EQ(gemma->ropes[1].inv_freq[0], 1.0f);    // local: not
  EXPECT_EQ(gemma->layer[0].rope_index, 1);
  EXPECT_EQ(gemma->layer[5].rope_index, 0);
  EXPECT_THAT(gemma->eos_ids, ElementsAre(1, 106));
}

TEST(Config, BiasesThatBelongToTheClassIgnoreTheFile) {
  const auto c = parse_json(json_of("Qwen2ForCausalLM", R"("num_key_value_heads": 4, "attention_bias": false)"));
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(c->qkv_bias, Presence::yes);
  EXPECT_EQ(c->out_bias, Presence::no);
}

TEST(Config, WindowsAndRotationByLayer) {
  struct {
    const char* cls;
    const char* more;
    std::vector<int64_t> windows;
    std::vector<bool> rope;
  } const cases[] = {
      {"Qwen2ForCausalLM", R"("num_key_value_heads": 4, "use_sliding_window": false, "sliding_window": 32, "max_window_layers": 2)", {0, 0, 0, 0}, {1, 1, 1, 1}},
      {"Qwen2ForCausalLM", R"("num_key_value_heads": 4, "use_sliding_window": true, "sliding_window": 32, "max_window_layers": 3)", {0, 0, 0, 32}, {1, 1, 1, 1}},
      {"Qwen2ForCausalLM", R"("num_key_value_heads": 4, "sliding_window": 32,
                              "layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"])", {32, 0, 0, 0}, {1, 1, 1, 1}},
      {"SmolLM3ForCausalLM", R"("no_rope_layers": [1, 0, 1, 0])", {0, 0, 0, 0}, {1, 0, 1, 0}},
      {"SmolLM3ForCausalLM", R"("use_sliding_window": true, "sliding_window": 8)", {0, 0, 0, 8}, {1, 1, 1, 0}},
      {"Gemma2ForCausalLM", R"("sliding_window": 8)", {8, 0, 8, 0}, {1, 1, 1, 1}},
      {"Phi3ForCausalLM", R"("sliding_window": 8)", {8, 8, 8, 8}, {1, 1, 1, 1}},
      {"LlamaForCausalLM", R"("sliding_window": 8)", {0, 0, 0, 0}, {1, 1, 1, 1}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(c.cls) + " " + c.more);
    const auto r = parse_json(json_of(c.cls, c.more));
    ASSERT_TRUE(r) << r.error().message();
    EXPECT_EQ(windows(*r), c.windows);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(r->layer[i].rope, c.rope[i]) << i;
  }
}

TEST(Config, ChunksAndQueriesThatGrow) {
  const auto c = parse_json(json_of("Llama4ForCausalLM", R"("num_key_value_heads": 2, "head_dim": 16, "attention_chunk_size": 32, "no_rope_layers": [],
                                    "interleave_moe_layer_step": 2, "intermediate_size_mlp": 80)"));
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(windows(*c), (std::vector<int64_t>{32, 32, 32, 0}));
  EXPECT_EQ(c->ffn, 80);
  EXPECT_EQ(c->moe.ffn, 96);
  EXPECT_EQ(c->moe.shared_ffn, 96);
  EXPECT_TRUE(c->moe.routing.on_input && c->moe.routing.by_logits && c->unit_heads);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(c->layer[i].chunked, i < 3);
    EXPECT_EQ(c->layer[i].grows, i == 3);
    EXPECT_EQ(c->layer[i].moe, i % 2 == 1);
  }
  EXPECT_EQ(c->growth.offset, 1);
  EXPECT_FLOAT_EQ(c->growth.period, 8192);
  const auto m = parse_json(json_of("Mistral3ForConditionalGeneration", R"("model_type": "ministral3", "head_dim": 16, "num_key_value_heads": 2,
      "rope_parameters": {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 64, "rope_theta": 1e6, "llama_4_scaling_beta": 0.1})"));
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_EQ(m->arch, "ministral3");
  EXPECT_FLOAT_EQ(m->growth.beta, 0.1f);
  EXPECT_FLOAT_EQ(m->growth.period, 64);
  EXPECT_TRUE(m->layer[0].grows);
}

TEST(Config, LayersOfOtherGeometryAndSharedKeys) {
  const auto c = parse_json(json_of("Gemma4ForCausalLM", R"("head_dim": 32, "global_head_dim": 64, "num_key_value_heads": 2, "attention_k_eq_v": true,
      "num_global_key_value_heads": 1, "num_kv_shared_layers": 2, "use_double_wide_mlp": true, "sliding_window": 16, "hidden_size_per_layer_input": 8,
      "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"])"));
  ASSERT_TRUE(c) << c.error().message();
  const int dims[] = {32, 64, 32, 64}, kv_heads[] = {2, 1, 2, 1}, from[] = {-1, -1, 0, 1};
  const int64_t ffn[] = {96, 96, 192, 192};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(c->layer[i].head_dim, dims[i]);
    EXPECT_EQ(c->layer[i].kv_heads, kv_heads[i]);
    EXPECT_EQ(c->layer[i].kv_of, from[i]);
    EXPECT_EQ(c->layer[i].ffn, ffn[i]);
    EXPECT_EQ(c->layer[i].values_are_keys, i % 2 == 1);
  }
  ASSERT_EQ(c->ropes.size(), 2u);
  EXPECT_EQ(c->ropes[0].rot, 64);
  EXPECT_EQ(c->ropes[1].rot, 32);
  EXPECT_GT(c->ropes[0].inv_freq[7], 0);
  EXPECT_EQ(c->ropes[0].inv_freq[8], 0);  // a quarter of the dimensions turns
  EXPECT_FLOAT_EQ(c->attn_scale, 1);
  const auto s = parse_json(json_of("Step3p5ForCausalLM", R"("num_attention_groups": 2, "head_dim": 16, "sliding_window": 16,
      "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"], "attention_other_setting": {"num_attention_heads": 6,
      "num_attention_groups": 2, "head_dim": 16}, "rope_theta": [5000000.0, 10000.0, 10000.0, 5000000.0], "partial_rotary_factors": [0.5, 1.0, 1.0, 0.5],
      "moe_layers_enum": "1,3", "moe_num_experts": 8, "moe_top_k": 3, "moe_intermediate_size": 32, "share_expert_dim": 48, "moe_router_scaling_factor": 3.0,
      "swiglu_limits": [0.0, null, 0.0, 7.0], "swiglu_limits_shared": [0.0, 0.0, 2.0, 16.0])"));
  ASSERT_TRUE(s) << s.error().message();
  EXPECT_EQ(s->layer[1].heads, 6);
  EXPECT_EQ(s->layer[0].heads, 4);
  EXPECT_EQ(s->ropes[0].rot, 8);
  EXPECT_EQ(s->ropes[1].rot, 16);
  EXPECT_TRUE(!s->layer[0].moe && s->layer[1].moe && !s->layer[2].moe && s->layer[3].moe);
  EXPECT_EQ(s->moe.shared_ffn, 48);
  EXPECT_FLOAT_EQ(s->moe.routing.scale, 3);
  EXPECT_FLOAT_EQ(s->layer[3].expert_clamp, 7);
  EXPECT_FLOAT_EQ(s->layer[2].clamp, 2);
  const auto m = parse_json(json_of("MiMoV2FlashForCausalLM", R"("head_dim": 24, "v_head_dim": 16, "num_key_value_heads": 1, "swa_num_key_value_heads": 2,
      "hybrid_layer_pattern": [0, 1, 1, 0], "sliding_window_size": 16, "moe_layer_freq": [0, 1, 1, 1], "n_routed_experts": 8,
      "moe_intermediate_size": 32)"));
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_EQ(windows(*m), (std::vector<int64_t>{0, 17, 17, 0}));
  EXPECT_EQ(m->layer[1].kv_heads, 2);
  EXPECT_EQ(m->layer[1].value_dim, 16);
  EXPECT_TRUE(m->layer[1].sinks && !m->layer[0].sinks && !m->layer[0].moe);
}

TEST(Config, WhatTransformers5Writes) {
  const auto c = parse_json(json_of("Gemma4ForCausalLM", R"("head_dim": 32, "num_key_value_heads": 2, "layer_types": ["sliding_attention", "full_attention",
      "sliding_attention", "full_attention"], "per_layer_config": {"1": {"head_dim": 64, "num_key_value_heads": 1}, "3": {"head_dim": 64}})"));
  ASSERT_TRUE(c) << c.error().message();
  const int dims[] = {32, 64, 32, 64}, kv_heads[] = {2, 1, 2, 2};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(c->layer[i].head_dim, dims[i]);
    EXPECT_EQ(c->layer[i].kv_heads, kv_heads[i]);
  }
  // A class default never hides what the file says in other words.
  const auto m = parse_json(json_of("Qwen3MoeForCausalLM", R"("num_key_value_heads": 2, "num_local_experts": 16, "num_experts_per_token": 2)"));
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_EQ(m->moe.experts, 16);
  EXPECT_EQ(m->moe.routing.used, 2);
  const auto s = parse_json(json_of("Mamba2ForCausalLM", R"("num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2,
                                                            "time_step_limit": [0.0, {"__float__": "Infinity"}])"));
  ASSERT_TRUE(s) << s.error().message();
  EXPECT_GT(s->state.dt_high, 1e30f);
}

TEST(Config, HunyuanStretchesItsBaseOnce) {
  const auto c = parse_json(json_of("HunYuanDenseV1ForCausalLM", R"("rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0})"), {}, 1 << 20);
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_NEAR(c->ropes[0].inv_freq[1], std::pow(10000 * std::pow(1000.0, 16.0 / 14), -1.0 / 8), 1e-6);
  EXPECT_TRUE(c->norms_last);
}

TEST(Config, BothRopeStylesMeanTheSame) {
  const auto before = parse_json(json_of("LlamaForCausalLM", R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 64})"));
  const auto after = parse_json(json_of("LlamaForCausalLM", R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                        "high_freq_factor": 4.0, "original_max_position_embeddings": 64})"));
  ASSERT_TRUE(before && after);
  EXPECT_EQ(before->ropes[0].inv_freq, after->ropes[0].inv_freq);
  EXPECT_LT(before->ropes[0].inv_freq[7], 1e-5f);
}

TEST(Config, LongropeChoosesByTheServedLength) {
  const std::string j = json_of("Phi3ForCausalLM", R"("original_max_position_embeddings": 64, "rope_scaling": {"type": "longrope",
                                "short_factor": [1, 1, 1, 1, 1, 1, 1, 1], "long_factor": [2, 2, 2, 2, 2, 2, 2, 2]})");
  for (const auto& [served, first] : {std::pair(int64_t{64}, 1.0f), {65, 0.5f}, {0, 0.5f}}) {  // 0: the model's own 4096
    const auto c = parse_json(j, {}, served);
    ASSERT_TRUE(c) << c.error().message();
    EXPECT_FLOAT_EQ(c->ropes[0].inv_freq[0], first) << served;
    EXPECT_NEAR(c->ropes[0].scale, 1.41421356f, 1e-6);  // sqrt(1 + ln(4096/64) / ln 64)
  }
}

TEST(Config, OverridesReachIntoObjectsOfBothContainers) {
  const auto c = parse_json(json_of("LlamaForCausalLM", R"("rope_scaling": {"type": "linear", "factor": 2.0})"), {{"rope_scaling.factor", "4"}, {"rms_norm_eps", "0.5"}});
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_FLOAT_EQ(c->ropes[0].inv_freq[0], 0.25f);
  EXPECT_FLOAT_EQ(c->norm_eps, 0.5f);
  const auto g = parse_gguf(gguf("llama"), {{"rope_theta", "100"}, {"max_position_embeddings", "77"}});
  ASSERT_TRUE(g) << g.error().message();
  EXPECT_EQ(g->context_length, 77);
  EXPECT_FLOAT_EQ(g->ropes[0].inv_freq[4], 0.1f);
}

TEST(Config, ReadsGgufKeys) {
  auto w = gguf("granite");
  w.u32("granite.attention.head_count_kv", 2).f32("granite.attention.scale", 0.5f).f32("granite.embedding_scale", 12).f32("granite.residual_scale", 0.25f);
  w.f32("granite.logit_scale", 8).u32("granite.rope.dimension_count", 8).f32("granite.rope.freq_base", 100);
  w.string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"a", "<|im_end|>", "<|im_end|>", "c"});
  const int32_t types[] = {1, 3, 1, 1};  // only a control token ends a turn by its text
  w.i32s("tokenizer.ggml.token_type", types).u32("tokenizer.ggml.eos_token_id", 3).u32("tokenizer.ggml.bos_token_id", 0);
  const auto c = parse_gguf(w);
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(c->vocab, 100);
  EXPECT_EQ(c->kv_heads, 2);
  EXPECT_FLOAT_EQ(c->attn_scale, 0.5f);
  EXPECT_FLOAT_EQ(c->embed_scale, 12);
  EXPECT_FLOAT_EQ(c->residual_scale, 0.25f);
  EXPECT_FLOAT_EQ(c->logit_scale, 0.125f);
  EXPECT_EQ(c->ropes[0].rot, 8);
  EXPECT_TRUE(c->tied_head);  // no output.weight
  EXPECT_EQ(c->qkv_bias, Presence::maybe);
  EXPECT_THAT(c->eos_ids, ElementsAre(1, 3));
}

TEST(Config, GgufFactsWithoutAKey) {
  const auto smol = parse_gguf(gguf("smollm3"));
  ASSERT_TRUE(smol) << smol.error().message();
  EXPECT_FALSE(smol->layer[3].rope);
  const auto gemma = parse_gguf(gguf("gemma3").u32("gemma3.attention.sliding_window", 512).u32("gemma3.attention.sliding_window_pattern", 2));
  ASSERT_TRUE(gemma) << gemma.error().message();
  EXPECT_EQ(gemma->act, ops::Activation::gelu_tanh);
  EXPECT_FLOAT_EQ(gemma->embed_scale, 8);
  EXPECT_THAT(windows(*gemma), ElementsAre(512, 0, 512, 0));
  EXPECT_FLOAT_EQ(gemma->attn_scale, 0.25f);
  // The 27B models divide by sqrt(hidden / heads); only their depth tells.
  const auto big = parse_gguf(gguf("gemma2").u32("gemma2.attention.key_length", 64), {{"num_hidden_layers", "46"}});
  ASSERT_TRUE(big) << big.error().message();
  EXPECT_FLOAT_EQ(big->attn_scale, 0.25f);
  const auto old = parse_gguf(gguf("llama").f32("llama.rope.scale_linear", 4));
  ASSERT_TRUE(old) << old.error().message();
  EXPECT_FLOAT_EQ(old->ropes[0].inv_freq[0], 0.25f);
  const float divisors[] = {1, 2, 4, 8, 8, 8, 8, 8};
  const auto llama = parse_gguf(gguf("llama").tensor("rope_freqs.weight", {8}, tensor::DType::f32, divisors));
  ASSERT_TRUE(llama) << llama.error().message();
  EXPECT_FLOAT_EQ(llama->ropes[0].inv_freq[2], 0.1f / 4);
  const auto qwen = parse_gguf(gguf("qwen2").string("qwen2.rope.scaling.type", "yarn").f32("qwen2.rope.scaling.factor", 4)
                                   .u32("qwen2.rope.scaling.original_context_length", 64));
  ASSERT_TRUE(qwen) << qwen.error().message();
  EXPECT_EQ(qwen->qkv_bias, Presence::yes);
  EXPECT_NEAR(qwen->ropes[0].scale, 1.13862944f, 1e-6);
}

struct Bad {
  const char* cls;
  std::string more;
  const char* says;
};

TEST(Config, NamesWhatIsWrongInConfigJson) {
  const Bad cases[] = {
      {"BertModel", "", "'BertModel'"},
      {"LlamaForCausalLM", R"("model_type": "mixtral")", "'mixtral'"},
      {"LlamaForCausalLM", R"("hidden_act": "mish")", "hidden_act is 'mish'"},
      {"LlamaForCausalLM", R"("rope_scaling": {"rope_type": "magic"})", "rope_scaling.rope_type is 'magic'"},
      {"LlamaForCausalLM", R"("rope_scaling": {"rope_type": "linear"})", "rope_scaling.factor is missing"},
      {"LlamaForCausalLM", R"("rope_scaling": {"rope_type": "yarn"})", "rope_scaling.factor is missing"},
      {"LlamaForCausalLM", R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "high_freq_factor": 4})", "rope_scaling.low_freq_factor is missing"},
      {"LlamaForCausalLM", R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1})", "rope_scaling.high_freq_factor is missing"},
      {"LlamaForCausalLM", R"("rope_scaling": 5)", "rope_scaling is 5, must be an object"},
      {"LlamaForCausalLM", R"("rope_parameters": [])", "rope_parameters is "},
      {"LlamaForCausalLM", R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1})", "low_freq_factor 4"},
      {"LlamaForCausalLM", R"("num_key_value_heads": 3)", "num_key_value_heads 3"},
      {"LlamaForCausalLM", R"("num_attention_heads": 5)", "num_attention_heads 5"},
      {"LlamaForCausalLM", R"("num_attention_heads": "four")", "num_attention_heads"},
      {"LlamaForCausalLM", R"("num_hidden_layers": 100000000)", "num_hidden_layers is 100000000"},
      {"LlamaForCausalLM", R"("hidden_size": -64)", "hidden_size is -64"},
      {"LlamaForCausalLM", R"("rms_norm_eps": -1)", "rms_norm_eps is -1"},
      {"LlamaForCausalLM", R"("head_dim": 15)", "15 dimensions"},
      {"LlamaForCausalLM", R"("quantization_config": {"quant_method": "bitnet"})", "quantization_config is set"},
      {"Phi3ForCausalLM", R"("partial_rotary_factor": 0)", "partial_rotary_factor is 0"},
      {"SmolLM3ForCausalLM", R"("no_rope_layers": [1, 1])", "no_rope_layers has 2 entries for 4 layers"},
      {"Qwen2ForCausalLM", R"("num_key_value_heads": 4, "layer_types": ["full_attention"])", "layer_types has 1 entries"},
      {"Qwen2ForCausalLM", R"("num_key_value_heads": 4, "layer_types": ["a", "b", "c", "d"])", "layer_types names 'a'"},
      {"Gemma3ForCausalLM", R"("use_bidirectional_attention": true)", "use_bidirectional_attention"},
      {"Gemma2ForCausalLM", R"("query_pre_attn_scalar": 0)", "query_pre_attn_scalar is 0"},
      {"GraniteForCausalLM", R"("logits_scaling": 0)", "logits_scaling is 0"},
      {"MixtralForCausalLM", R"("num_key_value_heads": 4, "num_local_experts": 0)", "num_local_experts is 0"},
      {"MixtralForCausalLM", R"("num_key_value_heads": 4, "num_local_experts": 5000)", "num_local_experts is 5000"},
      {"MixtralForCausalLM", R"("num_key_value_heads": 4, "num_experts_per_tok": 9)", "num_experts_per_tok is 9"},
      {"Qwen3MoeForCausalLM", R"("scoring_func": "magic")", "scoring_func is 'magic'"},
      {"Qwen3MoeForCausalLM", R"("routed_scaling_factor": 0)", "routed_scaling_factor is 0"},
      {"Qwen3MoeForCausalLM", R"("routed_scaling_factor": -1)", "routed_scaling_factor is -1"},
      {"Qwen3MoeForCausalLM", R"("topk_method": "magic")", "topk_method is 'magic'"},
      {"Qwen3MoeForCausalLM", R"("n_group": 7)", "n_group 7"},
      {"Qwen3MoeForCausalLM", R"("n_group": 64, "topk_group": 1)", "fewer than the 8 experts"},
      {"Qwen3MoeForCausalLM", R"("moe_intermediate_size": [768, 512])", "moe_intermediate_size differs between layers"},
      {"Qwen3MoeForCausalLM", R"("decoder_sparse_step": 0)", "decoder_sparse_step is 0"},
      {"Llama4ForCausalLM", R"("num_key_value_heads": 2, "layer_types": ["chunked_attention", "full_attention", "full_attention", "full_attention"], "attention_chunk_size": null)",
       "attention_chunk_size is not set"},
      {"Llama4ForCausalLM", R"("num_key_value_heads": 2, "layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"])", "names 'sliding_attention'"},
      {"Llama4ForCausalLM", R"("num_key_value_heads": 2, "moe_layers": [4])", "moe_layers names layer 4"},
      {"Llama4ForCausalLM", R"("num_key_value_heads": 2, "floor_scale": 0)", "floor_scale is 0"},
      {"Cohere2ForCausalLM", R"("use_qk_norm": true)", "use_qk_norm is true"},
      {"HunYuanDenseV1ForCausalLM", R"("rope_scaling": {"type": "dynamic", "alpha": -1})", "alpha is -1"},
      {"HunYuanDenseV1ForCausalLM", R"("use_cla": true)", "use_cla is true"},
      {"Gemma4ForCausalLM", R"("num_kv_shared_layers": 4)", "num_kv_shared_layers is 4"},
      {"Gemma4ForCausalLM", R"("num_kv_shared_layers": 3, "layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"])",
       "leaves layer 1 no earlier one"},
      {"Gemma4ForCausalLM", R"("attention_k_eq_v": true, "num_global_key_value_heads": 3, "layer_types": ["sliding_attention", "full_attention",
                               "full_attention", "full_attention"])", "layer 1 has 4 heads, no multiple of its 3"},
      {"Gemma4ForCausalLM", R"("use_bidirectional_attention": "all")", "use_bidirectional_attention is"},
      {"Gemma4ForCausalLM", R"("hidden_size_per_layer_input": -1)", "hidden_size_per_layer_input is -1"},
      {"Gemma3nForCausalLM", R"("num_kv_shared_layers": 0, "activation_sparsity_pattern": [0.95, 0.3, 0, 0])", "activation_sparsity_pattern holds 0.3"},
      {"Gemma3nForCausalLM", R"("num_kv_shared_layers": 0, "activation_sparsity_pattern": [0.95])", "activation_sparsity_pattern has 1 entries"},
      {"Gemma3nForCausalLM", R"("num_kv_shared_layers": 0, "altup_active_idx": 4)", "altup_active_idx is 4"},
      {"Gemma3nForCausalLM", R"("num_kv_shared_layers": 0, "intermediate_size": [96, 96])", "intermediate_size has 2 entries"},
      {"MiMoV2FlashForCausalLM", R"("n_routed_experts": 8, "moe_intermediate_size": 32, "v_head_dim": 256)", "v_head_dim is 256"},
      {"MiMoV2FlashForCausalLM", R"("n_routed_experts": 8, "moe_intermediate_size": 32, "hybrid_layer_pattern": [0, 1])", "hybrid_layer_pattern has 2 entries"},
      {"MiMoV2FlashForCausalLM", R"("n_routed_experts": 8, "moe_intermediate_size": 32, "moe_layer_freq": [0, 1])", "moe_layer_freq has 2 entries"},
      {"Step3p5ForCausalLM", R"("num_attention_groups": 2, "moe_num_experts": 8, "moe_top_k": 2, "swiglu_limits": [0, 1])", "swiglu_limits has 2 entries"},
      {"Step3p5ForCausalLM", R"("num_attention_groups": 2, "moe_num_experts": 8, "moe_top_k": 2, "use_head_wise_attn_gate": false)",
       "use_head_wise_attn_gate is false"},
      {"Lfm3ForCausalLM", R"("layer_types": ["conv", "conv", "conv", "full_attention"], "use_sandwich_norm": false)", "use_sandwich_norm is false"},
      {"Qwen3MoeForCausalLM", R"("mlp_layer_types": ["dense"])", "mlp_layer_types has 1 entries"},
      {"Qwen3MoeForCausalLM", R"("mlp_layer_types": ["dense", "sparse", "x", "sparse"])", "mlp_layer_types names 'x'"},
  };
  for (const Bad& c : cases) {
    SCOPED_TRACE(c.says);
    const auto r = parse_json(json_of(c.cls, c.more));
    ASSERT_FALSE(r);
    EXPECT_THAT(r.error().message(), HasSubstr(c.says));
    EXPECT_THAT(r.error().source, HasSubstr("config.json"));
    EXPECT_FALSE(r.error().remedy.empty()) << r.error().message();
  }
}

TEST(Config, NamesWhatIsWrongInGguf) {
  const std::vector<float> many(5000, 1.0f);
  const float few[] = {1, 1};
  const std::pair<test::GgufWriter, const char*> cases[] = {
      {gguf("rwkv7"), "'rwkv7'"},
      {gguf("qwen2").u32("qwen2.expert_count", 8), "qwen2.expert_count is 8"},
      {gguf("llama").u32("llama.expert_count", 8), "num_experts_per_tok"},  // a Mixtral that does not say how many experts a token goes to
      {gguf("llama").u32("llama.expert_count", 8).u32("llama.expert_used_count", 9), "llama.expert_used_count"},
      {gguf("qwen3moe").u32("qwen3moe.expert_count", 8).u32("qwen3moe.expert_used_count", 2).u32("qwen3moe.expert_gating_func", 9), "expert_gating_func is 9"},
      {gguf("qwen2").boolean("qwen2.attention.causal", false), "qwen2.attention.causal is false"},
      {gguf("llama").string("llama.rope.scaling.type", "magic"), "'magic'"},
      {gguf("llama").tensor("rope_freqs.weight", {5000}, tensor::DType::f32, many), "rope_freqs.weight has 5000"},
      {gguf("llama").tensor("rope_freqs.weight", {2}, tensor::DType::f32, few), "rope_freqs.weight has 2 entries"},
      {gguf("llama").u32("llama.attention.head_count_kv", 0), "llama.attention.head_count_kv"},
      {gguf("llama").u32("llama.attention.key_length", 32).u32("llama.attention.value_length", 64), "value_length 64"},
      {gguf("llama").u32("llama.rope.dimension_count", 64), "llama.rope.dimension_count"},
      {gguf("llama").string("llama.rope.freq_base", "high"), "llama.rope.freq_base"},
      {gguf("mamba2").u32("mamba2.ssm.conv_kernel", 4), "mamba2.ssm.state_size"},
      {gguf("mamba2").u32("mamba2.ssm.conv_kernel", 1).u32("mamba2.ssm.state_size", 16).u32("mamba2.ssm.time_step_rank", 8).u32("mamba2.ssm.group_count", 1)
           .u32("mamba2.ssm.inner_size", 128), "mamba2.ssm.conv_kernel"},
      {gguf("mamba2").u32("mamba2.ssm.conv_kernel", 4).u32("mamba2.ssm.state_size", 16).u32("mamba2.ssm.time_step_rank", 7).u32("mamba2.ssm.group_count", 1)
           .u32("mamba2.ssm.inner_size", 128), "mamba2.ssm.inner_size is 128, no multiple of ssm.time_step_rank 7"},
  };
  for (const auto& [w, says] : cases) {
    SCOPED_TRACE(says);
    const auto r = parse_gguf(w);
    ASSERT_FALSE(r);
    EXPECT_THAT(r.error().message(), HasSubstr(says));
    EXPECT_FALSE(r.error().source.empty());
    EXPECT_FALSE(r.error().remedy.empty()) << r.error().message();
  }
}

TEST(Config, UnknownArchitecturesListTheSupportedOnes) {
  const auto r = parse_gguf(gguf("rwkv7"));
  ASSERT_FALSE(r);
  for (const char* name : {"llama (", "qwen3", "gemma3", "Olmo2ForCausalLM"}) EXPECT_THAT(r.error().remedy, HasSubstr(name));
}

}  // namespace
}  // namespace isotope::models
