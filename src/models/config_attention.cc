// What config.json says of attention beyond the model's heads: how they are normed, how queries grow, layers of another geometry, layers that read another
// one's keys and values.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "models/config_fields.h"

namespace isotope::models {
namespace {

using weights::Metadata;

/// Layers that slide, or those that do not, have other heads than the model at large.
struct GeometryRow {
  const char* key;
  int LayerConfig::*to;
  bool sliding;
  int64_t most;
  const char* unless_false = nullptr;  ///< a switch without which the class looks past the key
};
constexpr GeometryRow kGeometry[] = {
    {"global_head_dim", &LayerConfig::head_dim, false, kMaxHeadDim},
    {"num_global_key_value_heads", &LayerConfig::kv_heads, false, kMaxHeads, "attention_k_eq_v"},
    {"swa_num_attention_heads", &LayerConfig::heads, true, kMaxHeads},
    {"num_sliding_attention_heads", &LayerConfig::heads, true, kMaxHeads},
    {"swa_num_key_value_heads", &LayerConfig::kv_heads, true, kMaxHeads},
    {"swa_head_dim", &LayerConfig::head_dim, true, kMaxHeadDim},
    {"attention_other_setting.num_attention_heads", &LayerConfig::heads, true, kMaxHeads},
    {"attention_other_setting.num_attention_groups", &LayerConfig::kv_heads, true, kMaxHeads},
    {"attention_other_setting.head_dim", &LayerConfig::head_dim, true, kMaxHeadDim},
};

/// Lists with a number for each layer.
template <class T>
Result<void> parse_list(const Metadata& f, std::string_view key, T LayerConfig::*to, ModelConfig& c) {
  if (!f.is_array(key)) return {};
  ISO_TRY(const std::vector<int64_t> all, f.integers(key));
  // Those of multi-token-prediction layers may follow.
  if (int64_t(all.size()) != c.layers && int64_t(all.size()) != c.layers + c.draft_layers)
    return wrong(f, fmt::format("{} has {} entries for {} layers", key, all.size(), c.layers));
  for (size_t i = 0; i < c.layer.size(); ++i) c.layer[i].*to = T(all[i]);
  return {};
}

Result<void> parse_geometry(const Metadata& f, ModelConfig& c) {
  ISO_CHECK_OK(parse_list(f, "num_attention_heads", &LayerConfig::heads, c));
  ISO_CHECK_OK(parse_list(f, "num_key_value_heads", &LayerConfig::kv_heads, c));
  ISO_CHECK_OK(parse_list(f, "intermediate_size", &LayerConfig::ffn, c));
  for (const GeometryRow& row : kGeometry) {
    if (!f.has(row.key)) continue;
    if (row.unless_false) {
      ISO_TRY(const bool on, f.boolean_or(row.unless_false, true));
      if (!on) continue;
    }
    ISO_TRY(const int64_t n, in_range(f, row.key, 1, row.most));
    for (LayerConfig& l : c.layer)
      if (l.attends() && (l.window > 0) == row.sliding) l.*row.to = int(n);
  }
  // As transformers 5 writes it: what a layer has of its own under its number.
  for (size_t i = 0; f.has("per_layer_config") && i < c.layer.size(); ++i)
    for (const auto& [key, to, most] : {std::tuple("num_attention_heads", &LayerConfig::heads, kMaxHeads),
                                        std::tuple("num_key_value_heads", &LayerConfig::kv_heads, kMaxHeads),
                                        std::tuple("head_dim", &LayerConfig::head_dim, kMaxHeadDim)}) {
      const std::string path = fmt::format("per_layer_config.{}.{}", i, key);
      if (!f.has(path)) continue;
      ISO_TRY(const int64_t n, in_range(f, path, 1, most));
      c.layer[i].*to = int(n);
    }
  for (size_t i = 0; i < c.layer.size(); ++i)
    if (c.layer[i].heads % c.layer[i].kv_heads)
      return wrong(f, fmt::format("layer {} has {} heads, no multiple of its {} for keys and values", i, c.layer[i].heads, c.layer[i].kv_heads));
  return {};
}

/// Llama 4 (arXiv:2501.19399): queries of layers that do not turn grow with their position.
Result<void> parse_temperature(const Metadata& f, ModelConfig& c) {
  if (!f.has("attn_temperature_tuning")) return {};
  // Written as a truth or, in early files, as a number.
  const auto number = f.integer("attn_temperature_tuning");
  bool on = number && *number != 0;
  if (!number) { ISO_TRY(on, f.boolean("attn_temperature_tuning")); }
  if (!on) return {};
  ISO_TRY(c.growth.beta, finite_or(f, "attn_scale", 0.1));
  ISO_TRY(c.growth.period, finite_or(f, "floor_scale", 8192));
  if (!(c.growth.period >= 1)) return wrong(f, fmt::format("floor_scale is {}, must be at least 1", c.growth.period));
  c.growth.offset = 1;
  for (LayerConfig& l : c.layer) l.grows = !l.rope && c.growth;
  return {};
}

/// The last layers have no keys and values of their own: they read those of the last layer before them that sees as far.
Result<void> parse_sharing(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_TRY(const int64_t shared, in_range_or(f, "num_kv_shared_layers", 0, c.layers - 1, 0));
  if (shared > 0 && !s.arch->unit_values)
    return unknown(f, fmt::format("num_kv_shared_layers is {}", shared), fmt::format("'{}' is not known to share keys and values", s.arch->name));
  const int64_t first = c.layers - shared;
  for (int64_t i = first; i < c.layers; ++i) {
    int64_t from = first - 1;
    while (from >= 0 && c.layer[size_t(from)].window != c.layer[size_t(i)].window) --from;
    if (from < 0) return wrong(f, fmt::format("num_kv_shared_layers is {}, which leaves layer {} no earlier one of its type to read from", shared, i));
    c.layer[size_t(i)].kv_of = int(from);
  }
  return {};
}

/// Heads of v that are smaller than those of q and k, and sinks that only some layers have (MiMo-V2).
Result<void> parse_values(const Metadata& f, ModelConfig& c) {
  ISO_TRY(c.value_scale, finite_or(f, "attention_value_scale", 1));
  ISO_TRY(const int64_t full, in_range_or(f, "v_head_dim", 1, kMaxHeadDim, 0));
  ISO_TRY(const int64_t sliding, in_range_or(f, "swa_v_head_dim", 1, kMaxHeadDim, full));
  ISO_TRY(const bool sliding_sinks, f.boolean_or("add_swa_attention_sink_bias", false));
  ISO_TRY(const bool full_sinks, f.boolean_or("add_full_attention_sink_bias", false));
  for (LayerConfig& l : c.layer) {
    const int64_t dim = l.window ? sliding : full;
    if (dim > l.head_dim) return wrong(f, fmt::format("v_head_dim is {}, wider than heads of keys, which have {}", dim, l.head_dim));
    l.value_dim = dim ? int(dim) : l.head_dim;
    l.sinks = l.window ? sliding_sinks : full_sinks;
  }
  return {};
}

/// Step 3.5 clamps the gated blocks of some layers.
Result<void> parse_clamps(const Metadata& f, ModelConfig& c) {
  const auto read = [&](const char* key, float LayerConfig::*to) -> Result<void> {
    if (!f.is_array(key)) return {};
    ISO_TRY(const std::vector<double> limits, f.numbers(key));
    if (int64_t(limits.size()) < c.layers) return wrong(f, fmt::format("{} has {} entries for {} layers", key, limits.size(), c.layers));
    for (size_t i = 0; i < c.layer.size(); ++i) {
      if (!(limits[i] >= 0 && limits[i] <= 1e6)) return wrong(f, fmt::format("{} holds {}, must be 0 (none) or above", key, limits[i]));
      c.layer[i].*to = float(limits[i]);
    }
    return {};
  };
  ISO_CHECK_OK(read("swiglu_limits", &LayerConfig::expert_clamp));
  return read("swiglu_limits_shared", &LayerConfig::clamp);
}

}  // namespace

Result<void> parse_attention(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  c.settle();
  c.norms_last = s.arch->norms_last;
  c.unit_values = s.arch->unit_values;
  if (s.arch->unit_heads) { ISO_TRY(c.unit_heads, f.boolean_or("use_qk_norm", true)); }
  if (s.arch->by_layer) {
    ISO_CHECK_OK(parse_geometry(f, c));
    ISO_CHECK_OK(parse_values(f, c));
    ISO_CHECK_OK(parse_clamps(f, c));
  }
  ISO_CHECK_OK(parse_temperature(f, c));
  ISO_CHECK_OK(parse_sharing(s, c));
  ISO_TRY(const bool same, f.boolean_or("attention_k_eq_v", false));
  for (LayerConfig& l : c.layer) {
    l.values_are_keys = same && s.arch->unit_values && l.window == 0;
    if (l.kv_of >= 0 && l.value_dim && l.value_dim != l.head_dim) return wrong(f, "layers share keys and values whose heads differ in size");
  }
  return {};
}

}  // namespace isotope::models
