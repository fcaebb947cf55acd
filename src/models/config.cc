#include "models/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/config_source.h"
#include "models/rope.h"

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

/// Upper bounds keep products of sizes far from overflow and refuse hostile files before anything is allocated by them.
constexpr int64_t kMaxLayers = 4096, kMaxWidth = 1 << 20, kMaxHeads = 1 << 14, kMaxHeadDim = 1 << 12, kMaxVocab = 1 << 24, kMaxContext = int64_t{1} << 40;

Result<int64_t> in_range(const Metadata& f, std::string_view key, int64_t low, int64_t high) {
  ISO_TRY(const int64_t v, f.integer(key));
  if (v < low || v > high) return fail(Code::data_loss, fmt::format("{} is {}, must be {} to {}", key, v, low, high), f.source());
  return v;
}
Result<int64_t> in_range_or(const Metadata& f, std::string_view key, int64_t low, int64_t high, int64_t otherwise) {
  if (!f.has(key)) return otherwise;
  return in_range(f, key, low, high);
}
Result<float> finite_or(const Metadata& f, std::string_view key, double otherwise) {
  ISO_TRY(const double v, f.number_or(key, otherwise));
  if (!std::isfinite(float(v))) return fail(Code::data_loss, fmt::format("{} is {}", key, v), f.source());
  return float(v);
}

Result<void> parse_sizes(const Metadata& f, ModelConfig& c) {
  ISO_TRY(c.layers, in_range(f, "num_hidden_layers", 1, kMaxLayers));
  ISO_TRY(c.hidden, in_range(f, "hidden_size", 1, kMaxWidth));
  ISO_TRY(c.ffn, in_range(f, "intermediate_size", 1, kMaxWidth));
  ISO_TRY(c.vocab, in_range(f, "vocab_size", 1, kMaxVocab));
  ISO_TRY(c.context_length, in_range(f, "max_position_embeddings", 1, kMaxContext));
  ISO_TRY(const int64_t heads, in_range(f, "num_attention_heads", 1, kMaxHeads));
  ISO_TRY(const int64_t kv_heads, in_range_or(f, "num_key_value_heads", 1, kMaxHeads, heads));
  if (heads % kv_heads)
    return fail(Code::data_loss, fmt::format("num_attention_heads {} is no multiple of num_key_value_heads {}", heads, kv_heads), f.source());
  if (!f.has("head_dim") && c.hidden % heads)
    return fail(Code::data_loss, fmt::format("hidden_size {} is no multiple of num_attention_heads {}", c.hidden, heads), f.source());
  ISO_TRY(const int64_t head_dim, in_range_or(f, "head_dim", 1, kMaxHeadDim, c.hidden / heads));
  c.heads = int(heads), c.kv_heads = int(kv_heads), c.head_dim = int(head_dim);
  return {};
}

Result<ops::Activation> parse_act(const Metadata& f) {
  const std::string_view key = f.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  ISO_TRY(const std::string_view name, f.string_or(key, "silu"));
  for (const ActName& a : kActs)
    if (a.name == name) return a.act;
  return fail(Code::unsupported, fmt::format("{} is '{}'", key, name), f.source(), "known: silu, gelu, gelu_pytorch_tanh, relu, relu2");
}

Result<float> attention_scale(const ConfigSource& s, const ModelConfig& c) {
  if (s.fields.has("attention_multiplier")) return finite_or(s.fields, "attention_multiplier", 1);
  double divisor = s.gguf && c.layers == s.arch->scalar_layers ? double(c.hidden) / c.heads : c.head_dim;
  if (s.fields.has("query_pre_attn_scalar")) {
    ISO_TRY(divisor, s.fields.number("query_pre_attn_scalar"));
    if (!(divisor > 0)) return fail(Code::data_loss, fmt::format("query_pre_attn_scalar is {}, must be positive", divisor), s.fields.source());
  }
  return float(1 / std::sqrt(divisor));
}

