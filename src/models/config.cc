#include "models/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/config_fields.h"
#include "models/override_errors.h"
#include "weights/json.h"

namespace isotope::models {
namespace {

using weights::Metadata;

struct ActName {
  std::string_view name;
  ops::Activation act;
};
constexpr ActName kActs[] = {{"silu", ops::Activation::silu},
                             {"swish", ops::Activation::silu},
                             {"gelu", ops::Activation::gelu},
                             {"gelu_pytorch_tanh", ops::Activation::gelu_tanh},
                             {"gelu_new", ops::Activation::gelu_tanh},
                             {"relu", ops::Activation::relu},
                             {"relu2", ops::Activation::relu2}};

/// transformers 5 leaves the number out where the list of their kinds says it (Nemotron-H).
Result<int64_t> layer_count(const Metadata& f) {
  if (f.has("num_hidden_layers") || !f.has("layers_block_type")) return in_range(f, "num_hidden_layers", 1, kMaxLayers);
  ISO_TRY(const std::vector<std::string_view> kinds, f.strings("layers_block_type"));
  if (kinds.empty() || int64_t(kinds.size()) > kMaxLayers) return wrong(f, fmt::format("layers_block_type has {} entries", kinds.size()));
  return int64_t(kinds.size());
}

/// A number, or a list with one for each layer, of which the first stands for the model; parse_attention() reads the others.
Result<int64_t> one_or_listed(const ConfigSource& s, std::string_view key, int64_t low, int64_t high) {
  const Metadata& f = s.fields;
  if (!f.is_array(key) || !s.arch->by_layer) return in_range(f, key, low, high);
  ISO_TRY(const std::vector<int64_t> all, f.integers(key));
  for (int64_t v : all)
    if (v < low || v > high) return wrong(f, fmt::format("{} holds {}, must be {} to {}", key, v, low, high));
  return all.empty() ? Result<int64_t>(wrong(f, fmt::format("{} is an empty list", key))) : Result<int64_t>(all[0]);
}

Result<void> parse_sizes(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_TRY(c.layers, layer_count(f));
  ISO_TRY(c.draft_layers, in_range_or(f, spelled(f, {kDraftCount[0], kDraftCount[1]}), 0, kMaxLayers, 0));
  if (s.gguf) c.layers -= c.draft_layers;  // block_count counts them as well
  if (c.layers < 1) return wrong(f, fmt::format("num_nextn_predict_layers is {}, which leaves no layer", c.draft_layers));
  ISO_TRY(c.hidden, in_range(f, "hidden_size", 1, kMaxWidth));
  std::string_view ffn = "intermediate_size";
  for (const std::string_view own : {"block_ff_dim", "dense_intermediate_size", "intermediate_size_mlp"})
    if (f.has(own)) ffn = own;
  const bool dense = !s.arch->moe || f.has(ffn);  // a model of experts alone need not name it
  if (dense) { ISO_TRY(c.ffn, one_or_listed(s, ffn, 1, kMaxWidth)); }
  ISO_TRY(c.vocab, in_range(f, "vocab_size", 1, kMaxVocab));
  ISO_TRY(c.context_length, in_range(f, spelled(f, {"max_position_embeddings", "model_max_length"}), 1, kMaxContext));
  ISO_TRY(const int64_t heads, one_or_listed(s, "num_attention_heads", 1, kMaxHeads));
  c.heads = int(heads);
  if (s.arch->latent) return parse_latent(s, c);
  const std::string_view kv_key = spelled(f, {"num_key_value_heads", "num_attention_groups"});
  ISO_TRY(const int64_t kv_heads, f.has(kv_key) ? one_or_listed(s, kv_key, 1, kMaxHeads) : Result<int64_t>(heads));
  if (heads % kv_heads)
    return wrong(f, fmt::format("num_attention_heads {} is no multiple of num_key_value_heads {}", heads, kv_heads));
  if (!f.has("head_dim") && c.hidden % heads)
    return wrong(f, fmt::format("hidden_size {} is no multiple of num_attention_heads {}", c.hidden, heads));
  ISO_TRY(const int64_t head_dim, in_range_or(f, "head_dim", 1, kMaxHeadDim, c.hidden / heads));
  c.kv_heads = int(kv_heads), c.head_dim = int(head_dim);
  return {};
}

Result<float> attention_scale(const ConfigSource& s, const ModelConfig& c) {
  if (s.fields.has("attention_multiplier")) return finite_or(s.fields, "attention_multiplier", 1);
  double divisor = s.gguf && c.layers == s.arch->scalar_layers ? double(c.hidden) / c.heads : c.latent ? c.latent.plain + c.latent.turning : c.head_dim;
  if (s.fields.has("query_pre_attn_scalar")) {
    ISO_TRY(divisor, s.fields.number("query_pre_attn_scalar"));
    if (!(divisor > 0)) return wrong(s.fields, fmt::format("query_pre_attn_scalar is {}, must be positive", divisor));
  }
  return float(1 / std::sqrt(divisor));
}

/// MiniMax-Text-01 names what its blocks keep and add; Falcon-H1 multiplies by numbers that a block's linear layers let through.
Result<void> parse_scales(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  BlockScales& b = c.scales;
  const std::pair<std::string_view, float*> kept[] = {
      {"full_attn_alpha_factor", &b.keep_attention},   {"full_attn_beta_factor", &b.attention}, {"linear_attn_alpha_factor", &b.keep_mixer},
      {"linear_attn_beta_factor", &b.mixer}, {"mlp_alpha_factor", &b.keep_feed_forward}, {"mlp_beta_factor", &b.feed_forward}};
  for (const auto& [key, to] : kept) { ISO_TRY(*to, finite_or(f, key, 1)); }
  if (!s.arch->beside) return {};
  ISO_TRY(const float in, finite_or(f, "attention_in_multiplier", 1));
  ISO_TRY(const float key, finite_or(f, "key_multiplier", 1));
  ISO_TRY(b.attention, finite_or(f, "attention_out_multiplier", 1));
  ISO_TRY(b.mixer, finite_or(f, "ssm_out_multiplier", 1));
  c.attn_scale *= in * in * key, b.attention *= in;
  if (!f.has("mlp_multipliers")) return {};
  ISO_TRY(const std::vector<double> mlp, f.numbers("mlp_multipliers"));
  if (mlp.size() != 2) return wrong(f, fmt::format("mlp_multipliers has {} entries, must have 2", mlp.size()));
  b.gate = float(mlp[0]), b.feed_forward = float(mlp[1]);
  return {};
}

Result<void> parse_numbers(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  const std::string_view eps_key = s.arch->layer_norms ? spelled(f, {"layer_norm_eps", "norm_epsilon", "layer_norm_epsilon"})
                                   : f.has("norm_eps") ? "norm_eps" : f.has("layer_norm_epsilon") ? "layer_norm_epsilon"
                                   : f.has("layernorm_epsilon") ? "layernorm_epsilon" : "rms_norm_eps";
  ISO_TRY(const double eps, f.number(eps_key));
  if (!(eps >= 0 && eps < 1)) return wrong(f, fmt::format("{} is {}, must be 0 to 1", eps_key, eps));
  c.norm_eps = float(eps);
  if (s.arch->sparse != Sparse::blocks) { ISO_TRY(c.act, parse_act(f)); }  // which has one of its own
  ISO_TRY(c.attn_scale, attention_scale(s, c));
  ISO_TRY(c.attn_softcap, finite_or(f, "attn_logit_softcapping", 0));
  ISO_TRY(c.final_softcap, finite_or(f, "final_logit_softcapping", 0));
  ISO_TRY(c.embed_scale, finite_or(f, "embedding_multiplier", 1));
  ISO_TRY(c.residual_scale, finite_or(f, "residual_multiplier", 1));
  ISO_TRY(const float logits_scaling, finite_or(f, "logits_scaling", 1));
  if (logits_scaling == 0) return wrong(f, "logits_scaling is 0");
  ISO_TRY(const float head_scale, finite_or(f, "lm_head_multiplier", 1));
  ISO_TRY(c.logit_scale, finite_or(f, "logit_scale", head_scale / logits_scaling));
  ISO_CHECK_OK(parse_scales(s, c));
  c.gemma_norms = s.arch->hf_norm_shift != 0;
  c.layer_norms = s.arch->layer_norms;
  if (s.arch->scaled_embedding) c.embed_scale *= std::sqrt(float(c.hidden));
  return {};
}

/// Switches of which this program knows one position.
struct Switch {
  std::string_view arch;
  const char* key;
  bool known;
};
constexpr Switch kSwitches[] = {{"cohere2", "use_qk_norm", false},     {"cohere2", "use_parallel_block", true},      {"cohere2", "use_gated_activation", true},
                                {"hunyuan_v1_dense", "use_cla", false}, {"hunyuan_v1_moe", "use_cla", false},         {"lfm3", "use_sandwich_norm", true},
                                {"lfm3", "use_attention_gate", true},   {"step3p5", "use_head_wise_attn_gate", true}, {"step3p5", "use_qk_norm", true},
                                {"step3p5", "zero_centered", true},     {"step3p5", "sink", false}};

Result<void> check_switches(const ConfigSource& s) {
  for (const Switch& w : kSwitches) {
    if (w.arch != s.arch->name) continue;
    ISO_TRY(const bool on, s.fields.boolean_or(w.key, w.known));
    if (on != w.known) return unknown(s.fields, fmt::format("{} is {}", w.key, on), fmt::format("only {} is known of '{}'", w.known, w.arch));
  }
  return {};
}

Result<void> parse_presence(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_CHECK_OK(check_switches(s));
  ISO_TRY(c.tied_head, f.boolean_or(f.has("tie_embedding") ? "tie_embedding" : "tie_word_embeddings", false));
  const auto who = f.string("use_bidirectional_attention");  // Gemma 4: "vision" or "all"
  bool bidirectional = who && *who != "vision";
  if (!who) { ISO_TRY(bidirectional, f.boolean_or("use_bidirectional_attention", false)); }
  if (bidirectional) return unknown(f, "use_bidirectional_attention is " + f.text("use_bidirectional_attention"), "only causal attention is supported");
  c.qk_norm = s.arch->qk_norm;
  if (s.gguf) {
    c.qkv_bias = s.arch->qkv_bias;
    c.out_bias = c.mlp_bias = Presence::maybe;
    return {};
  }
  ISO_TRY(const bool all, f.boolean_or("use_bias", false));
  ISO_TRY(const bool attention, f.boolean_or("attention_bias", all));
  ISO_TRY(const bool mlp, f.boolean_or("mlp_bias", all));
  ISO_TRY(const bool out, f.boolean_or("attention_out_bias", attention));
  const auto yes_no = [](bool b) { return b ? Presence::yes : Presence::no; };
  if (c.qk_norm == Presence::maybe) {
    ISO_TRY(const bool normed, f.boolean_or("use_qk_norm", false));
    c.qk_norm = yes_no(normed);
  }
  if (s.arch->qkv_bias == Presence::yes) {  // built into the class, whatever the file says
    c.qkv_bias = Presence::yes;
    return {};
  }
  if (attention && s.arch->beside) return unknown(f, "attention_bias is true", fmt::format("only models of '{}' without it are supported", s.arch->name));
  c.qkv_bias = yes_no(attention), c.out_bias = yes_no(out), c.mlp_bias = yes_no(mlp);
  return {};
}

/// Token texts that end a turn. GGUF files often name <eos> only, while their chat format ends turns with another token.
constexpr std::string_view kTurnEnds[] = {"<|im_end|>", "<end_of_turn>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

void add_generation_config(const std::string& text, std::vector<int32_t>& out) {
  const auto j = weights::parse_json(text, "generation_config.json");
  if (!j || !j->is_object() || !j->contains("eos_token_id")) return;  // the engine reports what is wrong with that file
  const auto& e = (*j)["eos_token_id"];
  const auto add = [&](const nlohmann::json& v) { if (v.is_number_integer()) out.push_back(int32_t(v.get<int64_t>())); };
  if (e.is_array()) for (const auto& v : e) add(v);
  else add(e);
}

Result<void> parse_ends(const weights::Checkpoint& ck, const Metadata& f, ModelConfig& c) {
  const VocabSource& v = ck.vocab();
  std::vector<int32_t>& out = c.eos_ids;
  if (f.has("eos_token_id")) {
    if (f.is_array("eos_token_id")) {
      ISO_TRY(const std::vector<int64_t> ids, f.integers("eos_token_id"));
      out.assign(ids.begin(), ids.end());
    } else {
      ISO_TRY(const int64_t id, f.integer("eos_token_id"));
      out.push_back(int32_t(id));
    }
  }
  out.push_back(v.eos_id);
  out.push_back(v.eot_id);
  add_generation_config(v.generation_config_json, out);
  for (size_t i = 0; i < v.tokens.size() && i < v.token_types.size(); ++i)  // control, user-defined
    if ((v.token_types[i] == 3 || v.token_types[i] == 4) && std::find(std::begin(kTurnEnds), std::end(kTurnEnds), v.tokens[i]) != std::end(kTurnEnds)) out.push_back(int32_t(i));
  std::erase_if(out, [&](int32_t id) { return id < 0 || id >= c.vocab; });
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  ISO_TRY(const int64_t bos, f.integer_or("bos_token_id", v.bos_id));
  c.bos_id = bos >= 0 && bos < c.vocab ? int32_t(bos) : -1;
  return {};
}

Result<ModelConfig> parse_fields(const ConfigSource& s, const weights::Checkpoint& ck, int64_t served_len) {
  ModelConfig c;
  c.arch = s.arch->name;
  ISO_CHECK_OK(parse_sizes(s, c));
  c.layer.resize(size_t(c.layers));
  ISO_CHECK_OK(parse_numbers(s, c));
  ISO_CHECK_OK(parse_presence(s, c));
  ISO_CHECK_OK(parse_mixers(s, c));
  ISO_CHECK_OK(parse_layers(s, c));
  ISO_CHECK_OK(parse_attention(s, c));
  ISO_CHECK_OK(parse_gemma(s, c));
  ISO_CHECK_OK(parse_moe(s, c));
  ISO_CHECK_OK(parse_ropes(s, served_len, c));
  ISO_CHECK_OK(parse_sparse(s, c));
  ISO_CHECK_OK(parse_ends(ck, s.fields, c));
  ISO_CHECK_OK(parse_drafts(s, ck, c));
  return c;
}

}  // namespace

Result<ops::Activation> parse_act(const Metadata& f) {
  const std::string_view key = spelled(f, {"hidden_activation", "mlp_hidden_act", "hidden_act"});
  ISO_TRY(const std::string_view name, f.string_or(key, "silu"));
  for (const ActName& a : kActs)
    if (a.name == name) return a.act;
  return unknown(f, fmt::format("{} is '{}'", key, name), "known: silu, gelu, gelu_pytorch_tanh, relu, relu2");
}

std::string_view spelled(const Metadata& f, std::initializer_list<std::string_view> names) {
  for (std::string_view n : names)
    if (f.has(n)) return n;
  return *names.begin();
}

tl::unexpected<Error> wrong(const Metadata& f, std::string what) {
  return fail(Code::data_loss, std::move(what), f.source(), "use an intact checkpoint, or correct the value with --hf-overrides");
}
tl::unexpected<Error> unknown(const Metadata& f, std::string what, std::string remedy) {
  return fail(Code::unsupported, std::move(what), f.source(), std::move(remedy));
}

Result<int64_t> in_range(const Metadata& f, std::string_view key, int64_t low, int64_t high) {
  ISO_TRY(const int64_t v, f.integer(key));
  if (v < low || v > high) return wrong(f, fmt::format("{} is {}, must be {} to {}", key, v, low, high));
  return v;
}
Result<int64_t> in_range_or(const Metadata& f, std::string_view key, int64_t low, int64_t high, int64_t otherwise) {
  if (!f.has(key)) return otherwise;
  return in_range(f, key, low, high);
}
Result<float> finite_or(const Metadata& f, std::string_view key, double otherwise) {
  ISO_TRY(const double v, f.number_or(key, otherwise));
  if (!std::isfinite(float(v))) return wrong(f, fmt::format("{} is {}", key, v));
  return float(v);
}

void ModelConfig::settle() {
  for (LayerConfig& l : layer) {
    if (l.heads == 0) l.heads = heads;
    if (l.kv_heads == 0) l.kv_heads = kv_heads;
    if (l.head_dim == 0) l.head_dim = head_dim;
    if (l.ffn == 0) l.ffn = ffn;
  }
}

Result<ModelConfig> parse_config(const weights::Checkpoint& ck, const std::map<std::string, std::string>& overrides, int64_t served_len) {
  const Result<ConfigSource> s = ck.container() == "gguf" ? gguf_source(ck, overrides) : hf_source(ck, overrides);
  Result<ModelConfig> c = s ? parse_fields(*s, ck, served_len) : tl::unexpected(s.error());
  if (c || blame_override(overrides, c.error())) return c;
  if (s && s->gguf) name_gguf_key(*s->arch, ck.metadata().string_or("general.architecture", s->arch->gguf).value_or(s->arch->gguf), c.error());
  return c;
}

}  // namespace isotope::models
