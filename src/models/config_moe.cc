// Mixtures of experts as config.json spells them: each family has words of its own for the same few numbers.
#include <fmt/format.h>

#include <algorithm>

#include "models/config_fields.h"

namespace isotope::models {
namespace {

using ops::Routing;
using weights::Metadata;

constexpr int64_t kMaxExperts = 1 << 12, kMaxGroups = 256;

/// A number, or a list that holds the same number for every layer (Hunyuan).
Result<int64_t> uniform(const Metadata& f, std::string_view key, int64_t low, int64_t high) {
  if (!f.is_array(key)) return in_range(f, key, low, high);
  ISO_TRY(const std::vector<int64_t> all, f.integers(key));
  if (all.empty() || std::any_of(all.begin(), all.end(), [&](int64_t v) { return v != all[0]; }))
    return unknown(f, fmt::format("{} differs between layers", key), "only one value for all layers is supported");
  if (all[0] < low || all[0] > high) return wrong(f, fmt::format("{} holds {}, must be {} to {}", key, all[0], low, high));
  return all[0];
}

Result<void> parse_shared(const Metadata& f, MoeConfig& m) {
  const std::string_view width = spelled(f, {"shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size"});
  if (f.has(width)) {
    ISO_TRY(m.shared_ffn, in_range(f, width, 0, kMaxWidth));
    return {};
  }
  const std::string_view count = spelled(f, {"n_shared_experts", "moe_num_shared_experts", "num_shared_experts", "num_shared_expert"});
  if (!f.has(count)) return {};
  ISO_TRY(const int64_t n, uniform(f, count, 0, kMaxExperts));
  if (n * m.ffn > kMaxWidth) return wrong(f, fmt::format("{} is {}: {} wide", count, n, n * m.ffn));
  m.shared_ffn = n * m.ffn;
  return {};
}

Result<void> parse_groups(const Metadata& f, MoeConfig& m) {
  Routing& r = m.routing;
  const int64_t experts = m.experts;
  ISO_TRY(const std::string_view method, f.string_or("topk_method", ""));
  if (!method.empty() && method != "greedy" && method != "group_limited_greedy" && method != "noaux_tc")
    return unknown(f, fmt::format("topk_method is '{}'", method), "known: greedy, group_limited_greedy, noaux_tc");
  if (method == "greedy") return {};
  ISO_TRY(const int64_t groups, in_range_or(f, spelled(f, {"n_group", "num_expert_group"}), 1, kMaxGroups, 1));
  ISO_TRY(const int64_t used, in_range_or(f, "topk_group", 1, groups, 1));
  if (groups > 1 && m.identity > 0)
    return unknown(f, fmt::format("n_group is {} together with zero_expert_num {}", groups, m.identity), "only one of them is known");
  if (experts % groups) return wrong(f, fmt::format("{} experts are no multiple of n_group {}", experts, groups));
  if (experts / groups * used < r.used) return wrong(f, fmt::format("{} of {} groups hold fewer than the {} experts a token goes to", used, groups, r.used));
  r.groups = int(groups), r.groups_used = int(used);
  // GGUF does not say how groups are scored: DeepSeek V2, with softmax, takes the best expert, V3, with sigmoid, the two best.
  const bool by_best = method.empty() ? r.score == Routing::Score::softmax : method == "group_limited_greedy";
  r.group_best = by_best ? 1 : 2;
  return {};
}

Result<void> parse_routing(const ConfigSource& s, MoeConfig& m) {
  const Metadata& f = s.fields;
  Routing& r = m.routing;
  const std::string_view used_key = spelled(f, {"num_experts_per_tok", "moe_k", "moe_topk", "num_experts_per_token", "experts_per_token", "moe_top_k", "top_k_experts"});
  ISO_TRY(const int64_t used, uniform(f, used_key, 1, m.experts));
  r.used = int(used);
  ISO_TRY(const std::string_view score, f.string_or(spelled(f, {"scoring_func", "moe_router_activation_func"}), "softmax"));
  if (score == "noaux_tc") r.score = Routing::Score::sigmoid;  // dots.llm1 names the method here
  else if (score == "sqrtsoftplus") r.score = Routing::Score::sqrt_softplus;
  else if (score != "softmax" && score != "sigmoid") return unknown(f, fmt::format("scoring_func is '{}'", score), "known: softmax, sigmoid, sqrtsoftplus");
  else r.score = score == "sigmoid" ? Routing::Score::sigmoid : Routing::Score::softmax;
  ISO_TRY(r.renormalize, f.boolean_or(spelled(f, {"norm_topk_prob", "route_norm", "moe_renormalize"}), false));
  ISO_TRY(r.scale, finite_or(f, spelled(f, {"routed_scaling_factor", "router_scaling_factor"}), 1));
  if (s.gguf && r.scale == 0) r.scale = 1;   // files write 0 where the model has none
  if (!(r.scale > 0)) return wrong(f, fmt::format("routed_scaling_factor is {:g}, must be above 0", r.scale));
  return parse_groups(f, m);
}

/// Every `step`-th layer from the first that may be one to the last, but for those that are named.
Result<void> parse_places(const Metadata& f, ModelConfig& c) {
  ISO_TRY(const int64_t first, in_range_or(f, spelled(f, {"first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"}), 0, kMaxLayers, 0));
  if (f.is_array("moe_layer_freq")) {  // MiMo-V2: 1 for each layer with experts
    ISO_TRY(const std::vector<int64_t> sparse, f.integers("moe_layer_freq"));
    if (int64_t(sparse.size()) != c.layers) return wrong(f, fmt::format("moe_layer_freq has {} entries for {} layers", sparse.size(), c.layers));
    for (size_t i = 0; i < sparse.size(); ++i) c.layer[i].moe = sparse[i] != 0;
    return {};
  }
  const std::string_view step_key = spelled(f, {"decoder_sparse_step", "moe_layer_interval", "interleave_moe_layer_step", "moe_layer_freq"});
  ISO_TRY(const int64_t step, in_range_or(f, step_key, 1, kMaxLayers, 1));
  // Ernie writes -1 for "to the end".
  ISO_TRY(const int64_t last, in_range_or(f, "moe_layer_end_index", -1, kMaxLayers, -1));
  if (f.has("moe_layers")) {
    ISO_TRY(const std::vector<int64_t> sparse, f.integers("moe_layers"));
    for (int64_t i : sparse) {
      if (i < 0 || i >= c.layers + c.draft_layers) return wrong(f, fmt::format("moe_layers names layer {}, there are {}", i, c.layers));
      if (i < c.layers) c.layer[size_t(i)].moe = true;  // the others are those of multi-token prediction
    }
    return {};
  }
  std::vector<int64_t> dense;
  if (f.has("mlp_only_layers")) { ISO_TRY(dense, f.integers("mlp_only_layers")); }
  for (int64_t i = 0; i < c.layers; ++i)
    c.layer[size_t(i)].moe = i >= first && (last < 0 || i <= last) && (i + 1) % step == 0 && std::find(dense.begin(), dense.end(), i) == dense.end();
  return {};
}

/// A list with a number for each layer, 0 for dense ones (MiniMax M3).
Result<void> parse_flags(const Metadata& f, ModelConfig& c) {
  ISO_TRY(const std::vector<int64_t> flags, f.integers("moe_layer_freq"));
  if (int64_t(flags.size()) != c.layers) return wrong(f, fmt::format("moe_layer_freq has {} entries for {} layers", flags.size(), c.layers));
  for (size_t i = 0; i < flags.size(); ++i) c.layer[i].moe = flags[i] != 0;
  return {};
}

/// Of every n layers the one with that number (Jamba).
Result<void> parse_period(const Metadata& f, ModelConfig& c) {
  ISO_TRY(const int64_t period, in_range(f, "expert_layer_period", 1, kMaxLayers));
  ISO_TRY(const int64_t offset, in_range_or(f, "expert_layer_offset", 0, period - 1, 0));
  for (int64_t i = 0; i < c.layers; ++i) c.layer[size_t(i)].moe = i % period == offset;
  return {};
}

Result<void> parse_types(const Metadata& f, ModelConfig& c) {
  ISO_TRY(std::vector<std::string_view> types, f.strings("mlp_layer_types"));
  if (int64_t(types.size()) == c.layers + c.draft_layers) types.resize(size_t(c.layers));  // those of multi-token-prediction layers follow
  if (int64_t(types.size()) != c.layers) return wrong(f, fmt::format("mlp_layer_types has {} entries for {} layers", types.size(), c.layers));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "dense" && types[i] != "sparse") return unknown(f, fmt::format("mlp_layer_types names '{}'", types[i]), "known: dense, sparse");
    c.layer[i].moe = types[i] == "sparse";
  }
  return {};
}

