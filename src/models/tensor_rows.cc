#include "models/tensor_rows.h"

#include <algorithm>

namespace isotope::models {
namespace {

constexpr std::array<Size, 3> kQkv = {Size::q, Size::kv, Size::kv};
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

constexpr LayerRow kAttention[] = {
    {.gguf = "attn_q.weight", .hf = "self_attn.q_proj.weight", .rows = Size::q, .cols = Size::hidden, .weight = &Layer::q, .turns = true, .fused = qkv(0)},
    {.gguf = "attn_k.weight", .hf = "self_attn.k_proj.weight", .rows = Size::kv, .cols = Size::hidden, .weight = &Layer::k, .turns = true, .fused = qkv(1)},
    {.gguf = "attn_v.weight", .hf = "self_attn.v_proj.weight", .rows = Size::kv, .cols = Size::hidden, .weight = &Layer::v, .fused = qkv(2)},
    {.gguf = "attn_output.weight", .hf = "self_attn.o_proj.weight", .rows = Size::hidden, .cols = Size::q, .weight = &Layer::o},
    {.gguf = "attn_q.bias", .hf = "self_attn.q_proj.bias", .rows = Size::q, .bias = &Layer::q, .when = &ModelConfig::qkv_bias, .turns = true,
     .fused = qkv_bias(0)},
    {.gguf = "attn_k.bias", .hf = "self_attn.k_proj.bias", .rows = Size::kv, .bias = &Layer::k, .when = &ModelConfig::qkv_bias, .turns = true,
     .fused = qkv_bias(1)},
    {.gguf = "attn_v.bias", .hf = "self_attn.v_proj.bias", .rows = Size::kv, .bias = &Layer::v, .when = &ModelConfig::qkv_bias,
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
    {.gguf = "attn_norm.weight", .hf = "input_layernorm.weight", .rows = Size::hidden, .vector = &Layer::attn_norm},
    {.gguf = "ffn_norm.weight", .hf = "pre_ff_layernorm.weight", .rows = Size::hidden, .vector = &Layer::ffn_norm},
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
constexpr auto kBlockRows = joined(kAttention, kFeedForwardBlock);
constexpr auto kMixedNormRows = joined(kAttention, kFeedForward, kMixedNorms, kWideNorm);
constexpr auto kLatentRows = joined(kFeedForward, kPreNorm);
constexpr auto kWideNormRows = joined(kAttention, kFeedForward, kPreNorm, kWideNorm);

}  // namespace

int64_t size_of(Size s, const ModelConfig& c) {
  switch (s) {
    case Size::one: return 1;
    case Size::hidden: return c.hidden;
    case Size::ffn: return c.ffn;
    case Size::vocab: return c.vocab;
    case Size::head: return c.head_dim;
    case Size::q: return int64_t(c.heads) * c.head_dim;
    case Size::heads: return c.heads;
    case Size::kv: return int64_t(c.kv_heads) * c.head_dim;
  }
  return 0;
}

bool on_layer(const LayerRow& r, const LayerConfig& l) {
  const auto one_of = [](auto member, auto... options) { return member && ((member == options) || ...); };
  const bool attention = one_of(r.weight, &Layer::q, &Layer::k, &Layer::v, &Layer::o) || one_of(r.bias, &Layer::q, &Layer::k, &Layer::v, &Layer::o) ||
                         one_of(r.vector, &Layer::q_norm, &Layer::k_norm, &Layer::sinks);
  if (attention || r.on == On::attending) return l.attends();
  if (r.on == On::recurrent) return !l.attends();
  return !r.ffn || (l.feeds && !l.moe);
}

std::span<const GlobalRow> global_rows() { return kGlobals; }
std::span<const GlobalRow> mamba_globals() { return kMambaGlobals; }
std::span<const GlobalRow> lfm2_globals() { return kLfm2Globals; }
std::span<const GlobalRow> final_norm_globals() { return kFinalNormGlobals; }
std::span<const GlobalRow> word_globals() { return kWordGlobals; }
std::span<const LayerRow> mamba_rows() { return kMamba; }
std::span<const LayerRow> nemotron_rows() { return kNemotron; }
std::span<const LayerRow> granite_hybrid_rows() { return kGraniteHybridRows; }
std::span<const LayerRow> block_rows() { return kBlockRows; }
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
std::span<const LayerRow> latent_rows() { return kLatentRows; }
std::span<const GlobalRow> deepseek4_globals() { return kDeepSeek4Globals; }
std::span<const LayerRow> deepseek4_rows() { return kDeepSeek4; }
std::span<const LayerRow> wide_norm_rows() { return kWideNormRows; }

bool ignorable(std::string_view name) {
  static constexpr std::string_view kParts[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight", "rotary_emb.inv_freq",
                                                "attn_rot_embd", "vision_tower.", "multi_modal_projector.", "model.visual.", ".self_attn.slope_rate",
                                                ".self_attn.query_decay", ".self_attn.key_decay", ".self_attn.diagonal_decay"};
  return std::any_of(std::begin(kParts), std::end(kParts), [&](auto s) { return name.find(s) != name.npos; });
}

}  // namespace isotope::models