Result<void> parse_numbers(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_TRY(const double eps, f.number("rms_norm_eps"));
  if (!(eps >= 0 && eps < 1)) return fail(Code::data_loss, fmt::format("rms_norm_eps is {}, must be 0 to 1", eps), f.source());
  c.norm_eps = float(eps);
  ISO_TRY(c.act, parse_act(f));
  ISO_TRY(c.attn_scale, attention_scale(s, c));
  ISO_TRY(c.attn_softcap, finite_or(f, "attn_logit_softcapping", 0));
  ISO_TRY(c.final_softcap, finite_or(f, "final_logit_softcapping", 0));
  ISO_TRY(c.embed_scale, finite_or(f, "embedding_multiplier", 1));
  ISO_TRY(c.residual_scale, finite_or(f, "residual_multiplier", 1));
  ISO_TRY(const float logits_scaling, finite_or(f, "logits_scaling", 1));
  if (logits_scaling == 0) return fail(Code::data_loss, "logits_scaling is 0", f.source());
  c.logit_scale = 1 / logits_scaling;
  if (s.arch->scaled_embedding) c.embed_scale *= std::sqrt(float(c.hidden));
  return {};
}

Result<void> parse_presence(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_TRY(c.tied_head, f.boolean_or("tie_word_embeddings", false));
  ISO_TRY(const bool bidirectional, f.boolean_or("use_bidirectional_attention", false));
  if (bidirectional) return fail(Code::unsupported, "use_bidirectional_attention is true: only causal attention is supported", f.source());
  if (s.gguf) {
    c.qkv_bias = s.arch->qkv_bias;
    c.out_bias = c.mlp_bias = Presence::maybe;
    return {};
  }
  ISO_TRY(const bool attention, f.boolean_or("attention_bias", false));
  ISO_TRY(const bool out, f.boolean_or("attention_out_bias", attention));
  ISO_TRY(const bool mlp, f.boolean_or("mlp_bias", false));
  const auto yes_no = [](bool b) { return b ? Presence::yes : Presence::no; };
  c.qkv_bias = yes_no(attention), c.out_bias = yes_no(out), c.mlp_bias = yes_no(mlp);
  return {};
}

/// NoPE layers: a list (1 = rotate), or every n-th.
Result<void> parse_nope(const Metadata& f, ModelConfig& c) {
  if (f.has("no_rope_layers")) {
    ISO_TRY(const std::vector<int64_t> rotate, f.integers("no_rope_layers"));
    if (int64_t(rotate.size()) != c.layers)
      return fail(Code::data_loss, fmt::format("no_rope_layers has {} entries for {} layers", rotate.size(), c.layers), f.source());
    for (size_t i = 0; i < rotate.size(); ++i) c.layer[i].rope = rotate[i] != 0;
    return {};
  }
  ISO_TRY(const int64_t interval, in_range_or(f, "no_rope_layer_interval", 1, kMaxLayers + 1, kMaxLayers + 1));
  for (int64_t i = 0; i < c.layers; ++i) c.layer[size_t(i)].rope = (i + 1) % interval != 0;
  return {};
}

Result<std::vector<bool>> sliding_by_types(const Metadata& f, const ModelConfig& c) {
  ISO_TRY(const std::vector<std::string_view> types, f.strings("layer_types"));
  if (int64_t(types.size()) != c.layers) return fail(Code::data_loss, fmt::format("layer_types has {} entries for {} layers", types.size(), c.layers), f.source());
  std::vector<bool> slides;
  for (std::string_view t : types) {
    if (t != "sliding_attention" && t != "full_attention")
      return fail(Code::unsupported, fmt::format("layer_types names '{}'", t), f.source(), "known: full_attention, sliding_attention");
    slides.push_back(t == "sliding_attention");
  }
  return slides;
}

Result<std::vector<bool>> sliding_by_rule(const ConfigSource& s, const ModelConfig& c) {
  const Metadata& f = s.fields;
  std::vector<bool> slides(size_t(c.layers), false);
  ISO_TRY(const bool used, f.boolean_or("use_sliding_window", false));
  ISO_TRY(const int64_t from, in_range_or(f, "max_window_layers", 0, kMaxLayers, 0));
  ISO_TRY(const int64_t pattern, in_range_or(f, "sliding_window_pattern", 1, kMaxLayers, 1));
  for (int64_t i = 0; i < c.layers; ++i) switch (s.arch->windows) {
      case WindowRule::none: break;
      case WindowRule::every: slides[size_t(i)] = true; break;
      case WindowRule::from_layer: slides[size_t(i)] = used && i >= from; break;
      case WindowRule::nope: slides[size_t(i)] = used && !c.layer[size_t(i)].rope; break;
      case WindowRule::pattern: slides[size_t(i)] = (i + 1) % pattern != 0; break;
    }
  return slides;
}