/// Whether a model of a family that may be without experts is: it has one at most, or (layers of one block) no layer with some.
bool lacks_experts(const ConfigSource& s, std::string_view count, const ModelConfig& c) {
  if (s.arch->one_block) return std::none_of(c.layer.begin(), c.layer.end(), [](const LayerConfig& l) { return l.moe; });
  const auto experts = s.fields.integer_or(count, 0);
  return experts && *experts <= 1;
}

}  // namespace

Result<void> parse_moe(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  if (!s.arch->moe) return {};
  if (f.has("enable_moe_block")) {  // Gemma 4: one family with experts and without
    ISO_TRY(const bool enabled, f.boolean("enable_moe_block"));
    if (!enabled) return {};
  }
  MoeConfig& m = c.moe;
  const std::string_view count = spelled(f, {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"});
  if (s.arch->maybe_moe && lacks_experts(s, count, c)) {
    // A dense Granite hybrid has the block that its mixtures share.
    ISO_TRY(c.ffn, in_range_or(f, "shared_intermediate_size", 1, kMaxWidth, c.ffn));
    return {};
  }
  ISO_TRY(m.experts, in_range(f, count, 1, kMaxExperts));
  ISO_TRY(m.ffn, uniform(f, spelled(f, {"moe_intermediate_size", "intermediate_size"}), 1, kMaxWidth));
  ISO_TRY(m.latent, in_range_or(f, "moe_latent_size", 0, kMaxWidth, 0));
  if (m.latent > 0 && s.arch->moe->to_latent.empty()) return unknown(f, fmt::format("moe_latent_size is {}", m.latent), "only families with such experts have it");
  ISO_TRY(m.identity, in_range_or(f, "zero_expert_num", 0, kMaxExperts, 0));
  ISO_TRY(const std::string_view zero, f.string_or("zero_expert_type", "identity"));
  if (zero != "identity") return unknown(f, fmt::format("zero_expert_type is '{}'", zero), "known: identity");
  ISO_CHECK_OK(parse_routing(s, m));
  ISO_CHECK_OK(parse_shared(f, m));
  if (!s.arch->moe->bias.empty()) m.choice_bias = s.gguf ? Presence::maybe : Presence::yes;
  m.routing.by_logits = s.arch->by_logits, m.routing.on_input = s.arch->weighted_input;
  if (s.arch->clamped_swiglu) {
    ISO_TRY(m.swiglu_limit, finite_or(f, "swiglu_limit", 7));
    ISO_TRY(m.swiglu_alpha, finite_or(f, "swiglu_alpha", 1.702));
    if (!(m.swiglu_limit > 0)) return wrong(f, fmt::format("swiglu_limit is {}, must be positive", m.swiglu_limit));
    ISO_TRY(const bool everywhere, f.boolean_or("swiglu_limit_everywhere", false));
    if (everywhere) m.shared_limit = c.mlp_limit = m.swiglu_limit, c.mlp_alpha = m.swiglu_alpha;
  }
  if (s.arch->one_block) return {};  // place_mixers() knows
  if (f.is_array("moe_layer_freq")) return parse_flags(f, c);
  const bool typed = f.has("mlp_layer_types") && s.arch->sparse != Sparse::compressed;  // whose types say how experts are chosen
  return typed ? parse_types(f, c) : f.has("expert_layer_period") ? parse_period(f, c) : parse_places(f, c);
}

}  // namespace isotope::models
