// Sizes of layers with a recurrent state as config.json spells them.
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

Result<void> parse_delta(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  StateConfig& d = c.state;
  ISO_TRY(d.conv_width, small(f, "linear_conv_kernel_dim", 2, ops::kMaxConvWidth));
  ISO_TRY(d.key_heads, small(f, "linear_num_key_heads", 1, kMaxHeads));
  ISO_TRY(d.value_heads, small(f, "linear_num_value_heads", 1, kMaxHeads));
  ISO_TRY(d.key_dim, small(f, "linear_key_head_dim", 1, kMaxHeadDim));
  ISO_TRY(d.value_dim, small(f, "linear_value_head_dim", 1, kMaxHeadDim));
  const int64_t width = 2 * int64_t{d.key_heads} * d.key_dim + int64_t{d.value_heads} * d.value_dim;
  if (width > kMaxWidth) return wrong(f, fmt::format("keys and values of the linear attention are {} wide, at most {} are supported", width, kMaxWidth));
  if (d.value_heads % d.key_heads)
    return wrong(f, fmt::format("linear_num_value_heads {} is no multiple of linear_num_key_heads {}", d.value_heads, d.key_heads));
  ISO_TRY(const bool negative, f.boolean_or("linear_allow_neg_eigval", false));
  if (negative) d.beta_scale = 2;
  ISO_TRY(d.tiled_heads, f.boolean_or("linear_heads_tiled", false));
  ISO_TRY(const std::string_view gate, f.string_or("output_gate_type", "silu"));
  if (gate != "silu" && gate != "swish" && gate != "sigmoid") return unknown(f, fmt::format("output_gate_type is '{}'", gate), "known: silu, sigmoid");
  d.sigmoid_gate = gate == "sigmoid";
  return {};
}

/// Kimi Linear nests its numbers, Bailing takes them from attention; GLM-5-Next's bound is there or not.
Result<void> parse_channel_delta(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  StateConfig& d = c.state;
  ISO_TRY(d.conv_width, small(f, spelled(f, {"linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim", "short_conv_kernel_size"}), 2, ops::kMaxConvWidth));
  ISO_TRY(d.value_heads, small(f, spelled(f, {"linear_attn_config.num_heads", "linear_num_heads", "num_attention_heads"}), 1, kMaxHeads));
  ISO_TRY(d.value_dim, small(f, spelled(f, {"linear_attn_config.head_dim", "linear_head_dim", "head_dim"}), 1, kMaxHeadDim));
  d.key_heads = d.value_heads, d.key_dim = d.value_dim;
  const int64_t width = int64_t{d.value_heads} * d.value_dim;
  if (width > kMaxWidth) return wrong(f, fmt::format("the linear attention is {} wide, at most {} is supported", width, kMaxWidth));
  const std::string_view bound = spelled(f, {"linear_attn_config.gate_lower_bound", "linear_lower_bound", "kda_lower_bound"});
  ISO_TRY(const bool bounded, f.boolean_or(spelled(f, {"linear_attn_config.safe_gate", "kda_safe_gate"}), f.has(bound) && bound != "kda_lower_bound"));
  if (!bounded) return {};
  ISO_TRY(d.decay_floor, finite_or(f, bound, -5));
  if (!(d.decay_floor < 0)) return wrong(f, fmt::format("{} is {}, must be below 0", bound, d.decay_floor));
  return {};
}

/// Biases of the projections are not supported: no published checkpoint has them.
Result<void> refuse_biases(const Metadata& f, std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    ISO_TRY(const bool bias, f.boolean_or(key, false));
    if (bias) return unknown(f, fmt::format("{} is true", key), "only recurrent layers without biases in their projections are supported");
  }
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

/// The activation of a recurrent mixer, which the kernels have built in.
Result<void> expect_silu(const Metadata& f, std::string_view key) {
  ISO_TRY(const std::string_view name, f.string_or(key, "silu"));
  if (name != "silu" && name != "swish") return unknown(f, fmt::format("{} is '{}'", key, name), "recurrent layers know silu only");
  return {};
}

Result<void> parse_ssm(const Metadata& f, StateConfig& s) {
  ISO_TRY(s.conv_width, small(f, spelled(f, {"conv_kernel", "mamba_d_conv"}), 2, ops::kMaxConvWidth));
  ISO_TRY(s.conv_bias, f.boolean_or(spelled(f, {"use_conv_bias", "mamba_conv_bias"}), true));
  ISO_TRY(s.states, small(f, spelled(f, {"state_size", "ssm_state_size", "mamba_d_state"}), 1, kMaxStates));
  ISO_CHECK_OK(expect_silu(f, spelled(f, {"mamba_hidden_act", "hidden_act"})));
  ISO_CHECK_OK(parse_steps(f, s));
  return refuse_biases(f, {"use_bias", "mamba_proj_bias", "projectors_bias"});
}

/// Falcon-H1's factors of the five parts of a projection, times that of what it reads.
Result<void> parse_multipliers(const Metadata& f, StateConfig& s) {
  ISO_TRY(const float in, finite_or(f, "ssm_in_multiplier", 1));
  std::vector<double> parts(5, 1);
  if (f.has("ssm_multipliers")) { ISO_TRY(parts, f.numbers("ssm_multipliers")); }
  if (parts.size() != 5) return wrong(f, fmt::format("ssm_multipliers has {} entries, must have 5", parts.size()));
  float* const to[] = {&s.z_scale, &s.x_scale, &s.b_scale, &s.c_scale, &s.dt_scale};
  for (size_t i = 0; i < 5; ++i) *to[i] = float(parts[i]) * in;
  return {};
}

