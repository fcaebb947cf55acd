// Rotary embeddings as config.json spells them: rope_theta and rope_scaling at the top level, or rope_parameters (transformers 5), by layer type or not.
#include <fmt/format.h>

#include <cmath>

#include "models/config_fields.h"
#include "models/rope.h"

namespace isotope::models {
namespace {

using weights::Metadata;

/// Reads one law. `at`: "rope_scaling.", "rope_parameters." …; what it lacks is looked up at the top level.
Result<RopeLaw> parse_law(const Metadata& f, const std::string& at, const ModelConfig& c) {
  RopeLaw law;
  const std::string type_key = f.has(at + "rope_type") ? at + "rope_type" : at + "type";
  ISO_TRY(const std::string_view type, f.string_or(type_key, "default"));
  const auto known = rope_type(type);
  if (!known) return unknown(f, fmt::format("{} is '{}'", type_key, type), fmt::format("known: {}", rope_type_names()));
  law.type = *known;
  law.context_len = c.context_length;
  ISO_TRY(law.theta, f.number_or("rope_theta", 10000.0));
  ISO_TRY(law.theta, f.number_or(at + "rope_theta", law.theta));
  ISO_TRY(law.original_len, in_range_or(f, at + "original_max_position_embeddings", 1, kMaxContext, c.context_length));
  ISO_TRY(law.original_len, in_range_or(f, "original_max_position_embeddings", 1, kMaxContext, law.original_len));
  const bool by_lengths = law.type == RopeLaw::Type::yarn || law.type == RopeLaw::Type::longrope;
  if (law.type != RopeLaw::Type::plain && !by_lengths && !f.has(at + "factor"))
    return wrong(f, fmt::format("{}factor is missing for rope type '{}'", at, type));
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
  const int head = c.latent ? c.latent.turning : c.head_dim;
  ISO_TRY(const int64_t fixed, in_range_or(f, "rotary_dim", 1, head, head));
  ISO_TRY(double part, f.number_or("partial_rotary_factor", 1));
  ISO_TRY(part, f.number_or(at + "partial_rotary_factor", part));
  if (!(part > 0 && part <= 1)) return wrong(f, fmt::format("partial_rotary_factor is {}, must be above 0, at most 1", part));
  return f.has("rotary_dim") ? int(fixed) : int(head * part);
}

Result<void> add_rope(const ConfigSource& s, const RopeLaw& law, const std::string& at, int64_t served_len, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_TRY(const int rot, rotary_dim(f, at, c));
  auto rope = make_rope(law, rot, served_len ? served_len : c.context_length);
  if (!rope) return wrong(f, rope.error().what);
  rope->interleaved = s.arch->interleaved;
  c.ropes.push_back(*std::move(rope));
  return {};
}

}  // namespace

/// What YaRN multiplies into the scores of latent attention: m squared, m as the paper's temperature (arXiv:2309.00071) for all dimensions.
float latent_temperature(const RopeLaw& law) {
  if (law.type == RopeLaw::Type::plain || !law.mscale_all_dim || *law.mscale_all_dim == 0 || law.factor <= 1) return 1;
  const double m = 0.1 * *law.mscale_all_dim * std::log(law.factor) + 1;
  return float(m * m);
}

/// DeepSeek V4: ropes[0] turns sliding layers, ropes[1] those with compressed keys. Only the latter are scaled, and by frequencies alone.
Result<void> parse_compressed_ropes(const ConfigSource& s, int64_t served_len, ModelConfig& c) {
  const Metadata& f = s.fields;
  const bool nested = f.has("rope_parameters.compress");
  const std::string at = nested ? "rope_parameters.compress." : f.has("rope_parameters") ? "rope_parameters." : "rope_scaling.";
  RopeLaw sliding;
  ISO_TRY(sliding.theta, f.number_or(nested ? "rope_parameters.main.rope_theta" : "rope_theta", 10000.0));
  ISO_TRY(RopeLaw law, parse_law(f, at, c));
  if (!nested) { ISO_TRY(law.theta, f.number_or("compress_rope_theta", 160000.0)); }
  if (law.type == RopeLaw::Type::yarn && !law.attention_factor) law.attention_factor = 1;
  ISO_TRY(const int64_t rot, in_range_or(f, "qk_rope_head_dim", 2, c.head_dim, c.head_dim / 8));
  for (const RopeLaw* each : {&sliding, &law}) {
    auto rope = make_rope(*each, int(rot), served_len ? served_len : c.context_length);
    if (!rope) return wrong(f, rope.error().what);
    rope->interleaved = s.arch->interleaved;
    c.ropes.push_back(*std::move(rope));
  }
  return {};
}

/// ropes[0] turns full layers; ropes[1], where a family has a local one, the sliding layers.
Result<void> parse_ropes(const ConfigSource& s, int64_t served_len, ModelConfig& c) {
  const Metadata& f = s.fields;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (f.has(key) && f.type_name(key) != "object") return wrong(f, fmt::format("{} is {}, must be an object", key, f.text(key)));
  }
  if (s.arch->sparse == Sparse::compressed) return parse_compressed_ropes(s, served_len, c);
  const bool nested = f.has("rope_parameters.full_attention");
  const std::string at = nested ? "rope_parameters.full_attention." : f.has("rope_parameters") ? "rope_parameters." : "rope_scaling.";
  ISO_TRY(const RopeLaw full, parse_law(f, at, c));
  ISO_CHECK_OK(add_rope(s, full, at, served_len, c));
  if (c.latent) c.attn_scale *= latent_temperature(full);
  const std::string local_at = "rope_parameters.sliding_attention.";
  const bool local = f.has("rope_parameters.sliding_attention");
  if (!local && !f.has("rope_local_base_freq") && !s.arch->local_plain) return {};
  RopeLaw law{.theta = full.theta};
  if (local) {
    ISO_TRY(law, parse_law(f, local_at, c));
  } else {
    ISO_TRY(law.theta, f.number_or("rope_local_base_freq", full.theta));
  }
  ISO_CHECK_OK(add_rope(s, law, local_at, served_len, c));
  for (LayerConfig& l : c.layer) l.rope_index = l.window ? 1 : 0;
  return {};
}

}  // namespace isotope::models