Result<void> parse_windows(const ConfigSource& s, ModelConfig& c) {
  // GGUF writes 0 where config.json has null.
  ISO_TRY(const int64_t window, in_range_or(s.fields, "sliding_window", 0, kMaxContext, 0));
  const bool typed = s.fields.has("layer_types") && s.arch->windows != WindowRule::every;
  ISO_TRY(const std::vector<bool> slides, typed ? sliding_by_types(s.fields, c) : sliding_by_rule(s, c));
  for (size_t i = 0; i < slides.size(); ++i) {
    if (!slides[i]) continue;
    if (typed && window == 0) return fail(Code::data_loss, "layer_types has sliding layers, sliding_window is not set", s.fields.source());
    c.layer[i].window = window;
  }
  return {};
}

/// Reads one law. `at`: "rope_scaling.", "rope_parameters." …; what it lacks is looked up at the top level.
Result<RopeLaw> parse_law(const Metadata& f, const std::string& at, const ModelConfig& c) {
  RopeLaw law;
  const std::string type_key = f.has(at + "rope_type") ? at + "rope_type" : at + "type";
  ISO_TRY(const std::string_view type, f.string_or(type_key, "default"));
  const auto known = rope_type(type);
  if (!known) return fail(Code::unsupported, fmt::format("{} is '{}'", type_key, type), f.source(), fmt::format("known: {}", rope_type_names()));
  law.type = *known;
  law.context_len = c.context_length;
  ISO_TRY(law.theta, f.number_or("rope_theta", 10000.0));
  ISO_TRY(law.theta, f.number_or(at + "rope_theta", law.theta));
  ISO_TRY(law.original_len, in_range_or(f, at + "original_max_position_embeddings", 1, kMaxContext, c.context_length));
  ISO_TRY(law.original_len, in_range_or(f, "original_max_position_embeddings", 1, kMaxContext, law.original_len));
  const bool by_lengths = law.type == RopeLaw::Type::yarn || law.type == RopeLaw::Type::longrope;
  if (law.type != RopeLaw::Type::plain && !by_lengths && !f.has(at + "factor"))
    return fail(Code::data_loss, fmt::format("{}factor is missing for rope type '{}'", at, type), f.source());
  ISO_TRY(law.factor, f.number_or(at + "factor", by_lengths ? double(c.context_length) / double(law.original_len) : 1.0));
  ISO_TRY(law.beta_fast, f.number_or(at + "beta_fast", 32));
  ISO_TRY(law.beta_slow, f.number_or(at + "beta_slow", 1));
  ISO_TRY(law.truncate, f.boolean_or(at + "truncate", true));
  ISO_TRY(law.low_freq_factor, f.number_or(at + "low_freq_factor", 1));
  ISO_TRY(law.high_freq_factor, f.number_or(at + "high_freq_factor", 4));
  const auto maybe = [&](const char* key, std::optional<double>& out) -> Result<void> {
    if (f.has(at + key)) { ISO_TRY(out, f.number(at + key)); }
    return {};
  };
  ISO_CHECK_OK(maybe("attention_factor", law.attention_factor));
  ISO_CHECK_OK(maybe("mscale", law.mscale));
  ISO_CHECK_OK(maybe("mscale_all_dim", law.mscale_all_dim));
  const auto list = [&](const std::string& key, std::vector<float>& out) -> Result<void> {
    if (!f.has(key)) return {};
    ISO_TRY(const std::vector<double> v, f.numbers(key));
    out.assign(v.begin(), v.end());
    return {};
  };
  ISO_CHECK_OK(list(at + "short_factor", law.short_factor));
  ISO_CHECK_OK(list(at + "long_factor", law.long_factor));
  ISO_CHECK_OK(list("rope_divisors", law.divisors));
  return law;
}