Result<void> parse_mamba2(const ConfigSource& source, ModelConfig& c) {
  const Metadata& f = source.fields;
  StateConfig& s = c.state;
  ISO_CHECK_OK(parse_ssm(f, s));
  ISO_TRY(s.heads, small(f, spelled(f, {"mamba_num_heads", "mamba_n_heads", "num_heads"}), 1, kMaxHeads));
  const std::string_view dim = spelled(f, {"mamba_head_dim", "mamba_d_head", "head_dim"});
  const auto text = f.string(dim);
  if (text && *text == "auto") {
    ISO_TRY(const int64_t expand, in_range_or(f, "mamba_expand", 1, 64, 2));
    ISO_TRY(const int64_t inner, in_range_or(f, "mamba_d_ssm", 1, kMaxWidth, expand * c.hidden));
    s.head_dim = int(std::min(inner / s.heads, kMaxHeadDim));
    if (s.inner() != inner) return wrong(f, fmt::format("{} channels are no multiple of {} heads", inner, s.heads));
  } else {
    ISO_TRY(s.head_dim, small(f, dim, 1, kMaxHeadDim));
  }
  const std::string_view groups = spelled(f, {"n_groups", "mamba_n_groups"});
  ISO_TRY(s.groups, small(f, groups, 1, s.heads));
  if (s.heads % s.groups) return wrong(f, fmt::format("{} heads are no multiple of {} {}", s.heads, groups, s.groups));
  if (s.inner() > kMaxWidth) return wrong(f, fmt::format("{} heads of {} are too wide", s.heads, s.head_dim));
  ISO_TRY(const int64_t inner, in_range_or(f, "mamba_d_ssm", 1, kMaxWidth, s.inner()));
  if (inner != s.inner()) return wrong(f, fmt::format("mamba_d_ssm is {}, {} heads of {} make {}", inner, s.heads, s.head_dim, s.inner()));
  ISO_TRY(s.gated_norm, f.boolean_or("mamba_rms_norm", true));
  ISO_TRY(s.norm_before_gate, f.boolean_or("mamba_norm_before_gate", false));
  return parse_multipliers(f, s);
}

Result<void> parse_mamba1(const ConfigSource& source, ModelConfig& c) {
  const Metadata& f = source.fields;
  StateConfig& s = c.state;
  ISO_CHECK_OK(parse_ssm(f, s));
  const std::string_view factor = spelled(f, {"expand", "mamba_expand"});
  ISO_TRY(const int64_t expand, in_range(f, factor, 1, 64));
  if (expand * c.hidden > kMaxWidth) return wrong(f, fmt::format("{} is {}, which makes {} channels", factor, expand, expand * c.hidden));
  s.heads = 1, s.head_dim = int(expand * c.hidden);
  ISO_TRY(s.normed_steps, f.boolean_or("mamba_norms_steps", false));
  const std::string_view rank = spelled(f, {"time_step_rank", "mamba_dt_rank"});
  const auto text = f.string(rank);
  if (text && *text == "auto") s.dt_rank = int((c.hidden + 15) / 16);
  else { ISO_TRY(s.dt_rank, small(f, rank, 1, kMaxWidth)); }
  return {};
}

/// LFM2's short convolutions, and the width of its feed-forward block, which is derived from the one that is written.
Result<void> parse_conv(const ConfigSource& source, ModelConfig& c) {
  const Metadata& f = source.fields;
  ISO_TRY(c.state.conv_width, small(f, "conv_L_cache", 2, ops::kMaxConvWidth));
  ISO_CHECK_OK(refuse_biases(f, {"conv_bias"}));
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

/// Lightning attention has attention's heads; a key makes a state of a value.
Result<void> parse_lightning(const ConfigSource& s, ModelConfig& c) {
  if (c.head_dim > kMaxStates) return wrong(s.fields, fmt::format("head_dim is {}, lightning attention supports at most {}", c.head_dim, kMaxStates));
  if (c.layers < 2) return wrong(s.fields, "num_hidden_layers is 1: the decay of lightning attention falls from the first layer to the last");
  c.state.heads = c.state.groups = c.heads, c.state.head_dim = c.state.states = c.head_dim;
  return expect_silu(s.fields, "hidden_act");
}

struct Parser {
  Mixer mixer;
  Result<void> (*parse)(const ConfigSource&, ModelConfig&);
};
constexpr Parser kParsers[] = {{Mixer::delta, parse_delta},   {Mixer::channel_delta, parse_channel_delta}, {Mixer::mamba2, parse_mamba2},
                               {Mixer::mamba1, parse_mamba1}, {Mixer::conv, parse_conv},                   {Mixer::lightning, parse_lightning}};

}  // namespace

Result<void> parse_mixers(const ConfigSource& s, ModelConfig& c) {
  if (s.arch->mixer == Mixer::attention) return {};
  ISO_CHECK_OK(place_mixers(s, c));
  ISO_TRY(const double eps, s.fields.number_or("mixer_norm_eps", double{c.norm_eps}));
  c.state.norm_eps = float(eps);
  for (const Parser& p : kParsers)
    if (p.mixer == s.arch->mixer) return p.parse(s, c);
  return {};
}

}  // namespace isotope::models
