// Layers with a recurrent state as config.json spells them: which ones they are, and their sizes.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "models/config_fields.h"

namespace isotope::models {
namespace {

using weights::Metadata;

constexpr int64_t kMaxStates = 1 << 10;

Result<int> small(const Metadata& f, std::string_view key, int64_t low, int64_t high) {
  ISO_TRY(const int64_t v, in_range(f, key, low, high));
  return int(v);
}

/// `layer_types` by name.
Result<void> places_by_types(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_TRY(const std::vector<std::string_view> types, f.strings("layer_types"));
  if (int64_t(types.size()) != c.layers) return wrong(f, fmt::format("layer_types has {} entries for {} layers", types.size(), c.layers));
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string_view t = types[i];
    const bool attends = t == "full_attention" || t == "sliding_attention" || t == "attention";
    if (!attends && t != "linear_attention" && t != "mamba" && t != "conv")
      return unknown(f, fmt::format("layer_types names '{}'", t), "known: full_attention, sliding_attention, attention, linear_attention, mamba, conv");
    c.layer[i].mixer = attends ? Mixer::attention : s.arch->mixer;
  }
  return {};
}

/// Every n-th layer attends.
Result<void> places_by_interval(const ConfigSource& s, ModelConfig& c) {
  ISO_TRY(const int64_t interval, in_range(s.fields, "full_attention_interval", 1, kMaxLayers));
  for (int64_t i = 0; i < c.layers; ++i) c.layer[size_t(i)].mixer = (i + 1) % interval ? s.arch->mixer : Mixer::attention;
  return {};
}

Result<void> parse_delta(const Metadata& f, StateConfig& s) {
  ISO_TRY(s.conv_width, small(f, "linear_conv_kernel_dim", 2, ops::kMaxConvWidth));
  ISO_TRY(s.key_heads, small(f, "linear_num_key_heads", 1, kMaxHeads));
  ISO_TRY(s.value_heads, small(f, "linear_num_value_heads", 1, kMaxHeads));
  ISO_TRY(s.key_dim, small(f, "linear_key_head_dim", 1, kMaxHeadDim));
  ISO_TRY(s.value_dim, small(f, "linear_value_head_dim", 1, kMaxHeadDim));
  if (s.value_heads % s.key_heads)
    return wrong(f, fmt::format("linear_num_value_heads {} is no multiple of linear_num_key_heads {}", s.value_heads, s.key_heads));
  return {};
}

}  // namespace

Result<void> parse_mixers(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  if (s.arch->mixer == Mixer::attention) return {};
  ISO_CHECK_OK(f.has("layer_types") ? places_by_types(s, c) : places_by_interval(s, c));
  switch (s.arch->mixer) {
    case Mixer::delta: return parse_delta(f, c.state);
    default: return {};
  }
}

}  // namespace isotope::models
