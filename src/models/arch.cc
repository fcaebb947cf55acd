#include "models/arch.h"

#include <fmt/format.h>

#include "models/encoder_arch.h"
#include "models/orders.h"

namespace isotope::models {
namespace {

template <class T>
std::unique_ptr<Transformer> make() {
  return std::make_unique<T>();
}

constexpr MoeNames kMixtralMoe = {.router = "block_sparse_moe.gate.weight", .expert = "block_sparse_moe.experts.", .gate = "w1.weight", .up = "w3.weight",
                                  .down = "w2.weight"};
constexpr MoeNames kQwenMoe = {.router = "mlp.gate.weight", .expert = "mlp.experts.", .gate = "gate_proj.weight", .up = "up_proj.weight",
                               .down = "down_proj.weight", .stacked_gate_up = "mlp.experts.gate_up_proj", .stacked_down = "mlp.experts.down_proj"};
constexpr MoeNames with_shared(MoeNames n, std::string_view shared, std::string_view gate = {}) {
  n.shared = shared, n.shared_gate = gate;
  return n;
}
constexpr MoeNames kQwen2Moe = with_shared(kQwenMoe, "mlp.shared_expert.", "mlp.shared_expert_gate.weight");
constexpr MoeNames kGraniteMoe = {.router = "block_sparse_moe.router.layer.weight", .stacked_gate_up = "block_sparse_moe.input_linear.weight",
                                  .stacked_down = "block_sparse_moe.output_linear.weight"};

constexpr MoeNames with_bias(MoeNames n, std::string_view router, std::string_view bias) {
  n.router = router, n.bias = bias;
  return n;
}
constexpr MoeNames kMiniMaxMoe = with_bias(kMixtralMoe, kMixtralMoe.router, "block_sparse_moe.e_score_correction_bias");
constexpr MoeNames kMiniMax3Moe = with_shared(kMiniMaxMoe, "block_sparse_moe.shared_experts.");
constexpr MoeNames kDeepSeek4Moe = {.router = "ffn.gate.weight", .bias = "ffn.gate.bias", .expert = "ffn.experts.", .gate = "w1.weight", .up = "w3.weight",
                                    .down = "w2.weight", .shared = "ffn.shared_experts.", .shared_part = {"w1.weight", "w3.weight", "w2.weight"},
                                    .by_token = "ffn.gate.tid2eid"};
constexpr MoeNames kDeepSeek41Moe = {.router = "ffn.gate.weight", .bias = "ffn.gate.bias", .expert = "ffn.experts.", .gate = "w1.weight", .up = "w3.weight",
                                     .down = "w2.weight", .shared = "ffn.shared_experts.", .shared_part = {"w1.weight", "w3.weight", "w2.weight"}};
constexpr MoeNames kDeepSeek2Moe = with_shared(kQwenMoe, "mlp.shared_experts.");
constexpr MoeNames kDeepSeekMoe = with_bias(with_shared(kQwenMoe, "mlp.shared_experts."), kQwenMoe.router, "mlp.gate.e_score_correction_bias");
constexpr MoeNames kLfm2Moe = {.router = "feed_forward.gate.weight", .bias = "feed_forward.expert_bias", .expert = "feed_forward.experts.", .gate = "w1.weight",
                               .up = "w3.weight", .down = "w2.weight"};
constexpr MoeNames kErnieMoe = with_bias(with_shared(kQwenMoe, "mlp.shared_experts."), kQwenMoe.router, "mlp.moe_statics.e_score_correction_bias");
constexpr MoeNames kHunyuan3Moe = with_bias(with_shared(kQwenMoe, "mlp.shared_mlp."), "mlp.router.gate.weight", "mlp.expert_bias");

constexpr MoeNames with_joined_shared(MoeNames n, std::string_view gate_up, std::string_view down) {
  n.shared_gate_up = gate_up, n.shared_down = down;
  return n;
}
constexpr MoeNames kGraniteHybridMoe = with_joined_shared(kGraniteMoe, "shared_mlp.input_linear.weight", "shared_mlp.output_linear.weight");
constexpr MoeNames kNemotronMoe = {.router = "mixer.gate.weight", .bias = "mixer.gate.e_score_correction_bias", .expert = "mixer.experts.",
                                   .up = "up_proj.weight", .down = "down_proj.weight", .stacked_up = "mixer.experts.up_proj",
                                   .stacked_down = "mixer.experts.down_proj", .shared = "mixer.shared_experts.",
                                   .to_latent = "mixer.fc1_latent_proj.weight", .from_latent = "mixer.fc2_latent_proj.weight"};
constexpr MoeNames kJambaMoe = {.router = "feed_forward.router.weight", .expert = "feed_forward.experts.", .gate = "gate_proj.weight", .up = "up_proj.weight",
                                .down = "down_proj.weight", .stacked_gate_up = "feed_forward.experts.gate_up_proj",
                                .stacked_down = "feed_forward.experts.down_proj"};
constexpr MoeNames kKimiLinearMoe = with_bias(with_shared(kMixtralMoe, "block_sparse_moe.shared_experts."), kMixtralMoe.router,
                                              "block_sparse_moe.gate.e_score_correction_bias");
constexpr MoeNames kBailingMoe = with_bias(with_shared(kQwenMoe, "mlp.shared_experts."), kQwenMoe.router, "mlp.gate.expert_bias");

constexpr MoeNames kHunyuanMoe = with_bias(with_shared(kQwenMoe, "mlp.shared_mlp."), "mlp.gate.wg.weight", {});
constexpr MoeNames kLlama4Moe = {.router = "feed_forward.router.weight", .stacked_gate_up = "feed_forward.experts.gate_up_proj",
                                 .stacked_down = "feed_forward.experts.down_proj", .shared = "feed_forward.shared_expert.", .turned = true};
constexpr MoeNames kGemma4Moe = {.router = "router.proj.weight", .stacked_gate_up = "experts.gate_up_proj", .stacked_down = "experts.down_proj",
                                 .expert_scale = "router.per_expert_scale"};
constexpr MoeNames kLongcatMoe = with_bias(kQwenMoe, "mlp.router.classifier.weight", "mlp.router.e_score_correction_bias");
constexpr MoeNames kStepMoe = {.router = "moe.gate.weight", .bias = "moe.router_bias", .stacked_gate = "moe.gate_proj.weight",
                               .stacked_up = "moe.up_proj.weight", .stacked_down = "moe.down_proj.weight", .shared = "share_expert."};
constexpr MoeNames kGptOssMoe = {.router = "mlp.router.weight", .stacked_gate_up = "mlp.experts.gate_up_proj", .stacked_down = "mlp.experts.down_proj",
                                 .turned = true, .alternate = true, .router_bias = "mlp.router.bias", .stacked_gate_up_bias = "mlp.experts.gate_up_proj_bias",
                                 .stacked_down_bias = "mlp.experts.down_proj_bias", .mxfp4_gate_up = "mlp.experts.gate_up_proj",
                                 .mxfp4_down = "mlp.experts.down_proj"};

constexpr DraftNames kDeepSeekDrafts = {.join = "eh_proj.weight", .embed_norm = "enorm.weight", .hidden_norm = "hnorm.weight", .norm = "shared_head.norm.weight",
                                        .embed = "embed_tokens.weight", .head = "shared_head.head.weight"};
constexpr DraftNames kQwenDrafts = {.layer = "mtp.layers.{}.", .own = "mtp.", .join = "fc.weight", .embed_norm = "pre_fc_norm_embedding.weight",
                                    .hidden_norm = "pre_fc_norm_hidden.weight", .norm = "norm.weight", .embed = "embed_tokens.weight"};
constexpr DraftNames kDeepSeek4Drafts = {.layer = "mtp.{}.", .embed_norm = "enorm.weight", .hidden_norm = "hnorm.weight", .norm = "norm.weight",
                                         .embed = "embed.weight", .head = "head.weight", .from_embed = "e_proj.weight", .from_hidden = "h_proj.weight",
                                         .streams = "hc_head_"};
constexpr DraftNames kMimoDrafts = {.layer = "mtp.layers.{}.", .join = "eh_proj.weight", .embed_norm = "enorm.weight", .hidden_norm = "hnorm.weight",
                                    .norm = "final_layernorm.weight", .embed = "embed_tokens.weight", .slides = true, .dense = true,
                                    .ffn_norm = "pre_mlp_layernorm.weight"};
constexpr DraftNames kStepDrafts = {.join = "eh_proj.weight", .embed_norm = "enorm.weight", .hidden_norm = "hnorm.weight",
                                    .norm = "transformer.shared_head.norm.weight", .embed = "embed_tokens.weight",
                                    .head = "transformer.shared_head.output.weight", .raw = true, .dense = true};

constexpr Arch kArchs[] = {
    {.name = "llama", .gguf = "llama", .classes = "LlamaForCausalLM LLaMAForCausalLM", .model_type = "llama", .make = make<Dense>, .rows = dense_rows,
     .gguf_pairs = true, .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048})"},
    {.name = "mistral", .gguf = "mistral3", .classes = "MistralForCausalLM Mistral3ForConditionalGeneration", .model_type = "mistral",
     .make = make<Dense>, .rows = dense_rows, .windows = WindowRule::every, .gguf_pairs = true,
     .defaults = R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-6, "max_position_embeddings": 131072, "sliding_window": 4096})"},
    {.name = "smollm3", .gguf = "smollm3", .classes = "SmolLM3ForCausalLM", .model_type = "smollm3", .make = make<Dense>, .rows = dense_rows,
     .windows = WindowRule::nope, .gguf_pairs = true,
     .defaults = R"({"num_key_value_heads": 4, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "rope_theta": 2000000.0,
                     "no_rope_layer_interval": 4, "tie_word_embeddings": true})",
     .gguf_defaults = R"({"no_rope_layer_interval": 4})"},
    {.name = "qwen2", .gguf = "qwen2", .classes = "Qwen2ForCausalLM", .model_type = "qwen2", .make = make<Dense>, .rows = dense_rows,
     .windows = WindowRule::from_layer, .qkv_bias = Presence::yes,
     .defaults = R"({"num_key_value_heads": 32, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28})"},
    {.name = "qwen3", .gguf = "qwen3", .classes = "Qwen3ForCausalLM", .model_type = "qwen3", .make = make<Dense>, .rows = qk_norm_rows,
     .windows = WindowRule::from_layer,
     .defaults = R"({"num_key_value_heads": 32, "head_dim": 128, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "sliding_window": 4096,
                     "max_window_layers": 28})"},
    {.name = "gemma", .gguf = "gemma", .classes = "GemmaForCausalLM", .model_type = "gemma", .make = make<Dense>, .rows = dense_rows,
     .hf_norm_shift = 1, .scaled_embedding = true,
     .defaults = R"({"num_key_value_heads": 16, "head_dim": 256, "rms_norm_eps": 1e-6, "max_position_embeddings": 8192,
                     "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true})",
     .gguf_defaults = R"({"hidden_activation": "gelu_pytorch_tanh"})"},
    {.name = "gemma2", .gguf = "gemma2", .classes = "Gemma2ForCausalLM", .model_type = "gemma2", .make = make<Sandwich>, .rows = sandwich_rows,
     .windows = WindowRule::pattern, .hf_norm_shift = 1, .scaled_embedding = true, .scalar_layers = 46,
     .defaults = R"({"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6, "max_position_embeddings": 8192,
                     "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true, "query_pre_attn_scalar": 256, "sliding_window": 4096,
                     "sliding_window_pattern": 2, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0})",
     .gguf_defaults = R"({"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4096, "sliding_window_pattern": 2})"},
    {.name = "gemma3", .gguf = "gemma3", .classes = "Gemma3ForCausalLM Gemma3ForConditionalGeneration", .model_type = "gemma3_text",
     .make = make<Sandwich>, .rows = sandwich_qk_rows, .windows = WindowRule::pattern, .hf_norm_shift = 1, .scaled_embedding = true, .scalar_layers = 62,
     .defaults = R"({"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6,
                     "max_position_embeddings": 131072, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true,
                     "query_pre_attn_scalar": 256, "sliding_window": 4096, "sliding_window_pattern": 6, "rope_theta": 1000000.0,
                     "rope_local_base_freq": 10000.0})",
     .gguf_defaults = R"({"hidden_activation": "gelu_pytorch_tanh", "sliding_window_pattern": 6, "rope_theta": 1000000.0,
                          "rope_local_base_freq": 10000.0})"},
    {.name = "phi3", .gguf = "phi3", .classes = "Phi3ForCausalLM", .model_type = "phi3", .make = make<Dense>, .rows = dense_rows,
     .windows = WindowRule::every,
     .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "original_max_position_embeddings": 4096})"},
    {.name = "olmo2", .gguf = "olmo2", .classes = "Olmo2ForCausalLM", .model_type = "olmo2", .make = make<PostNorm>, .rows = post_norm_rows,
     .windows = WindowRule::pattern, .local_plain = true,  // GGUF calls OLMo 3 olmo2 as well
     .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 2048})"},
    {.name = "olmo3", .gguf = "", .classes = "Olmo3ForCausalLM", .model_type = "olmo3", .make = make<PostNorm>, .rows = post_norm_rows,
     .windows = WindowRule::pattern, .local_plain = true,
     .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "sliding_window": 4096, "sliding_window_pattern": 4})"},
    {.name = "granite", .gguf = "granite", .classes = "GraniteForCausalLM", .model_type = "granite", .make = make<Dense>, .rows = dense_rows,
     .gguf_pairs = true,
     .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "attention_multiplier": 1.0})"},
    {.name = "mixtral", .gguf = "llama", .classes = "MixtralForCausalLM", .model_type = "mixtral", .make = make<Dense>, .rows = dense_rows,
     .moe = &kMixtralMoe, .windows = WindowRule::every, .gguf_pairs = true,
     .defaults = R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "rope_theta": 1000000.0, "num_local_experts": 8,
                     "num_experts_per_tok": 2, "norm_topk_prob": true})",
     .gguf_defaults = R"({"norm_topk_prob": true})"},
    {.name = "qwen2moe", .gguf = "qwen2moe", .classes = "Qwen2MoeForCausalLM", .model_type = "qwen2_moe", .make = make<Dense>, .rows = dense_rows,
     .moe = &kQwen2Moe, .windows = WindowRule::from_layer, .qkv_bias = Presence::yes,
     .defaults = R"({"num_key_value_heads": 16, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28,
                     "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632})"},
    {.name = "qwen3moe", .gguf = "qwen3moe", .classes = "Qwen3MoeForCausalLM", .model_type = "qwen3_moe", .make = make<Dense>, .rows = qk_norm_rows,
     .moe = &kQwenMoe, .windows = WindowRule::from_layer,
     .defaults = R"({"num_key_value_heads": 4, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "sliding_window": 4096, "max_window_layers": 28,
                     "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768})",
     .gguf_defaults = R"({"norm_topk_prob": true})"},
    {.name = "olmoe", .gguf = "olmoe", .classes = "OlmoeForCausalLM", .model_type = "olmoe", .make = make<Dense>, .rows = wide_norm_rows, .moe = &kQwenMoe,
     .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "num_experts": 64, "num_experts_per_tok": 8})"},
    {.name = "granitemoe", .gguf = "granitemoe", .classes = "GraniteMoeForCausalLM", .model_type = "granitemoe", .make = make<Dense>, .rows = dense_rows,
     .moe = &kGraniteMoe, .gguf_pairs = true,
     .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "attention_multiplier": 1.0, "num_local_experts": 8, "num_experts_per_tok": 2,
                     "norm_topk_prob": true})",
     .gguf_defaults = R"({"norm_topk_prob": true})"},
    {.name = "seed_oss", .gguf = "seed_oss", .classes = "SeedOssForCausalLM", .model_type = "seed_oss", .make = make<Dense>, .rows = late_norm_rows,
     .defaults = R"({"num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6, "max_position_embeddings": 524288, "attention_bias": true,
                     "attention_out_bias": false})"},
    {.name = "ernie4_5", .gguf = "ernie4_5", .classes = "Ernie4_5ForCausalLM", .model_type = "ernie4_5", .make = make<Dense>, .rows = dense_rows,
     .interleaved = true,
     .defaults = R"({"num_key_value_heads": 2, "head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "rope_theta": 500000.0,
                     "tie_word_embeddings": true})"},
    {.name = "ernie4_5_moe", .gguf = "ernie4_5-moe", .classes = "Ernie4_5_MoeForCausalLM", .model_type = "ernie4_5_moe", .make = make<Dense>,
     .rows = dense_rows, .moe = &kErnieMoe, .interleaved = true,
     .defaults = R"({"num_key_value_heads": 4, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "rope_theta": 500000.0, "norm_topk_prob": true,
                     "tie_word_embeddings": true, "moe_num_experts": 64, "moe_k": 6, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
                     "moe_intermediate_size": 1536})",
     .gguf_defaults = R"({"norm_topk_prob": true})"},
    {.name = "glm4", .gguf = "glm4", .classes = "Glm4ForCausalLM", .model_type = "glm4", .make = make<Sandwich>,
     .rows = glm4_rows, .interleaved = true,
     .defaults = R"({"num_key_value_heads": 2, "head_dim": 128, "rms_norm_eps": 1.5625e-7, "max_position_embeddings": 131072, "partial_rotary_factor": 0.5,
                     "attention_bias": true, "attention_out_bias": false})"},
    {.name = "glm4moe", .gguf = "glm4moe", .classes = "Glm4MoeForCausalLM", .model_type = "glm4_moe", .make = make<Dense>, .rows = late_norm_qk_rows,
     .moe = &kDeepSeekMoe, .drafts = &kDeepSeekDrafts, .qk_norm = Presence::maybe,
     .defaults = R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "partial_rotary_factor": 0.5, "scoring_func": "sigmoid",
                     "n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 1408, "norm_topk_prob": true,
                     "first_k_dense_replace": 1, "attention_out_bias": false})",
     .gguf_defaults = R"({"scoring_func": "sigmoid", "norm_topk_prob": true})"},
    {.name = "deepseek_v2", .gguf = "", .classes = "DeepseekV2ForCausalLM", .model_type = "deepseek_v2", .make = make<Dense>,
     .rows = latent_rows, .moe = &kDeepSeek2Moe, .interleaved = true, .latent = true,  // V3's row reads its GGUF files
     .defaults = R"({"num_attention_heads": 32, "rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "n_routed_experts": 64, "n_shared_experts": 2,
                     "moe_intermediate_size": 1407, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                     "v_head_dim": 128, "topk_method": "greedy"})"},
    {.name = "deepseek_v3", .gguf = "deepseek2", .classes = "DeepseekV3ForCausalLM KimiK25ForConditionalGeneration", .model_type = "deepseek_v3 kimi_k2",
     .make = make<Dense>, .rows = latent_rows, .moe = &kDeepSeekMoe, .drafts = &kDeepSeekDrafts, .interleaved = true, .latent = true,
     .defaults = R"({"num_attention_heads": 128, "rms_norm_eps": 1e-6, "max_position_embeddings": 4096, "n_routed_experts": 256, "n_shared_experts": 1,
                     "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
                     "qk_rope_head_dim": 64, "v_head_dim": 128, "n_group": 8, "topk_group": 4, "scoring_func": "sigmoid", "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 3})"},
    {.name = "deepseek_v32", .gguf = "deepseek32", .classes = "DeepseekV32ForCausalLM", .model_type = "deepseek_v32", .make = make<Dense>, .rows = latent_rows,
     .moe = &kDeepSeekMoe, .drafts = &kDeepSeekDrafts, .interleaved = true, .latent = true, .sparse = Sparse::latent,
     .defaults = R"({"num_attention_heads": 128, "rms_norm_eps": 1e-6, "max_position_embeddings": 163840, "n_routed_experts": 256, "n_shared_experts": 1,
                     "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
                     "qk_rope_head_dim": 64, "v_head_dim": 128, "n_group": 8, "topk_group": 4, "scoring_func": "sigmoid", "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 3, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048})",
     .gguf_defaults = R"({"scoring_func": "sigmoid", "norm_topk_prob": true})"},
    {.name = "glm_moe_dsa", .gguf = "glm-dsa", .classes = "GlmMoeDsaForCausalLM", .model_type = "glm_moe_dsa", .make = make<Dense>, .rows = latent_rows,
     .moe = &kDeepSeekMoe, .drafts = &kDeepSeekDrafts, .interleaved = true, .latent = true, .sparse = Sparse::latent, .index_pairs = true,
     .defaults = R"({"num_attention_heads": 64, "rms_norm_eps": 1e-5, "max_position_embeddings": 202752, "n_routed_experts": 256, "n_shared_experts": 1,
                     "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "kv_lora_rank": 512, "q_lora_rank": 2048, "qk_nope_head_dim": 192,
                     "qk_rope_head_dim": 64, "v_head_dim": 256, "scoring_func": "sigmoid", "norm_topk_prob": true, "routed_scaling_factor": 2.5,
                     "first_k_dense_replace": 3, "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048})",
     .gguf_defaults = R"({"scoring_func": "sigmoid", "norm_topk_prob": true})"},
    {.name = "deepseek_v4", .gguf = "deepseek4", .classes = "DeepseekV4ForCausalLM", .model_type = "deepseek_v4", .make = make<Streamed>, .rows = deepseek4_rows,
     .globals = deepseek4_globals, .moe = &kDeepSeek4Moe, .drafts = &kDeepSeek4Drafts, .interleaved = true, .sparse = Sparse::compressed,
     .hyper = Hyper::mixed, .hyper_names = {"hc_attn_", "hc_ffn_", "hc_head_"},
     .defaults = R"({"num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "rms_norm_eps": 1e-6, "max_position_embeddings": 1048576,
                     "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 6, "moe_intermediate_size": 2048, "q_lora_rank": 1024,
                     "scoring_func": "sqrtsoftplus", "norm_topk_prob": true, "routed_scaling_factor": 1.5, "sliding_window": 128, "o_groups": 8,
                     "o_lora_rank": 1024, "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512, "hc_mult": 4, "hc_sinkhorn_iters": 20,
                     "hc_eps": 1e-6, "swiglu_limit": 10.0})",
     .gguf_defaults = R"({"scoring_func": "sqrtsoftplus", "norm_topk_prob": true, "num_key_value_heads": 1, "num_hash_layers": 0})"},
    {.name = "deepseek_v41", .gguf = "", .classes = "DeepseekV41ForCausalLM", .model_type = "deepseek_v41_text deepseek_v41", .make = make<Late>,
     .rows = deepseek4_rows, .globals = deepseek4_globals, .moe = &kDeepSeek41Moe, .interleaved = true, .sparse = Sparse::shared,
     .hyper = Hyper::mixed, .hyper_names = {"hc_attn_", "hc_ffn_", ""},
     .defaults = R"({"num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "rms_norm_eps": 1e-20, "max_position_embeddings": 1048576,
                     "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 6, "moe_intermediate_size": 2304, "q_lora_rank": 1280,
                     "scoring_func": "sqrtsoftplus", "norm_topk_prob": true, "routed_scaling_factor": 1.5, "sliding_window": 128, "o_groups": 8,
                     "o_lora_rank": 1024, "index_n_heads": 32, "index_head_dim": 128, "index_topk": 512, "hc_mult": 4, "hc_sinkhorn_iters": 20,
                     "hc_eps": 1e-6, "swiglu_limit": 10.0, "engram_pad_token_id": 2})"},
    {.name = "hy_v4", .gguf = "", .classes = "HYV4ForCausalLM", .model_type = "hy_v4", .make = make<Streamed>,
     .rows = latent_sink_rows, .moe = &kDeepSeekMoe, .clamped_swiglu = true, .latent = true, .sparse = Sparse::latent, .index_last = true, .index_eps = true,
     .hyper = Hyper::apart, .hyper_names = {"hc_pre.hc_attn_layer.hc_", "hc_pre.hc_mlp_layer.hc_", "hc_pre.hc_head.hc_head_"},
     .defaults = R"({"num_attention_heads": 32, "rms_norm_eps": 1e-5, "max_position_embeddings": 262144, "intermediate_size": 6912, "n_routed_experts": 256,
                     "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "kv_lora_rank": 512, "q_lora_rank": 1536,
                     "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "latent_gate": true, "scoring_func": "sigmoid",
                     "norm_topk_prob": true, "routed_scaling_factor": 2.827, "first_k_dense_replace": 1, "index_n_heads": 16, "index_head_dim": 128,
                     "index_topk": 2048, "index_topk_freq": 4, "index_skip_topk_offset": 2, "hc_mult": 4, "hc_magnitude": 2.0, "hc_eps": 1e-6,
                     "swiglu_limit": 10.0, "swiglu_alpha": 0.0})"},
    {.name = "glm5_next", .gguf = "", .classes = "Glm5NextForConditionalGeneration Glm5NextForCausalLM", .model_type = "glm5_next_text", .make = make<Streamed>,
     .rows = latent_rows, .mixer = Mixer::channel_delta, .mixer_names = "self_attn.", .moe = &kDeepSeekMoe, .clamped_swiglu = true, .latent = true,
     .sparse = Sparse::latent, .latent_eps = true, .hyper = Hyper::averaged, .hyper_names = {"hc_attn_", "hc_ffn_", ""},
     .defaults = R"({"num_attention_heads": 64, "rms_norm_eps": 1e-5, "max_position_embeddings": 1048576, "intermediate_size": 12288, "n_routed_experts": 288,
                     "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "kv_lora_rank": 512, "q_lora_rank": 1536,
                     "qk_nope_head_dim": 256, "qk_rope_head_dim": 0, "v_head_dim": 256, "scoring_func": "sigmoid", "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 3, "full_attention_interval": 4, "index_n_heads": 32, "index_head_dim": 128,
                     "index_topk": 2048, "index_kpool": 16, "linear_head_dim": 128, "linear_num_heads": 64, "linear_conv_kernel_dim": 4,
                     "linear_lower_bound": -5.0, "hc_mult": 4, "hc_eps": 1e-6, "hc_sinkhorn_iters": 20, "swiglu_limit": 10.0, "swiglu_alpha": 0.0,
                     "swiglu_limit_everywhere": true})"},
    {.name = "glm4_moe_lite", .gguf = "", .classes = "Glm4MoeLiteForCausalLM", .model_type = "glm4_moe_lite", .make = make<Dense>, .rows = latent_rows,
     .moe = &kDeepSeekMoe, .drafts = &kDeepSeekDrafts, .interleaved = true, .latent = true,
     .defaults = R"({"num_attention_heads": 20, "rms_norm_eps": 1e-5, "max_position_embeddings": 202752, "n_routed_experts": 64, "n_shared_experts": 1,
                     "num_experts_per_tok": 4, "moe_intermediate_size": 1536, "kv_lora_rank": 512, "q_lora_rank": 768, "qk_nope_head_dim": 192,
                     "qk_rope_head_dim": 64, "v_head_dim": 256, "scoring_func": "sigmoid", "norm_topk_prob": true, "routed_scaling_factor": 1.8,
                     "first_k_dense_replace": 1})"},
    {.name = "minimax_m2", .gguf = "minimax-m2", .classes = "MiniMaxM2ForCausalLM", .model_type = "minimax_m2", .make = make<Dense>,
     .rows = wide_norm_rows,
     .moe = &kMiniMaxMoe,
     .defaults = R"({"num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6, "max_position_embeddings": 196608, "rope_theta": 5000000.0,
                     "rotary_dim": 64, "scoring_func": "sigmoid", "num_local_experts": 256, "num_experts_per_tok": 8, "norm_topk_prob": true})",
     .gguf_defaults = R"({"scoring_func": "sigmoid", "norm_topk_prob": true})"},
    {.name = "minimax_m3", .gguf = "minimax-m3", .classes = "MiniMaxM3SparseForConditionalGeneration MiniMaxM3VLForCausalLM", .model_type = "minimax_m3_vl_text",
     .make = make<Dense>, .rows = qk_norm_rows, .moe = &kMiniMax3Moe, .hf_norm_shift = 1, .clamped_swiglu = true, .sparse = Sparse::blocks,
     .defaults = R"({"num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "rms_norm_eps": 1e-6, "max_position_embeddings": 524288,
                     "rope_theta": 5000000.0, "partial_rotary_factor": 0.5, "intermediate_size": 3072, "dense_intermediate_size": 12288,
                     "shared_intermediate_size": 3072, "num_local_experts": 128, "num_experts_per_tok": 4, "scoring_func": "sigmoid",
                     "norm_topk_prob": true, "routed_scaling_factor": 2.0, "index_n_heads": 4, "index_head_dim": 128, "index_block_size": 128,
                     "index_topk_blocks": 16, "index_local_blocks": 1})",
     .gguf_defaults = R"({"scoring_func": "sigmoid", "norm_topk_prob": true, "hidden_act": "swigluoai"})"},
    {.name = "dots1", .gguf = "dots1", .classes = "Dots1ForCausalLM", .model_type = "dots1", .make = make<Dense>,
     .rows = qk_norm_rows, .moe = &kDeepSeekMoe,
     .windows = WindowRule::from_layer,
     .defaults = R"({"num_key_value_heads": 32, "rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "scoring_func": "sigmoid"})",
     .gguf_defaults = R"({"scoring_func": "sigmoid"})"},
    {.name = "hy_v3", .gguf = "hy_v3", .classes = "HYV3ForCausalLM", .model_type = "hy_v3", .make = make<Dense>,
     .rows = qk_norm_rows, .moe = &kHunyuan3Moe,
     .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 262144, "scoring_func": "sigmoid", "route_norm": true, "num_shared_experts": 1,
                     "first_k_dense_replace": 1})",
     .gguf_defaults = R"({"scoring_func": "sigmoid", "route_norm": true, "first_k_dense_replace": 1})"},
    {.name = "exaone4", .gguf = "exaone4", .classes = "Exaone4ForCausalLM", .model_type = "exaone4", .make = make<PostNorm>,
     .rows = post_norm_qk_rows,
     .windows = WindowRule::pattern, .nope_full = true,
     .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 2048})",
     .gguf_defaults = R"({"sliding_window_pattern": 4})"},
    {.name = "ministral3", .gguf = "", .classes = "Ministral3ForCausalLM Mistral3ForConditionalGeneration", .model_type = "ministral3",
     .make = make<Dense>, .rows = dense_rows, .windows = WindowRule::every, .gguf_pairs = true,  // GGUF: the row "mistral"
     .defaults = R"({"num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 262144})"},
    {.name = "cohere2", .gguf = "cohere2", .classes = "Cohere2ForCausalLM", .model_type = "cohere2", .make = make<Parallel>, .rows = parallel_rows,
     .windows = WindowRule::pattern, .interleaved = true, .nope_full = true, .layer_norms = true, .logit_factor = true,
     .defaults = R"({"layer_norm_eps": 1e-5, "max_position_embeddings": 8192, "logit_scale": 0.0625, "sliding_window": 4096, "sliding_window_pattern": 4,
                     "tie_word_embeddings": true})",
     .gguf_defaults = R"({"sliding_window_pattern": 4})"},
    {.name = "starcoder2", .gguf = "starcoder2", .classes = "Starcoder2ForCausalLM", .model_type = "starcoder2", .make = make<Dense>,
     .rows = starcoder_rows, .globals = layer_norm_globals, .windows = WindowRule::every, .layer_norms = true,
     .defaults = R"({"num_key_value_heads": 2, "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5, "max_position_embeddings": 4096, "use_bias": true,
                     "tie_word_embeddings": true})",
     .gguf_defaults = R"({"hidden_act": "gelu_pytorch_tanh"})"},
    {.name = "hunyuan_v1_dense", .gguf = "hunyuan-dense", .classes = "HunYuanDenseV1ForCausalLM", .model_type = "hunyuan_v1_dense", .make = make<Dense>,
     .rows = hunyuan_rows, .norms_last = true, .qk_norm = Presence::maybe,
     .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "use_qk_norm": true})"},
    {.name = "hunyuan_v1_moe", .gguf = "hunyuan-moe", .classes = "HunYuanMoEV1ForCausalLM", .model_type = "hunyuan_v1_moe", .make = make<Dense>,
     .rows = hunyuan_rows, .moe = &kHunyuanMoe, .norms_last = true, .qk_norm = Presence::maybe,
     .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "use_qk_norm": true, "num_experts": 1, "moe_topk": 1, "num_shared_expert": 1,
                     "norm_topk_prob": true})",
     .gguf_defaults = R"({"norm_topk_prob": true})"},
    {.name = "llama4", .gguf = "llama4", .classes = "Llama4ForConditionalGeneration Llama4ForCausalLM", .model_type = "llama4_text", .make = make<Dense>,
     .rows = llama4_rows, .moe = &kLlama4Moe, .windows = WindowRule::chunks, .interleaved = true, .unit_heads = true, .weighted_input = true,
     .by_logits = true,
     .defaults = R"({"num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "rope_theta": 500000.0,
                     "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_experts_per_tok": 1, "num_local_experts": 16, "num_shared_experts": 1,
                     "scoring_func": "sigmoid", "interleave_moe_layer_step": 1, "no_rope_layer_interval": 4, "attention_chunk_size": 8192,
                     "attn_temperature_tuning": true, "floor_scale": 8192, "attn_scale": 0.1, "use_qk_norm": true})",
     .gguf_defaults = R"({"num_shared_experts": 1, "scoring_func": "sigmoid", "no_rope_layer_interval": 4, "attention_chunk_size": 8192,
                          "attn_temperature_tuning": true, "floor_scale": 8192, "attn_scale": 0.1})"},
    {.name = "gemma4", .gguf = "gemma4", .classes = "Gemma4ForConditionalGeneration Gemma4ForCausalLM", .model_type = "gemma4_text", .make = make<Gemma4>,
     .rows = gemma4_rows, .globals = layer_input_globals, .moe = &kGemma4Moe, .windows = WindowRule::pattern, .scaled_embedding = true, .unit_values = true,
     .by_layer = true,
     .defaults = R"({"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512, "rms_norm_eps": 1e-6,
                     "max_position_embeddings": 131072, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true, "attention_multiplier": 1.0,
                     "sliding_window": 512, "sliding_window_pattern": 6, "attention_k_eq_v": false, "enable_moe_block": false, "norm_topk_prob": true,
                     "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144,
                     "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                         "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}}})",
     .gguf_defaults = R"({"hidden_activation": "gelu_pytorch_tanh", "attention_multiplier": 1.0, "norm_topk_prob": true, "rope_theta": 1000000.0,
                          "rope_local_base_freq": 10000.0})"},
    {.name = "gemma3n", .gguf = "gemma3n", .classes = "Gemma3nForConditionalGeneration Gemma3nForCausalLM", .model_type = "gemma3n_text",
     .make = make<Gemma3n>, .rows = gemma3n_rows, .globals = layer_input_globals, .windows = WindowRule::pattern, .scaled_embedding = true,
     .unit_values = true, .by_layer = true,
     .defaults = R"({"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768,
                     "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": true, "attention_multiplier": 1.0, "sliding_window": 512,
                     "sliding_window_pattern": 5, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "final_logit_softcapping": 30.0,
                     "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144, "num_kv_shared_layers": 15, "altup_active_idx": 0,
                     "altup_num_inputs": 4, "altup_correct_scale": true, "laurel_rank": 64})",
     .gguf_defaults = R"({"hidden_activation": "gelu_pytorch_tanh", "attention_multiplier": 1.0, "sliding_window_pattern": 5, "rope_theta": 1000000.0,
                          "rope_local_base_freq": 10000.0})"},
    {.name = "mimo_v2_flash", .gguf = "mimo2", .classes = "MiMoV2FlashForCausalLM", .model_type = "mimo_v2_flash", .make = make<Dense>, .rows = mimo_rows,
     .moe = &kDeepSeekMoe, .drafts = &kMimoDrafts, .windows = WindowRule::pattern, .by_layer = true,
     .defaults = R"({"num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 262144,
                     "rope_theta": 5000000.0, "swa_rope_theta": 10000.0, "partial_rotary_factor": 0.334, "sliding_window": 129,
                     "add_swa_attention_sink_bias": true, "scoring_func": "sigmoid", "norm_topk_prob": true, "num_experts_per_tok": 8})",
     .gguf_defaults = R"({"add_swa_attention_sink_bias": true, "scoring_func": "sigmoid", "norm_topk_prob": true})"},
    {.name = "step3p5", .gguf = "step35", .classes = "Step3p5ForCausalLM Step3p7ForConditionalGeneration", .model_type = "step3p5", .make = make<Dense>,
     .rows = step_rows, .moe = &kStepMoe, .drafts = &kStepDrafts, .windows = WindowRule::pattern, .hf_norm_shift = 1, .by_layer = true,
     .defaults = R"({"num_attention_groups": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "max_position_embeddings": 128000, "moe_router_activation": "sigmoid",
                     "norm_expert_weight": true, "moe_intermediate_size": 1280, "share_expert_dim": 1280})",
     .gguf_defaults = R"({"scoring_func": "sigmoid", "norm_topk_prob": true})"},
    {.name = "lfm3", .gguf = "", .classes = "Lfm3ForCausalLM", .model_type = "lfm3", .make = make<Sandwich>, .rows = lfm3_rows, .globals = lfm2_globals,
     .mixer = Mixer::conv, .mixer_names = "conv.", .windows = WindowRule::pattern,
     .defaults = R"({"num_key_value_heads": 4, "head_dim": 128, "norm_eps": 1e-5, "max_position_embeddings": 128000, "intermediate_size": 7680,
                     "conv_L_cache": 7, "sliding_window": 256, "tie_word_embeddings": true,
                     "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                         "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5}}})"},
    {.name = "mistral4", .gguf = "mistral4", .classes = "Mistral4ForCausalLM Mistral3ForConditionalGeneration", .model_type = "mistral4",
     .make = make<Dense>, .rows = latent_rows, .moe = &kDeepSeek2Moe, .interleaved = true, .latent = true,
     .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 1048576, "num_experts_per_tok": 4, "norm_topk_prob": true, "n_shared_experts": 1,
                     "routed_scaling_factor": 1.0})",
     .gguf_defaults = R"({"norm_topk_prob": true})"},
    {.name = "longcat_flash", .gguf = "", .classes = "LongcatFlashForCausalLM", .model_type = "longcat_flash", .make = make<Shortcut>, .rows = longcat_rows,
     .sublayers = 2, .latent_names = "self_attn.{}.", .moe = &kLongcatMoe, .interleaved = true, .latent = true,
     .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "rope_theta": 10000000.0, "moe_topk": 12, "routed_scaling_factor": 6.0,
                     "mla_scale_q_lora": true, "mla_scale_kv_lora": true})"},
    {.name = "gpt_oss", .gguf = "gpt-oss", .classes = "GptOssForCausalLM", .model_type = "gpt_oss", .make = make<Dense>,
     .rows = sink_rows, .moe = &kGptOssMoe,
     .windows = WindowRule::pattern, .clamped_swiglu = true, .by_logits = true,
     .defaults = R"({"num_key_value_heads": 8, "head_dim": 64, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "rope_theta": 150000.0,
                     "attention_bias": true, "sliding_window": 128, "sliding_window_pattern": 2, "num_local_experts": 128, "num_experts_per_tok": 4,
                     "norm_topk_prob": true})",
     .gguf_defaults = R"({"norm_topk_prob": true, "sliding_window_pattern": 2, "rope_scaling": {"truncate": false}})"},
    {.name = "qwen3_next", .gguf = "qwen3next", .classes = "Qwen3NextForCausalLM", .model_type = "qwen3_next", .make = make<Dense>, .rows = late_norm_qk_rows,
     .mixer = Mixer::delta, .mixer_names = "linear_attn.", .query_gate = true, .moe = &kQwen2Moe, .drafts = &kQwenDrafts, .hf_norm_shift = 1,
     .defaults = R"({"num_key_value_heads": 2, "head_dim": 256, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "partial_rotary_factor": 0.25,
                     "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
                     "linear_num_value_heads": 32, "full_attention_interval": 4, "num_experts": 512, "num_experts_per_tok": 10,
                     "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "norm_topk_prob": true})",
     .gguf_defaults = R"({"norm_topk_prob": true})"},
    {.name = "qwen3_5", .gguf = "qwen35", .classes = "Qwen3_5ForConditionalGeneration Qwen3_5ForCausalLM", .model_type = "qwen3_5_text", .make = make<Dense>,
     .rows = late_norm_qk_rows, .mixer = Mixer::delta, .mixer_names = "linear_attn.", .query_gate = true, .drafts = &kQwenDrafts, .hf_norm_shift = 1,
     .defaults = R"({"num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "partial_rotary_factor": 0.25,
                     "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
                     "linear_num_value_heads": 32, "full_attention_interval": 4})",
     .gguf_defaults = R"({"linear_heads_tiled": true})"},
    {.name = "qwen3_5_moe", .gguf = "qwen35moe", .classes = "Qwen3_5MoeForConditionalGeneration Qwen3_5MoeForCausalLM", .model_type = "qwen3_5_moe_text",
     .make = make<Dense>, .rows = late_norm_qk_rows, .mixer = Mixer::delta, .mixer_names = "linear_attn.", .query_gate = true, .moe = &kQwen2Moe,
     .drafts = &kQwenDrafts, .hf_norm_shift = 1,
     .defaults = R"({"num_key_value_heads": 2, "head_dim": 256, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "partial_rotary_factor": 0.25,
                     "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
                     "linear_num_value_heads": 32, "full_attention_interval": 4, "num_experts": 256, "num_experts_per_tok": 8,
                     "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "norm_topk_prob": true})",
     .gguf_defaults = R"({"linear_heads_tiled": true, "norm_topk_prob": true})"},
    {.name = "qwen4_exp", .gguf = "", .classes = "Qwen4ExpForConditionalGeneration Qwen4ExpForCausalLM", .model_type = "qwen4_exp_text", .make = make<Streamed>,
     .rows = normless_rows, .globals = normless_globals, .mixer = Mixer::delta, .mixer_names = "linear_attn.", .query_gate = true, .moe = &kQwen2Moe,
     .hf_norm_shift = 1, .sparse = Sparse::pooled, .hyper = Hyper::low_rank,
     .hyper_names = {"attn_hyper_connection.", "mlp_hyper_connection.", "hyper_connection_mixer."},
     .defaults = R"({"num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768,
                     "partial_rotary_factor": 0.25, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
                     "linear_num_key_heads": 16, "linear_num_value_heads": 32, "full_attention_interval": 4, "num_experts": 512, "num_experts_per_tok": 10,
                     "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "norm_topk_prob": true, "hc_count": 4, "hc_lowrank": 320,
                     "ple_conv_kernel_size": 4, "ngram_size": 3, "heads_per_ngram": 8, "ngram_vocab_size_base": 20000000,
                     "make_ngram_vocab_size_divisible_by": 128, "seed": 1234, "split_ngram_parts": 512})"},
    {.name = "lfm2", .gguf = "lfm2", .classes = "Lfm2ForCausalLM", .model_type = "lfm2", .make = make<Dense>, .rows = lfm2_rows, .globals = lfm2_globals,
     .mixer = Mixer::conv, .mixer_names = "conv.",
     .defaults = R"({"num_key_value_heads": 8, "norm_eps": 1e-5, "max_position_embeddings": 128000, "rope_theta": 1000000.0, "conv_L_cache": 3,
                     "intermediate_size": 12288, "block_auto_adjust_ff_dim": true, "tie_word_embeddings": true})"},
    {.name = "lfm2_moe", .gguf = "lfm2moe", .classes = "Lfm2MoeForCausalLM", .model_type = "lfm2_moe", .make = make<Dense>, .rows = lfm2_rows,
     .globals = lfm2_globals, .mixer = Mixer::conv, .mixer_names = "conv.", .moe = &kLfm2Moe,
     .defaults = R"({"num_key_value_heads": 8, "norm_eps": 1e-5, "max_position_embeddings": 128000, "rope_theta": 1000000.0, "conv_L_cache": 3,
                     "intermediate_size": 7168, "moe_intermediate_size": 1792, "num_dense_layers": 2, "num_experts": 32, "num_experts_per_tok": 4,
                     "scoring_func": "sigmoid", "norm_topk_prob": true, "tie_word_embeddings": true})",
     .gguf_defaults = R"({"scoring_func": "sigmoid", "norm_topk_prob": true})"},
    {.name = "mamba", .gguf = "mamba", .classes = "MambaForCausalLM", .model_type = "mamba", .make = make<Single>, .rows = mamba_rows, .globals = mamba_globals,
     .mixer = Mixer::mamba1, .mixer_names = "mixer.",
     .defaults = R"({"num_attention_heads": 1, "head_dim": 64, "intermediate_size": 1, "layer_norm_epsilon": 1e-5, "max_position_embeddings": 1048576,
                     "state_size": 16, "conv_kernel": 4, "expand": 2, "time_step_rank": "auto", "tie_word_embeddings": true})",
     .gguf_defaults = R"({"num_attention_heads": 1, "head_dim": 64, "intermediate_size": 1})"},
    {.name = "mamba2", .gguf = "mamba2", .classes = "Mamba2ForCausalLM", .model_type = "mamba2", .make = make<Single>, .rows = mamba_rows,
     .globals = mamba_globals, .mixer = Mixer::mamba2, .mixer_names = "mixer.",
     .defaults = R"({"num_attention_heads": 1, "head_dim": 64, "intermediate_size": 1, "layer_norm_epsilon": 1e-5, "max_position_embeddings": 1048576,
                     "num_heads": 128, "state_size": 128, "n_groups": 8, "conv_kernel": 4})",
     .gguf_defaults = R"({"num_attention_heads": 1, "head_dim": 64, "intermediate_size": 1})"},
    {.name = "granitemoehybrid", .gguf = "granitehybrid", .classes = "GraniteMoeHybridForCausalLM", .model_type = "granitemoehybrid", .make = make<Dense>,
     .rows = granite_hybrid_rows, .mixer = Mixer::mamba2, .mixer_names = "mamba.", .moe = &kGraniteHybridMoe, .maybe_moe = true, .gguf_pairs = true,
     .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "attention_multiplier": 1.0, "num_local_experts": 8, "num_experts_per_tok": 2,
                     "norm_topk_prob": true, "shared_intermediate_size": 1024, "position_embedding_type": "nope", "mamba_n_heads": 128, "mamba_n_groups": 1,
                     "mamba_d_state": 256, "mamba_d_head": "auto", "mamba_d_conv": 4, "mamba_expand": 2})",
     .gguf_defaults = R"({"norm_topk_prob": true})"},
    {.name = "nemotron_h", .gguf = "nemotron_h nemotron_h_moe", .classes = "NemotronHForCausalLM", .model_type = "nemotron_h", .make = make<Single>, .rows = nemotron_rows,
     .globals = mamba_globals, .mixer = Mixer::mamba2, .mixer_names = "mixer.", .one_block = true, .moe = &kNemotronMoe, .maybe_moe = true,
     .defaults = R"({"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "layer_norm_epsilon": 1e-5, "max_position_embeddings": 4096,
                     "intermediate_size": 21504, "mlp_hidden_act": "relu2", "no_rope_layer_interval": 1, "ssm_state_size": 128, "mamba_num_heads": 128,
                     "mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4, "n_routed_experts": 8, "num_experts_per_tok": 2, "scoring_func": "sigmoid",
                     "norm_topk_prob": true, "moe_intermediate_size": 7688, "moe_shared_expert_intermediate_size": 7688})",
     .gguf_defaults = R"({"mlp_hidden_act": "relu2", "no_rope_layer_interval": 1, "scoring_func": "sigmoid", "norm_topk_prob": true})"},
    {.name = "falcon_h1", .gguf = "falcon-h1", .classes = "FalconH1ForCausalLM", .model_type = "falcon_h1", .make = make<Beside>, .rows = falcon_rows,
     .globals = final_norm_globals, .mixer = Mixer::mamba2, .mixer_names = "mamba.", .beside = true,
     .defaults = R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "max_position_embeddings": 8192, "mamba_d_ssm": 1024, "mamba_n_heads": 128,
                     "mamba_d_head": "auto", "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_rms_norm": false,
                     "mamba_norm_before_gate": true})"},
    {.name = "jamba", .gguf = "jamba", .classes = "JambaForCausalLM", .model_type = "jamba", .make = make<Dense>, .rows = jamba_rows,
     .globals = final_norm_globals, .mixer = Mixer::mamba1, .mixer_names = "mamba.", .moe = &kJambaMoe, .maybe_moe = true,
     .defaults = R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-6, "max_position_embeddings": 262144, "no_rope_layer_interval": 1, "num_experts": 16,
                     "num_experts_per_tok": 2, "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 8, "attn_layer_offset": 4,
                     "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": "auto", "mamba_norms_steps": true})",
     .gguf_defaults = R"({"no_rope_layer_interval": 1, "mamba_norms_steps": true})"},
    {.name = "kimi_linear", .gguf = "kimi-linear", .classes = "KimiLinearForCausalLM", .model_type = "kimi_linear", .make = make<Dense>, .rows = latent_rows,
     .mixer = Mixer::channel_delta, .mixer_names = "self_attn.", .moe = &kKimiLinearMoe, .latent = true,
     .defaults = R"({"num_attention_heads": 32, "rms_norm_eps": 1e-5, "model_max_length": 1048576, "no_rope_layer_interval": 1, "kv_lora_rank": 512,
                     "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "num_experts": 256, "num_experts_per_token": 8,
                     "num_shared_experts": 1, "moe_intermediate_size": 1024, "moe_router_activation_func": "sigmoid", "moe_renormalize": true,
                     "routed_scaling_factor": 2.446, "first_k_dense_replace": 1, "linear_head_dim": 128, "linear_num_heads": 32, "linear_conv_kernel_dim": 4})",
     .gguf_defaults = R"({"no_rope_layer_interval": 1, "scoring_func": "sigmoid", "norm_topk_prob": true})"},
    {.name = "minimax", .gguf = "", .classes = "MiniMaxForCausalLM", .model_type = "minimax", .make = make<NormedResidual>, .rows = dense_rows,
     .mixer = Mixer::lightning, .mixer_names = "self_attn.", .moe = &kMixtralMoe,
     .defaults = R"({"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "rope_theta": 1000000.0, "num_local_experts": 8,
                     "num_experts_per_tok": 2, "norm_topk_prob": true, "mixer_norm_eps": 1e-6})"},
    {.name = "olmo_hybrid", .gguf = "", .classes = "OlmoHybridForCausalLM", .model_type = "olmo_hybrid", .make = make<MixedNorms>,
     .rows = mixed_norm_rows, .mixer = Mixer::delta, .mixer_names = "linear_attn.", .theta_or_nope = true,
     .defaults = R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 65536, "rope_theta": 10000.0, "linear_num_key_heads": 30, "linear_num_value_heads": 30,
                     "linear_key_head_dim": 96, "linear_value_head_dim": 192, "linear_conv_kernel_dim": 4, "linear_allow_neg_eigval": true,
                     "full_attention_interval": 4, "mixer_norm_eps": 1e-5})"},
    {.name = "bailing_hybrid", .gguf = "", .classes = "BailingHybridForCausalLM", .model_type = "bailing_hybrid", .make = make<Dense>, .rows = latent_rows,
     .globals = word_globals, .mixer = Mixer::channel_delta, .mixer_names = "attention.", .latent_names = "attention.", .moe = &kBailingMoe,
     .interleaved = true, .latent = true,
     .defaults = R"({"num_attention_heads": 32, "rms_norm_eps": 1e-6, "model_max_length": 262144, "rope_theta": 6000000.0, "kv_lora_rank": 512,
                     "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "latent_head_gate": true, "layer_group_size": 6, "head_dim": 128,
                     "short_conv_kernel_size": 4, "kda_safe_gate": true, "kda_lower_bound": -5.0, "num_experts": 512, "num_experts_per_token": 8,
                     "num_shared_experts": 1, "moe_intermediate_size": 768, "scoring_func": "sigmoid", "moe_renormalize": true, "num_expert_group": 8, "topk_group": 4,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 2})"},
};

