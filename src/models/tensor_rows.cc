#include "models/tensor_rows.h"

#include <algorithm>

namespace isotope::models {
namespace {

constexpr std::array<Size, 3> kQkv = {Size::q, Size::kv, Size::kv_values};
constexpr std::array<Size, 3> kGateUp = {Size::ffn, Size::ffn, Size::one};
constexpr Fused qkv(int i) { return {"attn_qkv.weight", "self_attn.qkv_proj.weight", kQkv, 3, i}; }
constexpr Fused qkv_bias(int i) { return {"attn_qkv.bias", "self_attn.qkv_proj.bias", kQkv, 3, i}; }
constexpr Fused shared_gate_up(int i) { return {"", "shared_mlp.input_linear.weight", kGateUp, 2, i}; }
constexpr Fused gate_up(int i) { return {"ffn_up.weight", "mlp.gate_up_proj.weight", kGateUp, 2, i}; }

constexpr GlobalRow kGlobals[] = {
    {.gguf = "token_embd.weight", .hf = "embed_tokens.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::embed},
    {.gguf = "output_norm.weight", .hf = "norm.weight", .rows = Size::hidden, .vector = &Globals::norm},
    {.gguf = "output.weight", .hf = "lm_head.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::head},
};

constexpr GlobalRow kLayerNormGlobals[] = {
    kGlobals[0], kGlobals[1], kGlobals[2],
    {.gguf = "output_norm.bias", .hf = "norm.bias", .rows = Size::hidden, .vector = &Globals::norm_bias},
};
constexpr GlobalRow kLayerInputGlobals[] = {
    kGlobals[0], kGlobals[1], kGlobals[2],
    {.gguf = "per_layer_token_embd.weight", .hf = "embed_tokens_per_layer.weight", .rows = Size::input_vocab, .cols = Size::inputs,
     .weight = &Globals::layer_embed},
    {.gguf = "per_layer_model_proj.weight", .hf = "per_layer_model_projection.weight", .rows = Size::inputs, .cols = Size::hidden,
     .weight = &Globals::layer_project},
    {.gguf = "per_layer_proj_norm.weight", .hf = "per_layer_projection_norm.weight", .rows = Size::input, .vector = &Globals::layer_norm},
};
constexpr GlobalRow kMambaGlobals[] = {
    {.gguf = "token_embd.weight", .hf = "embeddings.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::embed},
    {.gguf = "output_norm.weight", .hf = "norm_f.weight", .rows = Size::hidden, .vector = &Globals::norm},
    {.gguf = "output.weight", .hf = "lm_head.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::head},
};
constexpr GlobalRow kLfm2Globals[] = {
    {.gguf = "token_embd.weight", .hf = "embed_tokens.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::embed},
    {.gguf = "token_embd_norm.weight", .hf = "embedding_norm.weight", .rows = Size::hidden, .vector = &Globals::norm},
    {.gguf = "output.weight", .hf = "lm_head.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::head},
};
constexpr GlobalRow kFinalNormGlobals[] = {
    {.gguf = "token_embd.weight", .hf = "embed_tokens.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::embed},
    {.gguf = "output_norm.weight", .hf = "final_layernorm.weight", .rows = Size::hidden, .vector = &Globals::norm},
    {.gguf = "output.weight", .hf = "lm_head.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::head},
};
constexpr GlobalRow kWordGlobals[] = {
    {.gguf = "token_embd.weight", .hf = "word_embeddings.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::embed},
    {.gguf = "output_norm.weight", .hf = "norm.weight", .rows = Size::hidden, .vector = &Globals::norm},
    {.gguf = "output.weight", .hf = "lm_head.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::head},
};
constexpr GlobalRow kNormless[] = {kGlobals[0], kGlobals[2]};
constexpr LayerRow kMamba[] = {
    {.gguf = "attn_norm.weight", .hf = "norm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
};
constexpr LayerRow kNemotron[] = {
    {.gguf = "attn_norm.weight", .hf = "norm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "attn_q.weight", .hf = "mixer.q_proj.weight", .rows = Size::q, .cols = Size::hidden, .weight = &Layer::q},
    {.gguf = "attn_k.weight", .hf = "mixer.k_proj.weight", .rows = Size::kv, .cols = Size::hidden, .weight = &Layer::k},
    {.gguf = "attn_v.weight", .hf = "mixer.v_proj.weight", .rows = Size::kv, .cols = Size::hidden, .weight = &Layer::v},
    {.gguf = "attn_output.weight", .hf = "mixer.o_proj.weight", .rows = Size::hidden, .cols = Size::q, .weight = &Layer::o},
    {.gguf = "ffn_up.weight", .hf = "mixer.up_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::up, .ffn = true},
    {.gguf = "ffn_down.weight", .hf = "mixer.down_proj.weight", .rows = Size::hidden, .cols = Size::ffn, .weight = &Layer::down, .ffn = true},
    {.gguf = "ffn_up.bias", .hf = "mixer.up_proj.bias", .rows = Size::ffn, .bias = &Layer::up, .when = &ModelConfig::mlp_bias, .ffn = true},
    {.gguf = "ffn_down.bias", .hf = "mixer.down_proj.bias", .rows = Size::hidden, .bias = &Layer::down, .when = &ModelConfig::mlp_bias, .ffn = true},
};
constexpr LayerRow kLfm2[] = {
    {.gguf = "attn_q.weight", .hf = "self_attn.q_proj.weight", .rows = Size::q, .cols = Size::hidden, .weight = &Layer::q, .turns = true},
    {.gguf = "attn_k.weight", .hf = "self_attn.k_proj.weight", .rows = Size::kv, .cols = Size::hidden, .weight = &Layer::k, .turns = true},
    {.gguf = "attn_v.weight", .hf = "self_attn.v_proj.weight", .rows = Size::kv, .cols = Size::hidden, .weight = &Layer::v},
    {.gguf = "attn_output.weight", .hf = "self_attn.out_proj.weight", .rows = Size::hidden, .cols = Size::q, .weight = &Layer::o},
    {.gguf = "attn_q_norm.weight", .hf = "self_attn.q_layernorm.weight", .rows = Size::head, .vector = &Layer::q_norm},
    {.gguf = "attn_k_norm.weight", .hf = "self_attn.k_layernorm.weight", .rows = Size::head, .vector = &Layer::k_norm},
    {.gguf = "attn_norm.weight", .hf = "operator_norm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "ffn_norm.weight", .hf = "ffn_norm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},
    {.gguf = "ffn_gate.weight", .hf = "feed_forward.w1.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::gate, .ffn = true},
    {.gguf = "ffn_up.weight", .hf = "feed_forward.w3.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::up, .ffn = true},
    {.gguf = "ffn_down.weight", .hf = "feed_forward.w2.weight", .rows = Size::hidden, .cols = Size::ffn, .weight = &Layer::down, .ffn = true},
};
constexpr LayerRow kLfm3[] = {
    {.gguf = "attn_norm.weight", .hf = "operator_norm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "post_attention_norm.weight", .hf = "post_operator_norm.weight", .rows = Size::hidden, .vector = &Layer::attn_post_norm},
    {.gguf = "ffn_norm.weight", .hf = "ffn_norm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},
    {.gguf = "post_ffw_norm.weight", .hf = "post_ffn_norm.weight", .rows = Size::hidden, .vector = &Layer::ffn_post_norm},
    {.gguf = "attn_gate.weight", .hf = "self_attn.gate_proj.weight", .rows = Size::heads, .cols = Size::hidden, .weight = &Layer::q_gate,
     .on = On::attending},
    {.gguf = "ffn_gate.weight", .hf = "feed_forward.w1.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::gate, .ffn = true},
    {.gguf = "ffn_up.weight", .hf = "feed_forward.w3.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::up, .ffn = true},
    {.gguf = "ffn_down.weight", .hf = "feed_forward.w2.weight", .rows = Size::hidden, .cols = Size::ffn, .weight = &Layer::down, .ffn = true},
};

constexpr LayerRow kAttention[] = {
    {.gguf = "attn_q.weight", .hf = "self_attn.q_proj.weight", .rows = Size::q, .cols = Size::hidden, .weight = &Layer::q, .turns = true, .fused = qkv(0)},
    {.gguf = "attn_k.weight", .hf = "self_attn.k_proj.weight", .rows = Size::kv, .cols = Size::hidden, .weight = &Layer::k, .turns = true, .fused = qkv(1)},
    {.gguf = "attn_v.weight", .hf = "self_attn.v_proj.weight", .rows = Size::kv_values, .cols = Size::hidden, .weight = &Layer::v, .fused = qkv(2)},
    {.gguf = "attn_output.weight", .hf = "self_attn.o_proj.weight", .rows = Size::hidden, .cols = Size::values, .weight = &Layer::o},
    {.gguf = "attn_q.bias", .hf = "self_attn.q_proj.bias", .rows = Size::q, .bias = &Layer::q, .when = &ModelConfig::qkv_bias, .turns = true,
     .fused = qkv_bias(0)},
    {.gguf = "attn_k.bias", .hf = "self_attn.k_proj.bias", .rows = Size::kv, .bias = &Layer::k, .when = &ModelConfig::qkv_bias, .turns = true,
     .fused = qkv_bias(1)},
    {.gguf = "attn_v.bias", .hf = "self_attn.v_proj.bias", .rows = Size::kv_values, .bias = &Layer::v, .when = &ModelConfig::qkv_bias,
     .fused = qkv_bias(2)},
    {.gguf = "attn_output.bias", .hf = "self_attn.o_proj.bias", .rows = Size::hidden, .bias = &Layer::o, .when = &ModelConfig::out_bias},
};
constexpr LayerRow kFeedForward[] = {
    {.gguf = "ffn_gate.weight", .hf = "mlp.gate_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::gate, .ffn = true, .fused = gate_up(0)},
    {.gguf = "ffn_up.weight", .hf = "mlp.up_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::up, .ffn = true, .fused = gate_up(1)},
    {.gguf = "ffn_down.weight", .hf = "mlp.down_proj.weight", .rows = Size::hidden, .cols = Size::ffn, .weight = &Layer::down, .ffn = true},
    {.gguf = "ffn_gate.bias", .hf = "mlp.gate_proj.bias", .rows = Size::ffn, .bias = &Layer::gate, .when = &ModelConfig::mlp_bias, .ffn = true},
    {.gguf = "ffn_up.bias", .hf = "mlp.up_proj.bias", .rows = Size::ffn, .bias = &Layer::up, .when = &ModelConfig::mlp_bias, .ffn = true},
    {.gguf = "ffn_down.bias", .hf = "mlp.down_proj.bias", .rows = Size::hidden, .bias = &Layer::down, .when = &ModelConfig::mlp_bias, .ffn = true},
};
constexpr LayerRow kSharedMlp[] = {  // Granite's dense hybrids keep the name of what mixtures share
    {.gguf = "ffn_gate.weight", .hf = "", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::gate, .ffn = true, .fused = shared_gate_up(0)},
    {.gguf = "ffn_up.weight", .hf = "", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::up, .ffn = true, .fused = shared_gate_up(1)},
    {.gguf = "ffn_down.weight", .hf = "shared_mlp.output_linear.weight", .rows = Size::hidden, .cols = Size::ffn, .weight = &Layer::down, .ffn = true},
};
constexpr LayerRow kFeedForwardBlock[] = {
    {.gguf = "ffn_gate.weight", .hf = "feed_forward.gate_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::gate, .ffn = true},
    {.gguf = "ffn_up.weight", .hf = "feed_forward.up_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::up, .ffn = true},
    {.gguf = "ffn_down.weight", .hf = "feed_forward.down_proj.weight", .rows = Size::hidden, .cols = Size::ffn, .weight = &Layer::down, .ffn = true},
    {.gguf = "ffn_gate.bias", .hf = "feed_forward.gate_proj.bias", .rows = Size::ffn, .bias = &Layer::gate, .when = &ModelConfig::mlp_bias, .ffn = true},
    {.gguf = "ffn_up.bias", .hf = "feed_forward.up_proj.bias", .rows = Size::ffn, .bias = &Layer::up, .when = &ModelConfig::mlp_bias, .ffn = true},
    {.gguf = "ffn_down.bias", .hf = "feed_forward.down_proj.bias", .rows = Size::hidden, .bias = &Layer::down, .when = &ModelConfig::mlp_bias, .ffn = true},
};
constexpr LayerRow kBlockNorms[] = {
    {.gguf = "attn_norm.weight", .hf = "input_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "ffn_norm.weight", .hf = "pre_ff_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},
};
constexpr LayerRow kFalconNorms[] = {
    {.gguf = "attn_norm.weight", .hf = "input_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "ffn_norm", .hf = "pre_ff_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},  // no .weight, in published files too
};
constexpr LayerRow kMixedNorms[] = {
    {.gguf = "", .hf = "attention_layer_norm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm, .on = On::recurrent},
    {.gguf = "", .hf = "feedforward_layer_norm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm, .on = On::recurrent},
    {.gguf = "", .hf = "post_attention_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_post_norm, .on = On::attending},
    {.gguf = "", .hf = "post_feedforward_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_post_norm, .on = On::attending},
};
constexpr LayerRow kPreNorm[] = {
    {.gguf = "attn_norm.weight", .hf = "input_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "ffn_norm.weight", .hf = "post_attention_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},
};
constexpr LayerRow kLateNorm[] = {
    {.gguf = "attn_norm.weight", .hf = "input_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "post_attention_norm.weight", .hf = "post_attention_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},
};
constexpr LayerRow kSinks[] = {
    {.gguf = "attn_sinks.weight", .hf = "self_attn.sinks", .rows = Size::heads, .vector = &Layer::sinks},
};
constexpr LayerRow kSomeSinks[] = {
    {.gguf = "attn_sinks.weight", .hf = "self_attn.attention_sink_bias", .rows = Size::heads, .vector = &Layer::sinks, .on = On::with_sinks},
};
constexpr LayerRow kLearntSinks[] = {
    {.hf = "self_attn.learnable_sink_param", .rows = Size::heads, .vector = &Layer::sinks},
};
constexpr LayerRow kLongcat[] = {
    {.hf = "input_layernorm.{}.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.hf = "post_attention_layernorm.{}.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},
    {.hf = "mlps.{}.gate_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::gate},
    {.hf = "mlps.{}.up_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::up},
    {.hf = "mlps.{}.down_proj.weight", .rows = Size::hidden, .cols = Size::ffn, .weight = &Layer::down},
};
constexpr LayerRow kHeadGate[] = {
    {.gguf = "attn_gate.weight", .hf = "self_attn.g_proj.weight", .rows = Size::heads, .cols = Size::hidden, .weight = &Layer::q_gate},
};
constexpr LayerRow kGlm4[] = {
    {.gguf = "attn_norm.weight", .hf = "input_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "post_attention_norm.weight", .hf = "post_self_attn_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_post_norm},
    {.gguf = "ffn_norm.weight", .hf = "post_attention_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},
    {.gguf = "post_ffw_norm.weight", .hf = "post_mlp_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_post_norm},
};
constexpr LayerRow kSandwich[] = {
    {.gguf = "attn_norm.weight", .hf = "input_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "post_attention_norm.weight", .hf = "post_attention_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_post_norm},
    {.gguf = "ffn_norm.weight", .hf = "pre_feedforward_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},
    {.gguf = "post_ffw_norm.weight", .hf = "post_feedforward_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_post_norm},
};
constexpr LayerRow kPostNorm[] = {
    {.gguf = "post_attention_norm.weight", .hf = "post_attention_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_post_norm},
    {.gguf = "post_ffw_norm.weight", .hf = "post_feedforward_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_post_norm},
};
constexpr LayerRow kWideNorm[] = {
    {.gguf = "attn_q_norm.weight", .hf = "self_attn.q_norm.weight", .rows = Size::q, .vector = &Layer::q_norm},
    {.gguf = "attn_k_norm.weight", .hf = "self_attn.k_norm.weight", .rows = Size::kv, .vector = &Layer::k_norm},
};
constexpr LayerRow kHeadNorm[] = {
    {.gguf = "attn_q_norm.weight", .hf = "self_attn.q_norm.weight", .rows = Size::head, .vector = &Layer::q_norm, .when = &ModelConfig::qk_norm},
    {.gguf = "attn_k_norm.weight", .hf = "self_attn.k_norm.weight", .rows = Size::head, .vector = &Layer::k_norm, .when = &ModelConfig::qk_norm},
};
constexpr LayerRow kParallel[] = {
    {.gguf = "attn_norm.weight", .hf = "input_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
};
constexpr LayerRow kPreLayerNorm[] = {
    {.gguf = "attn_norm.bias", .hf = "input_layernorm.bias", .rows = Size::hidden, .vector = &Layer::attn_norm_bias},
    {.gguf = "ffn_norm.bias", .hf = "post_attention_layernorm.bias", .rows = Size::hidden, .vector = &Layer::ffn_norm_bias},
};
constexpr LayerRow kUngated[] = {
    {.gguf = "ffn_up.weight", .hf = "mlp.c_fc.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::up, .ffn = true},
    {.gguf = "ffn_down.weight", .hf = "mlp.c_proj.weight", .rows = Size::hidden, .cols = Size::ffn, .weight = &Layer::down, .ffn = true},
    {.gguf = "ffn_up.bias", .hf = "mlp.c_fc.bias", .rows = Size::ffn, .bias = &Layer::up, .when = &ModelConfig::mlp_bias, .ffn = true},
    {.gguf = "ffn_down.bias", .hf = "mlp.c_proj.bias", .rows = Size::hidden, .bias = &Layer::down, .when = &ModelConfig::mlp_bias, .ffn = true},
};
constexpr LayerRow kHunyuanNorm[] = {
    {.gguf = "attn_q_norm.weight", .hf = "self_attn.query_layernorm.weight", .rows = Size::head, .vector = &Layer::q_norm, .when = &ModelConfig::qk_norm},
    {.gguf = "attn_k_norm.weight", .hf = "self_attn.key_layernorm.weight", .rows = Size::head, .vector = &Layer::k_norm, .when = &ModelConfig::qk_norm},
};
constexpr LayerRow kLlama4[] = {
    {.gguf = "ffn_gate.weight", .hf = "feed_forward.gate_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::gate, .ffn = true},
    {.gguf = "ffn_up.weight", .hf = "feed_forward.up_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::up, .ffn = true},
    {.gguf = "ffn_down.weight", .hf = "feed_forward.down_proj.weight", .rows = Size::hidden, .cols = Size::ffn, .weight = &Layer::down, .ffn = true},
};
constexpr LayerRow kLayerInput[] = {
    {.gguf = "inp_gate.weight", .hf = "per_layer_input_gate.weight", .rows = Size::input, .cols = Size::hidden, .weight = &Layer::input_gate,
     .on = On::with_input},
    {.gguf = "proj.weight", .hf = "per_layer_projection.weight", .rows = Size::hidden, .cols = Size::input, .weight = &Layer::input_up, .on = On::with_input},
    {.gguf = "post_norm.weight", .hf = "post_per_layer_input_norm.weight", .rows = Size::hidden, .vector = &Layer::input_norm, .on = On::with_input},
};
/// Of all layers, those with experts too.
constexpr LayerRow kGemma4[] = {
    {.gguf = "ffn_gate.weight", .hf = "mlp.gate_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::gate},
    {.gguf = "ffn_up.weight", .hf = "mlp.up_proj.weight", .rows = Size::ffn, .cols = Size::hidden, .weight = &Layer::up},
    {.gguf = "ffn_down.weight", .hf = "mlp.down_proj.weight", .rows = Size::hidden, .cols = Size::ffn, .weight = &Layer::down},
    {.gguf = "layer_output_scale.weight", .hf = "layer_scalar", .rows = Size::one, .vector = &Layer::scalar},
    {.gguf = "ffn_gate_inp.scale", .hf = "router.scale", .rows = Size::hidden, .vector = &Layer::router_norm, .on = On::with_experts},
    {.gguf = "post_ffw_norm_1.weight", .hf = "post_feedforward_layernorm_1.weight", .rows = Size::hidden, .vector = &Layer::dense_post_norm,
     .on = On::with_experts},
    {.gguf = "pre_ffw_norm_2.weight", .hf = "pre_feedforward_layernorm_2.weight", .rows = Size::hidden, .vector = &Layer::moe_norm, .on = On::with_experts},
    {.gguf = "post_ffw_norm_2.weight", .hf = "post_feedforward_layernorm_2.weight", .rows = Size::hidden, .vector = &Layer::moe_post_norm,
     .on = On::with_experts},
};
constexpr LayerRow kGemma3n[] = {
    {.gguf = "laurel_l.weight", .hf = "laurel.linear_left.weight", .rows = Size::low_rank, .cols = Size::hidden, .weight = &Layer::low_down},
    {.gguf = "laurel_r.weight", .hf = "laurel.linear_right.weight", .rows = Size::hidden, .cols = Size::low_rank, .weight = &Layer::low_up},
    {.gguf = "laurel_post_norm.weight", .hf = "laurel.post_laurel_norm.weight", .rows = Size::hidden, .vector = &Layer::low_norm},
    {.gguf = "altup_router.weight", .hf = "altup.modality_router.weight", .rows = Size::streams, .cols = Size::hidden, .weight = &Layer::router},
    {.gguf = "altup_router_norm.weight", .hf = "altup.router_norm.weight", .rows = Size::hidden, .vector = &Layer::router_norm},
    {.gguf = "altup_predict_coef.weight", .hf = "altup.prediction_coefs.weight", .rows = Size::streams_squared, .cols = Size::streams,
     .weight = &Layer::predict},
    {.gguf = "altup_correct_coef.weight", .hf = "altup.correction_coefs.weight", .rows = Size::streams, .cols = Size::streams, .weight = &Layer::correct},
    {.gguf = "altup_correct_scale.weight", .hf = "altup.correct_output_scale", .rows = Size::hidden, .vector = &Layer::stream_scale},
};

constexpr GlobalRow kDeepSeek4Globals[] = {
    {.gguf = "token_embd.weight", .hf = "embed.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::embed},
    {.gguf = "output_norm.weight", .hf = "norm.weight", .rows = Size::hidden, .vector = &Globals::norm},
    {.gguf = "output.weight", .hf = "head.weight", .rows = Size::vocab, .cols = Size::hidden, .weight = &Globals::head},
};
constexpr LayerRow kDeepSeek4[] = {
    {.gguf = "attn_norm.weight", .hf = "attn_norm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "ffn_norm.weight", .hf = "ffn_norm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},
    {.gguf = "attn_sinks.weight", .hf = "attn.attn_sink", .rows = Size::heads, .vector = &Layer::sinks},
};

template <size_t... N>
constexpr auto joined(const LayerRow (&... lists)[N]) {
  std::array<LayerRow, (N + ...)> out{};
  auto at = out.begin();
  ((at = std::copy(std::begin(lists), std::end(lists), at)), ...);
  return out;
}
constexpr auto kDenseRows = joined(kAttention, kFeedForward, kPreNorm);
constexpr auto kQkNormRows = joined(kAttention, kFeedForward, kPreNorm, kHeadNorm);
constexpr auto kSandwichRows = joined(kAttention, kFeedForward, kSandwich);
constexpr auto kSandwichQkRows = joined(kAttention, kFeedForward, kSandwich, kHeadNorm);
constexpr auto kPostNormRows = joined(kAttention, kFeedForward, kPostNorm, kWideNorm);
constexpr auto kPostNormQkRows = joined(kAttention, kFeedForward, kPostNorm, kHeadNorm);
constexpr auto kLateNormRows = joined(kAttention, kFeedForward, kLateNorm);
constexpr auto kLateNormQkRows = joined(kAttention, kFeedForward, kLateNorm, kHeadNorm);
constexpr auto kSinkRows = joined(kAttention, kFeedForward, kLateNorm, kSinks);
constexpr auto kGlm4Rows = joined(kAttention, kFeedForward, kGlm4);
constexpr auto kGraniteHybridRows = joined(kAttention, kSharedMlp, kPreNorm);
constexpr auto kJambaRows = joined(kAttention, kFeedForwardBlock, kBlockNorms);
constexpr auto kFalconRows = joined(kAttention, kFeedForwardBlock, kFalconNorms);
constexpr auto kMixedNormRows = joined(kAttention, kFeedForward, kMixedNorms, kWideNorm);
constexpr auto kParallelRows = joined(kAttention, kFeedForward, kParallel);
constexpr auto kStarcoderRows = joined(kAttention, kUngated, kPreNorm, kPreLayerNorm);
constexpr auto kHunyuanRows = joined(kAttention, kFeedForward, kPreNorm, kHunyuanNorm);
constexpr auto kLlama4Rows = joined(kAttention, kLlama4, kPreNorm);
constexpr auto kGemma4Rows = joined(kAttention, kSandwich, kHeadNorm, kGemma4, kLayerInput);
constexpr auto kGemma3nRows = joined(kAttention, kFeedForward, kSandwich, kHeadNorm, kGemma3n, kLayerInput);
constexpr auto kMimoRows = joined(kAttention, kFeedForward, kPreNorm, kSomeSinks);
constexpr auto kStepRows = joined(kAttention, kFeedForward, kPreNorm, kHeadNorm, kHeadGate);
constexpr auto kLfm3Rows = joined(kAttention, kLfm3, kHeadNorm);
constexpr auto kLatentRows = joined(kFeedForward, kPreNorm);
constexpr auto kLatentSinkRows = joined(kFeedForward, kPreNorm, kLearntSinks);
constexpr auto kNormlessRows = joined(kAttention, kHeadNorm);
constexpr auto kWideNormRows = joined(kAttention, kFeedForward, kPreNorm, kWideNorm);

}  // namespace

int64_t size_of(Size s, const ModelConfig& c, const LayerConfig* layer) {
  const int64_t heads = layer ? layer->heads : c.heads, kv_heads = layer ? layer->kv_heads : c.kv_heads, head_dim = layer ? layer->head_dim : c.head_dim;
  switch (s) {
    case Size::one: return 1;
    case Size::hidden: return c.hidden;
    case Size::ffn: return layer ? layer->ffn : c.ffn;
    case Size::vocab: return c.vocab;
    case Size::head: return head_dim;
    case Size::q: return heads * head_dim;
    case Size::heads: return heads;
    case Size::kv: return kv_heads * head_dim;
    case Size::values: return heads * (layer && layer->value_dim ? layer->value_dim : head_dim);
    case Size::kv_values: return kv_heads * (layer && layer->value_dim ? layer->value_dim : head_dim);
    case Size::input: return c.layer_input.width;
    case Size::inputs: return c.layers * c.layer_input.width;
    case Size::input_vocab: return c.layer_input.vocab;
    case Size::streams: return c.streams.count;
    case Size::streams_squared: return int64_t{c.streams.count} * c.streams.count;
    case Size::low_rank: return c.streams.low_rank;
  }
  return 0;
}

namespace {

template <class Member, class... Options>
bool one_of(Member member, Options... options) {
  return member && ((member == options) || ...);
}

}  // namespace

bool unused_on(const LayerRow& r, const LayerConfig& l) {
  const bool keys = one_of(r.weight, &Layer::k) || one_of(r.bias, &Layer::k) || one_of(r.vector, &Layer::k_norm);
  const bool values = one_of(r.weight, &Layer::v) || one_of(r.bias, &Layer::v);
  return l.kv_of >= 0 && (keys || values);
}

bool on_layer(const LayerRow& r, const ModelConfig& c, const LayerConfig& l) {
  if (unused_on(r, l)) return false;
  if (l.values_are_keys && (one_of(r.weight, &Layer::v) || one_of(r.bias, &Layer::v))) return false;
  if (r.on == On::with_input) return c.layer_input.width > 0;
  if (r.on == On::with_experts) return l.moe;
  if (r.on == On::with_sinks) return l.sinks;
  const bool attention = one_of(r.weight, &Layer::q, &Layer::k, &Layer::v, &Layer::o) || one_of(r.bias, &Layer::q, &Layer::k, &Layer::v, &Layer::o) ||
                         one_of(r.vector, &Layer::q_norm, &Layer::k_norm, &Layer::sinks);
  if (attention || r.on == On::attending) return l.attends();
  if (r.on == On::recurrent) return !l.attends();
  return !r.ffn || (l.feeds && !l.moe);
}

std::span<const GlobalRow> global_rows() { return kGlobals; }
std::span<const GlobalRow> layer_norm_globals() { return kLayerNormGlobals; }
std::span<const GlobalRow> layer_input_globals() { return kLayerInputGlobals; }
std::span<const GlobalRow> mamba_globals() { return kMambaGlobals; }
std::span<const GlobalRow> lfm2_globals() { return kLfm2Globals; }
std::span<const GlobalRow> final_norm_globals() { return kFinalNormGlobals; }
std::span<const GlobalRow> word_globals() { return kWordGlobals; }
std::span<const LayerRow> mamba_rows() { return kMamba; }
std::span<const LayerRow> nemotron_rows() { return kNemotron; }
std::span<const LayerRow> granite_hybrid_rows() { return kGraniteHybridRows; }
std::span<const LayerRow> jamba_rows() { return kJambaRows; }
std::span<const LayerRow> falcon_rows() { return kFalconRows; }
std::span<const LayerRow> mixed_norm_rows() { return kMixedNormRows; }
std::span<const LayerRow> lfm2_rows() { return kLfm2; }
std::span<const LayerRow> dense_rows() { return kDenseRows; }
std::span<const LayerRow> qk_norm_rows() { return kQkNormRows; }
std::span<const LayerRow> sandwich_rows() { return kSandwichRows; }
std::span<const LayerRow> sandwich_qk_rows() { return kSandwichQkRows; }
std::span<const LayerRow> post_norm_rows() { return kPostNormRows; }
std::span<const LayerRow> post_norm_qk_rows() { return kPostNormQkRows; }
std::span<const LayerRow> late_norm_rows() { return kLateNormRows; }
std::span<const LayerRow> late_norm_qk_rows() { return kLateNormQkRows; }
std::span<const LayerRow> sink_rows() { return kSinkRows; }
std::span<const LayerRow> glm4_rows() { return kGlm4Rows; }
std::span<const LayerRow> parallel_rows() { return kParallelRows; }
std::span<const LayerRow> starcoder_rows() { return kStarcoderRows; }
std::span<const LayerRow> hunyuan_rows() { return kHunyuanRows; }
std::span<const LayerRow> llama4_rows() { return kLlama4Rows; }
std::span<const LayerRow> gemma4_rows() { return kGemma4Rows; }
std::span<const LayerRow> gemma3n_rows() { return kGemma3nRows; }
std::span<const LayerRow> mimo_rows() { return kMimoRows; }
std::span<const LayerRow> step_rows() { return kStepRows; }
std::span<const LayerRow> lfm3_rows() { return kLfm3Rows; }
std::span<const LayerRow> longcat_rows() { return kLongcat; }
std::span<const LayerRow> latent_rows() { return kLatentRows; }
std::span<const LayerRow> latent_sink_rows() { return kLatentSinkRows; }
std::span<const LayerRow> normless_rows() { return kNormlessRows; }
std::span<const GlobalRow> normless_globals() { return kNormless; }
std::span<const GlobalRow> deepseek4_globals() { return kDeepSeek4Globals; }
std::span<const LayerRow> deepseek4_rows() { return kDeepSeek4; }
std::span<const LayerRow> wide_norm_rows() { return kWideNormRows; }

bool ignorable(std::string_view name) {
  static constexpr std::string_view kParts[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight", "rotary_emb.inv_freq",
                                                "attn_rot_embd", "vision_tower.", "vision_model.", "audio_tower.", "model.embed_vision.", "model.embed_audio.",
                                                "multi_modal_projector.", "model.visual.", ".self_attn.slope_rate", ".self_attn.query_decay",
                                                ".self_attn.key_decay", ".self_attn.diagonal_decay", ".ffn.gate.bias_vl", "model.mtp_layers."};
  static constexpr std::string_view kBeginnings[] = {"vision.", "aligner.", "image_start", "image_end", "image_newline"};  // DeepSeek V4.1
  return std::any_of(std::begin(kParts), std::end(kParts), [&](auto s) { return name.find(s) != name.npos; }) ||
         std::any_of(std::begin(kBeginnings), std::end(kBeginnings), [&](auto s) { return name.starts_with(s); });
}

}  // namespace isotope::models