/// The dimensions that turn.
Result<int> rotary_dim(const Metadata& f, const std::string& at, const ModelConfig& c) {
  ISO_TRY(const int64_t fixed, in_range_or(f, "rotary_dim", 1, c.head_dim, c.head_dim));
  ISO_TRY(double part, f.number_or("partial_rotary_factor", 1));
  ISO_TRY(part, f.number_or(at + "partial_rotary_factor", part));
  if (!(part > 0 && part <= 1)) return fail(Code::data_loss, fmt::format("partial_rotary_factor is {}, must be above 0, at most 1", part), f.source());
  return f.has("rotary_dim") ? int(fixed) : int(c.head_dim * part);
}

Result<void> add_rope(const Metadata& f, const RopeLaw& law, const std::string& at, int64_t served_len, ModelConfig& c) {
  ISO_TRY(const int rot, rotary_dim(f, at, c));
  auto rope = make_rope(law, rot, served_len ? served_len : c.context_length);
  if (!rope) {
    rope.error().source = f.source();
    return tl::unexpected(std::move(rope).error());
  }
  c.ropes.push_back(*std::move(rope));
  return {};
}

/// ropes[0] turns full layers; ropes[1], where a family has a local one, the sliding layers.
Result<void> parse_ropes(const Metadata& f, int64_t served_len, ModelConfig& c) {
  const bool nested = f.has("rope_parameters.full_attention");
  const std::string at = nested ? "rope_parameters.full_attention." : f.has("rope_parameters") ? "rope_parameters." : "rope_scaling.";
  ISO_TRY(const RopeLaw full, parse_law(f, at, c));
  ISO_CHECK_OK(add_rope(f, full, at, served_len, c));
  const std::string local_at = "rope_parameters.sliding_attention.";
  const bool local = f.has("rope_parameters.sliding_attention");
  if (!local && !f.has("rope_local_base_freq")) return {};
  RopeLaw law;
  if (local) {
    ISO_TRY(law, parse_law(f, local_at, c));
  } else {
    ISO_TRY(law.theta, f.number("rope_local_base_freq"));
  }
  ISO_CHECK_OK(add_rope(f, law, local_at, served_len, c));
  for (LayerConfig& l : c.layer) l.rope_index = l.window ? 1 : 0;
  return {};
}

/// Token texts that end a turn. GGUF files often name <eos> only, while their chat format ends turns with another token.
constexpr std::string_view kTurnEnds[] = {"<|im_end|>", "<end_of_turn>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

void add_generation_config(const std::string& text, std::vector<int32_t>& out) {
  const auto j = nlohmann::json::parse(text, nullptr, false);
  if (!j.is_object() || !j.contains("eos_token_id")) return;
  const auto& e = j["eos_token_id"];
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
  for (size_t i = 0; i < v.tokens.size() && i < v.token_types.size(); ++i)  // 3 = control
    if (v.token_types[i] == 3 && std::find(std::begin(kTurnEnds), std::end(kTurnEnds), v.tokens[i]) != std::end(kTurnEnds)) out.push_back(int32_t(i));
  std::erase_if(out, [&](int32_t id) { return id < 0 || id >= c.vocab; });
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  ISO_TRY(const int64_t bos, f.integer_or("bos_token_id", v.bos_id));
  c.bos_id = bos >= 0 && bos < c.vocab ? int32_t(bos) : -1;
  return {};
}

}  // namespace

Result<ModelConfig> parse_config(const weights::Checkpoint& ck, const std::map<std::string, std::string>& overrides, int64_t served_len) {
  ISO_TRY(const ConfigSource s, ck.container() == "gguf" ? gguf_source(ck, overrides) : hf_source(ck, overrides));
  ModelConfig c;
  c.arch = s.arch->name;
  ISO_CHECK_OK(parse_sizes(s.fields, c));
  c.layer.resize(size_t(c.layers));
  ISO_CHECK_OK(parse_numbers(s, c));
  ISO_CHECK_OK(parse_presence(s, c));
  ISO_CHECK_OK(parse_nope(s.fields, c));
  ISO_CHECK_OK(parse_windows(s, c));
  ISO_CHECK_OK(parse_ropes(s.fields, served_len, c));
  ISO_CHECK_OK(parse_ends(ck, s.fields, c));
  return c;
}

}  // namespace isotope::models