bool has_word(std::string_view words, std::string_view word) {
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

template <class Match>
const Arch* first(Match match) {
  for (const Arch& a : kArchs)
    if (match(a)) return &a;
  return nullptr;
}

}  // namespace

std::span<const Arch> archs() { return kArchs; }
const Arch* arch_by_gguf(std::string_view s, bool moe) {
  const auto named = [&](const Arch& a) { return has_word(a.gguf, s); };
  const Arch* exact = first([&](const Arch& a) { return named(a) && (a.moe != nullptr) == moe; });
  return exact ? exact : first(named);
}
const Arch* arch_by_class(std::string_view s, std::string_view type) {
  const Arch* exact = type.empty() ? nullptr : first([&](const Arch& a) { return has_word(a.classes, s) && has_word(a.model_type, type); });
  return exact ? exact : first([&](const Arch& a) { return has_word(a.classes, s); });
}
const Arch* arch_by_model_type(std::string_view s) { return first([&](const Arch& a) { return has_word(a.model_type, s); }); }
const Arch* arch_by_name(std::string_view s) { return first([&](const Arch& a) { return a.name == s; }); }

bool is_model_type(const Arch& a, std::string_view s) { return has_word(a.model_type, s); }

std::string supported_archs() {
  std::string s;
  for (const Arch& a : kArchs) s += fmt::format("{}{} ({})", s.empty() ? "" : ", ", a.name, a.classes);
  for (const EncoderArch& a : encoder_archs()) s += fmt::format(", {} ({})", a.name, a.classes);
  return s;
}

}  // namespace isotope::models
