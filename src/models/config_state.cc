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
  const int64_t width = 2 * int64_t{s.key_heads} * s.key_dim + int64_t{s.value_heads} * s.value_dim;
  if (width > kMaxWidth) return wrong(f, fmt::format("keys and values of the linear attention are {} wide, at most {} are supported", width, kMaxWidth));
  if (s.value_heads % s.key_heads)
    return wrong(f, fmt::format("linear_num_value_heads {} is no multiple of linear_num_key_heads {}", s.value_heads, s.key_heads));
  return {};
}

/// Biases of the projections are not supported: no published checkpoint has them.
Result<void> refuse_bias(const Metadata& f, std::string_view key) {
  ISO_TRY(const bool bias, f.boolean_or(key, false));
  if (bias) return unknown(f, fmt::format("{} is true", key), "only recurrent layers without biases in their projections are supported");
  return {};
}

Result<void> parse_steps(const Metadata& f, StateConfig& s) {
  s.dt_low = 0, s.dt_high = std::numeric_limits<float>::max();
  if (!f.has("time_step_limit")) return {};
  ISO_TRY(const std::vector<double> limit, f.numbers("time_step_limit"));
  if (limit.size() != 2 || !(limit[0] >= 0 && limit[0] <= limit[1])) return wrong(f, "time_step_limit is no pair of a lower and an upper limit");
  const auto bounded = [&](double v) { return float(std::min(v, double{s.dt_high})); };
  s.dt_low = bounded(limit[0]), s.dt_high = bounded(limit[1]);
  return {};
}

Result<void> parse_ssm(const Metadata& f, StateConfig& s) {
  ISO_TRY(s.conv_width, small(f, "conv_kernel", 2, ops::kMaxConvWidth));
  ISO_TRY(s.conv_bias, f.boolean_or("use_conv_bias", true));
  ISO_TRY(s.states, small(f, "state_size", 1, kMaxStates));
  ISO_CHECK_OK(parse_steps(f, s));
  return refuse_bias(f, "use_bias");
}

Result<void> parse_mamba2(const Metadata& f, StateConfig& s) {
  ISO_CHECK_OK(parse_ssm(f, s));
  ISO_TRY(s.heads, small(f, "num_heads", 1, kMaxHeads));
  ISO_TRY(s.head_dim, small(f, "head_dim", 1, kMaxHeadDim));
  ISO_TRY(s.groups, small(f, "n_groups", 1, s.heads));
  if (s.heads % s.groups) return wrong(f, fmt::format("num_heads {} is no multiple of n_groups {}", s.heads, s.groups));
  if (s.inner() > kMaxWidth) return wrong(f, fmt::format("{} heads of {} are too wide", s.heads, s.head_dim));
  return {};
}

Result<void> parse_mamba1(const Metadata& f, const ModelConfig& c, StateConfig& s) {
  ISO_CHECK_OK(parse_ssm(f, s));
  ISO_TRY(const int64_t expand, in_range(f, "expand", 1, 64));
  if (expand * c.hidden > kMaxWidth) return wrong(f, fmt::format("expand is {}, which makes {} channels", expand, expand * c.hidden));
  s.heads = 1, s.head_dim = int(expand * c.hidden);
  const auto text = f.string("time_step_rank");
  if (text && *text == "auto") s.dt_rank = int((c.hidden + 15) / 16);
  else { ISO_TRY(s.dt_rank, small(f, "time_step_rank", 1, kMaxWidth)); }
  return {};
}

/// LFM2's short convolutions, and the width of its feed-forward block, which is derived from the one that is written.
Result<void> parse_conv(const Metadata& f, ModelConfig& c) {
  ISO_TRY(c.state.conv_width, small(f, "conv_L_cache", 2, ops::kMaxConvWidth));
  ISO_CHECK_OK(refuse_bias(f, "conv_bias"));
  ISO_TRY(const bool adjust, f.boolean_or("block_auto_adjust_ff_dim", false));
  if (!adjust) return {};
  ISO_TRY(const int64_t multiple, in_range_or(f, "block_multiple_of", 1, kMaxWidth, 256));
  ISO_TRY(const double factor, f.number_or("block_ffn_dim_multiplier", 1));
  if (!(factor > 0 && factor <= 64)) return wrong(f, fmt::format("block_ffn_dim_multiplier is {}, must be above 0, at most 64", factor));
  const int64_t wanted = int64_t(factor * double(2 * c.ffn / 3));
  c.ffn = (wanted + multiple - 1) / multiple * multiple;
  if (c.ffn < 1 || c.ffn > kMaxWidth) return wrong(f, fmt::format("the feed-forward block would be {} wide", c.ffn));
  return {};
}

}  // namespace

Result<void> parse_mixers(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  if (s.arch->mixer == Mixer::attention) return {};
  const Mixer m = s.arch->mixer;
  if (m == Mixer::mamba1 || m == Mixer::mamba2) {
    for (LayerConfig& l : c.layer) l.mixer = m;
  } else {
    ISO_CHECK_OK(f.has("layer_types") ? places_by_types(s, c) : places_by_interval(s, c));
  }
  switch (m) {
    case Mixer::delta: return parse_delta(f, c.state);
    case Mixer::mamba2: return parse_mamba2(f, c.state);
    case Mixer::mamba1: return parse_mamba1(f, c, c.state);
    case Mixer::conv: return parse_conv(f, c);
    default: return {};
  }
}

}  // namespace isotope::models
