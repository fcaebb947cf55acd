// GGUF keys in config.json's words. Key names: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; meanings checked against files that
// convert_hf_to_gguf.py wrote.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/config_fields.h"
#include "models/config_gguf.h"
#include "weights/json.h"
#include "weights/load_all.h"

namespace isotope::models {
namespace {

using nlohmann::json;
using weights::Checkpoint;
using weights::Metadata;

enum class Kind : uint8_t { integer, number, text, truth };
struct KeyRow {
  std::string_view gguf;  ///< after "<architecture>."
  const char* hf;         ///< JSON pointer
  Kind kind;
};
constexpr KeyRow kKeys[] = {
    {"block_count", "/num_hidden_layers", Kind::integer},
    {"context_length", "/max_position_embeddings", Kind::integer},
    {"embedding_length", "/hidden_size", Kind::integer},
    {"feed_forward_length", "/intermediate_size", Kind::integer},
    {"attention.head_count", "/num_attention_heads", Kind::integer},
    {"attention.head_count_kv", "/num_key_value_heads", Kind::integer},
    {"attention.key_length", "/head_dim", Kind::integer},
    {"attention.layer_norm_rms_epsilon", "/rms_norm_eps", Kind::number},
    {"attention.key_length_swa", "/swa_head_dim", Kind::integer},
    {"attention.shared_kv_layers", "/num_kv_shared_layers", Kind::integer},
    {"attention.value_scale", "/attention_value_scale", Kind::number},
    {"rope.dimension_count_swa", "/rotary_dim_local", Kind::integer},
    {"embedding_length_per_layer_input", "/hidden_size_per_layer_input", Kind::integer},
    {"altup.active_idx", "/altup_active_idx", Kind::integer},
    {"altup.num_inputs", "/altup_num_inputs", Kind::integer},
    {"activation_sparsity_scale", "/activation_sparsity_scale", Kind::number},
    {"swiglu_clamp_exp", "/swiglu_limits", Kind::number},
    {"swiglu_clamp_shexp", "/swiglu_limits_shared", Kind::number},
    {"attention.layer_norm_epsilon", "/layer_norm_epsilon", Kind::number},
    {"attention.sliding_window", "/sliding_window", Kind::integer},
    {"attention.temperature_scale", "/rope_scaling/llama_4_scaling_beta", Kind::number},
    {"attention.scale", "/attention_multiplier", Kind::number},
    {"attn_logit_softcapping", "/attn_logit_softcapping", Kind::number},
    {"final_logit_softcapping", "/final_logit_softcapping", Kind::number},
    {"embedding_scale", "/embedding_multiplier", Kind::number},
    {"residual_scale", "/residual_multiplier", Kind::number},
    {"logit_scale", "/logits_scaling", Kind::number},
    {"rope.dimension_count", "/rotary_dim", Kind::integer},
    {"rope.freq_base", "/rope_theta", Kind::number},
    {"rope.freq_base_swa", "/rope_local_base_freq", Kind::number},
    {"rope.scaling.type", "/rope_scaling/rope_type", Kind::text},
    {"rope.scale_linear", "/rope_scaling/factor", Kind::number},  // until 2023
    {"rope.scaling.factor", "/rope_scaling/factor", Kind::number},
    {"rope.scaling.original_context_length", "/rope_scaling/original_max_position_embeddings", Kind::integer},
    {"rope.scaling.yarn_beta_fast", "/rope_scaling/beta_fast", Kind::number},
    {"rope.scaling.yarn_beta_slow", "/rope_scaling/beta_slow", Kind::number},
    {"rope.scaling.yarn_log_multiplier", "/rope_scaling/mscale_all_dim", Kind::number},
    {"rope.scaling.yarn_attn_factor", "/rope_scaling/attention_factor", Kind::number},
    {"expert_count", "/num_experts", Kind::integer},
    {"expert_used_count", "/num_experts_per_tok", Kind::integer},
    {"expert_feed_forward_length", "/moe_intermediate_size", Kind::integer},
    {"expert_shared_feed_forward_length", "/shared_expert_intermediate_size", Kind::integer},
    {"expert_shared_count", "/n_shared_experts", Kind::integer},
    {"expert_group_count", "/n_group", Kind::integer},
    {"expert_group_used_count", "/topk_group", Kind::integer},
    {"expert_weights_scale", "/routed_scaling_factor", Kind::number},
    {"expert_weights_norm", "/norm_topk_prob", Kind::truth},
    {"attention.q_lora_rank", "/q_lora_rank", Kind::integer},
    {"attention.kv_lora_rank", "/kv_lora_rank", Kind::integer},
    {"nextn_predict_layers", "/num_nextn_predict_layers", Kind::integer},
    {"leading_dense_block_count", "/first_k_dense_replace", Kind::integer},
    {"interleave_moe_layer_step", "/interleave_moe_layer_step", Kind::integer},
    {"attention.indexer.head_count", "/index_n_heads", Kind::integer},
    {"attention.indexer.key_length", "/index_head_dim", Kind::integer},
    {"attention.indexer.top_k", "/index_topk", Kind::integer},
    {"attention.indexer.block_size", "/index_block_size", Kind::integer},
    {"attention.indexer.local_blocks", "/index_local_blocks", Kind::integer},
    {"attention.output_group_count", "/o_groups", Kind::integer},
    {"attention.output_lora_rank", "/o_lora_rank", Kind::integer},
    {"attention.compress_rope_freq_base", "/compress_rope_theta", Kind::number},
    {"hyper_connection.count", "/hc_mult", Kind::integer},
    {"hyper_connection.sinkhorn_iterations", "/hc_sinkhorn_iters", Kind::integer},
    {"hyper_connection.epsilon", "/hc_eps", Kind::number},
    {"hash_layer_count", "/num_hash_layers", Kind::integer},
    {"moe_latent_size", "/moe_latent_size", Kind::integer},
};

/// Hybrid models give numbers layer by layer, 0 where a layer has no such block; the others must be the same.
Result<json> by_layer(const Metadata& m, const std::string& key) {
  ISO_TRY(const std::vector<int64_t> all, m.integers(key));
  int64_t found = 0;
  for (int64_t v : all) {
    if (v && found && v != found) return unknown(m, fmt::format("{} holds {} and {}", key, found, v), "only one number for all layers that have one is supported");
    if (v) found = v;
  }
  return json(found);
}

/// A number for each layer stays a list.
Result<json> value(const Metadata& m, const std::string& key, Kind kind) {
  if (m.is_array(key) && kind == Kind::integer) { ISO_TRY(std::vector<int64_t> v, m.integers(key)); return json(std::move(v)); }
  if (m.is_array(key) && kind == Kind::number) {
    ISO_TRY(std::vector<double> v, m.numbers(key));
    for (double& x : v) x = std::isfinite(x) ? x : 0;  // Gemma 3n writes -inf where nothing is cut
    return json(std::move(v));
  }
  switch (kind) {
    case Kind::integer: { ISO_TRY(const int64_t v, m.integer(key)); return json(v); }
    case Kind::number: { ISO_TRY(const double v, m.number(key)); return json(v); }
    case Kind::truth: { ISO_TRY(const bool v, m.boolean_or(key, false)); return json(v); }
    case Kind::text: { ISO_TRY(const std::string_view v, m.string(key)); return json(v); }
  }
  return json();
}

/// A small float tensor as numbers; null when the file has none.
Result<json> numbers(const Checkpoint& c, std::string_view name) {
  const weights::TensorEntry* e = c.find(name);
  if (!e) return json();
  std::vector<float> v;
  const auto consume = [&](std::span<Checkpoint::Data> data) -> Result<void> {
    const tensor::HostTensor& t = data[0].view;
    const int64_t n = t.elements();
    if (n < 1 || n > 4096) return wrong(c.metadata(), fmt::format("tensor {} has {} elements, a rope table has 1 to 4096", name, n));
    v.resize(static_cast<size_t>(n));
    return tensor::dequantize(t.dtype, t.data, v);
  };
  ISO_CHECK_OK(weights::load_one(c, {{e}, consume}));
  return json(v);
}

/// Which layers slide: an array of booleans, or the period n of "all but every n-th".
Result<void> read_pattern(const Metadata& m, const std::string& key, json& out) {
  if (!m.has(key)) return {};
  if (!m.is_array(key)) {
    ISO_TRY(out["sliding_window_pattern"], m.integer(key));
    return {};
  }
  std::vector<bool> slides;
  if (auto numbers = m.integers(key)) for (int64_t v : *numbers) slides.push_back(v != 0);  // MiMo-V2
  else { ISO_TRY(slides, m.booleans(key)); }
  json types = json::array();
  for (bool s : slides) types.push_back(s ? "sliding_attention" : "full_attention");
  out["layer_types"] = std::move(types);
  return {};
}

/// expert_gating_func: the numbers of llama.cpp's enumeration.
Result<void> read_gating(const Metadata& m, const std::string& key, json& out) {
  ISO_TRY(const int64_t gating, m.integer_or(key, 0));
  if (gating == 0) return {};
  if (gating != 1 && gating != 2 && gating != 4)
    return unknown(m, fmt::format("{} is {}", key, gating), "known: 1 (softmax), 2 (sigmoid), 4 (square root of softplus)");
  out["scoring_func"] = gating == 1 ? "softmax" : gating == 2 ? "sigmoid" : "sqrtsoftplus";
  return {};
}

Result<void> read_rope(const Checkpoint& c, const std::string& prefix, json& out) {
  const Metadata& m = c.metadata();
  ISO_TRY(json divisors, numbers(c, "rope_freqs.weight"));
  if (!divisors.is_null()) out["rope_divisors"] = std::move(divisors);
  ISO_TRY(json shorter, numbers(c, "rope_factors_short.weight"));
  ISO_TRY(json longer, numbers(c, "rope_factors_long.weight"));
  json& scaling = out["rope_scaling"];
  if (!shorter.is_null() || !longer.is_null()) {
    scaling["rope_type"] = "longrope";
    scaling["short_factor"] = std::move(shorter);
    scaling["long_factor"] = std::move(longer);
  }
  const bool yarn = scaling.is_object() && scaling.value("rope_type", "") == "yarn";
  // Files that went through a saver carry yarn_attn_factor = 1 as a neutral multiplier; config.json's attention_factor replaces the formula instead.
  if (scaling.is_object() && scaling.contains("attention_factor") && (!yarn || scaling["attention_factor"] == 1.0)) scaling.erase("attention_factor");
  ISO_TRY(const double attn_factor, m.number_or(prefix + "rope.scaling.attn_factor", 0));
  if (attn_factor != 0 && !yarn) scaling["attention_factor"] = attn_factor;
  if (attn_factor != 0 && attn_factor != 1 && yarn)
    return unknown(m, fmt::format("{}rope.scaling.attn_factor is {} together with yarn", prefix, attn_factor), "only 1 is known there");
  if (yarn && scaling.contains("mscale_all_dim")) scaling["mscale"] = 1.0;
  ISO_TRY(const double ext, m.number_or(prefix + "rope.scaling.yarn_ext_factor", 1));
  if (yarn && ext != 1) return unknown(m, fmt::format("{}rope.scaling.yarn_ext_factor is {}", prefix, ext), "only 1 is known");
  if (!scaling.is_object()) out.erase("rope_scaling");
  else if (!scaling.contains("rope_type")) scaling["rope_type"] = scaling.contains("factor") && scaling["factor"] != 1.0 ? "linear" : "default";
  return {};
}

/// Latent attention. A head's own sizes stand in the keys with _mla; key_length and value_length are those of the cache. Files from before 2025 have them in
/// the plain keys.
Result<void> read_latent(const Checkpoint& c, const std::string& prefix, json& out) {
  const Metadata& m = c.metadata();
  const bool absorbed = m.has(prefix + "attention.key_length_mla");
  ISO_TRY(const int64_t key, m.integer(prefix + (absorbed ? "attention.key_length_mla" : "attention.key_length")));
  ISO_TRY(const int64_t value, m.integer(prefix + (absorbed ? "attention.value_length_mla" : "attention.value_length")));
  ISO_TRY(const int64_t turning, m.integer(prefix + "rope.dimension_count"));
  out.erase("head_dim");
  out["qk_rope_head_dim"] = turning, out["qk_nope_head_dim"] = key - turning, out["v_head_dim"] = value;
  // GLM-4.7-Flash files do not name the gating; of this family, only those that score by sigmoid have a bias for the choice.
  const std::string bias = fmt::format("blk.{}.exp_probs_b.bias", out.value("first_k_dense_replace", int64_t{0}));
  if (!out.contains("scoring_func") && c.find(bias)) out["scoring_func"] = "sigmoid";
  json& scaling = out["rope_scaling"];
  if (scaling.is_object() && scaling.contains("mscale_all_dim")) {
    scaling["mscale_all_dim"] = 10 * scaling["mscale_all_dim"].get<double>();  // the file has a tenth of it
    scaling["mscale"] = scaling["mscale_all_dim"];
  }
  if (!scaling.is_object()) out.erase("rope_scaling");
  return {};
}

/// MiMo-V2: no key says which layers have experts.
void read_expert_layers(const Checkpoint& c, json& out) {
  json sparse = json::array();
  for (int64_t i = 0, n = std::min<int64_t>(out.value("num_hidden_layers", int64_t{0}), kMaxLayers); i < n; ++i)
    if (c.find(fmt::format("blk.{}.ffn_gate_inp.weight", i))) sparse.push_back(i);
  out["moe_layers"] = std::move(sparse);
}

/// What Gemma 3n and 4 leave to the tensors.
void read_gemma(const Checkpoint& c, const Arch& arch, int64_t experts, json& out) {
  if (const weights::TensorEntry* e = c.find("blk.0.laurel_l.weight")) out["laurel_rank"] = e->shape[0];
  if (arch.name != "gemma4") return;
  out["enable_moe_block"] = experts > 0;
  const json types = out.value("layer_types", json::array());
  const auto full = std::find(types.begin(), types.end(), json("full_attention"));
  if (full != types.end()) out["attention_k_eq_v"] = c.find(fmt::format("blk.{}.attn_v.weight", full - types.begin())) == nullptr;
}

}  // namespace

void name_gguf_key(const Arch& arch, std::string_view architecture, Error& e) {
  const KeyRow* named = nullptr;  // the longest: num_experts is part of num_experts_per_tok
  for (const KeyRow& row : kKeys) {
    std::string field = row.hf + 1;
    std::replace(field.begin(), field.end(), '/', '.');
    if (e.what.find(field) != std::string::npos && (!named || field.size() >= std::string_view(named->hf).size())) named = &row;
  }
  const std::string_view state = gguf_state_key(arch, e.what);
  if (!state.empty()) e.source += fmt::format(", {}.{}", architecture, state);
  else if (named) e.source += fmt::format(", {}.{}", architecture, named->gguf);
}

Result<ConfigSource> gguf_source(const Checkpoint& c, const std::map<std::string, std::string>& overrides) {
  const Metadata& m = c.metadata();
  ISO_TRY(const std::string_view name, m.string("general.architecture"));
  ISO_TRY(const int64_t experts, m.integer_or(std::string(name) + ".expert_count", 0));
  const Arch* arch = arch_by_gguf(name, experts > 0);
  if (!arch) return unknown(m, fmt::format("general.architecture is {}", weights::quote_name(name)), "supported: " + supported_archs());
  const std::string prefix = std::string(name) + ".";

  json out = json::parse(arch->gguf_defaults);
  for (const KeyRow& row : kKeys) {
    const std::string key = prefix + std::string(row.gguf);
    if (!m.has(key)) continue;
    const bool hybrid = arch->mixer != Mixer::attention;
    ISO_TRY(json v, hybrid && m.is_array(key) ? by_layer(m, key) : value(m, key, row.kind));
    if (hybrid && v == 0) continue;  // models without such blocks write 0
    out[json::json_pointer(row.hf)] = std::move(v);
  }
  ISO_CHECK_OK(read_pattern(m, prefix + "attention.sliding_window_pattern", out));
  ISO_CHECK_OK(read_gating(m, prefix + "expert_gating_func", out));
  ISO_CHECK_OK(read_rope(c, prefix, out));
  if (arch->latent) ISO_CHECK_OK(read_latent(c, prefix, out));
  ISO_CHECK_OK(read_sparse(c, *arch, prefix, out));
  ISO_CHECK_OK(read_gguf_state(c, *arch, prefix, out));
  read_gemma(c, *arch, experts, out);
  if (arch->name == "mimo_v2_flash") read_expert_layers(c, out);
  if (arch->name == "step3p5" && out.contains("head_dim")) {  // full layers turn by half; no key says so
    out["rotary_dim_local"] = out["head_dim"];
    if (out["head_dim"].is_number_integer()) out["rotary_dim"] = out["head_dim"].get<int64_t>() / 2;
  }

  if (arch->name == "mimo_v2_flash" && m.has(prefix + "attention.value_length")) {
    ISO_TRY(out["v_head_dim"], m.integer(prefix + "attention.value_length"));
  } else if (!arch->latent && m.has(prefix + "attention.value_length") && m.has(prefix + "attention.key_length")) {
    ISO_TRY(const int64_t k, m.integer(prefix + "attention.key_length"));
    ISO_TRY(const int64_t v, m.integer(prefix + "attention.value_length"));
    if (k != v) return unknown(m, fmt::format("{}attention.key_length is {}, value_length {}", prefix, k, v), "only models where both are equal are supported");
  }
  if (experts != 0 && !arch->moe)
    return unknown(m, fmt::format("{}expert_count is {}", prefix, experts), fmt::format("only models of '{}' without it are supported", name));
  if (arch->logit_factor && out.contains("logits_scaling")) {
    out["logit_scale"] = out["logits_scaling"];
    out.erase("logits_scaling");
  }
  ISO_TRY(const int64_t window, m.integer_or(prefix + "attention.sliding_window", -1));
  if (arch->windows == WindowRule::chunks && window == 0) out["attention_chunk_size"] = 0, out["no_rope_layer_interval"] = kMaxLayers + 1;
  ISO_TRY(const bool causal, m.boolean_or(prefix + "attention.causal", true));
  if (!causal) return unknown(m, prefix + "attention.causal is false", "only causal attention is supported");
  ISO_TRY(const bool rope, m.boolean_or(prefix + "rope.scaling.finetuned", true));
  if (arch->name.starts_with("granite") && !rope) out["no_rope_layer_interval"] = 1;
  if (const weights::TensorEntry* e = c.find("token_embd.weight")) out["vocab_size"] = e->shape[0];
  out["tie_word_embeddings"] = c.find("output.weight") == nullptr;
  ISO_TRY(Metadata fields, Metadata::from_json(out.dump(-1, ' ', false, json::error_handler_t::replace), m.source()));
  ISO_TRY(fields, fields.with_overrides(overrides));
  return ConfigSource{arch, true, std::move(fields)};
}

}  // namespace isotope::models
