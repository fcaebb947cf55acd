// Rotary embeddings as config.json spells them: rope_theta and rope_scaling at the top level, or rope_parameters (transformers 5), by layer type or not.
#include <fmt/format.h>

#include <cmath>

#include "models/config_fields.h"
#include "models/rope.h"

namespace isotope::models {
namespace {

using weights::Metadata;

/// What transformers insists on, law by law; lengths it takes from the model.
struct Required {
  RopeLaw::Type type;
  const char* key;
};
constexpr Required kRequired[] = {{RopeLaw::Type::linear, "factor"},         {RopeLaw::Type::dynamic, "factor"},
                                  {RopeLaw::Type::yarn, "factor"},           {RopeLaw::Type::llama3, "factor"},
                                  {RopeLaw::Type::llama3, "low_freq_factor"}, {RopeLaw::Type::llama3, "high_freq_factor"}};

/// Hunyuan's "dynamic" with an `alpha`: a base that is stretched once and for all.
Result<RopeLaw> stretched(const Metadata& f, const std::string& at, const ModelConfig& c, RopeLaw law) {
  ISO_TRY(const double alpha, f.number(at + "alpha"));
  if (!(alpha > 0 && alpha <= 1e6) || c.head_dim <= 2) return wrong(f, fmt::format("{}alpha is {} with heads of {}", at, alpha, c.head_dim));
  law.type = RopeLaw::Type::plain;
  law.theta *= std::pow(alpha, double(c.head_dim) / (c.head_dim - 2));
  return law;
}

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
  if (law.type == RopeLaw::Type::dynamic && f.has(at + "alpha")) return stretched(f, at, c, law);
  const bool by_lengths = law.type == RopeLaw::Type::yarn || law.type == RopeLaw::Type::longrope;
  for (const Required& r : kRequired)
    if (r.type == law.type && !f.has(at + r.key)) return wrong(f, fmt::format("{}{} is missing for rope type '{}'", at, r.key, type));
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

/// The size of heads that a law turns.
int head_of(const ModelConfig& c, bool sliding) {
  if (c.latent) return c.latent.turning;
  for (const LayerConfig& l : c.layer)
    if (l.attends() && (l.window > 0) == sliding) return l.head_dim;
  return c.head_dim;
}

/// The dimensions that turn, of a head. A local law may have a key of its own.
Result<int> rotary_dim(const Metadata& f, const std::string& at, int head, double part, bool sliding) {
  const std::string_view key = sliding && f.has("rotary_dim_local") ? "rotary_dim_local" : "rotary_dim";
  ISO_TRY(const int64_t fixed, in_range_or(f, key, 1, head, head));
  if (!(part > 0 && part <= 1)) return wrong(f, fmt::format("{}partial_rotary_factor is {}, must be above 0, at most 1", at, part));
  return f.has(key) ? int(fixed) : int(head * part);
}

Result<void> add_rope(const ConfigSource& s, RopeLaw law, const std::string& at, int64_t served_len, ModelConfig& c) {
  const Metadata& f = s.fields;
  const bool sliding = !c.ropes.empty();
  const int head = head_of(c, sliding);
  ISO_TRY(double part, f.number_or("partial_rotary_factor", 1));
  ISO_TRY(part, f.number_or(at + "partial_rotary_factor", part));
  if (c.latent) part = 1;  // all of what turns
  ISO_TRY(int rot, rotary_dim(f, at, head, part, sliding));
  if (law.type == RopeLaw::Type::proportional) law.part = part, rot = head;
  // Where layers turn by different widths, one table serves all, and they read its beginning.
  while (int(law.divisors.size()) > rot / 2 && law.divisors.back() == 1) law.divisors.pop_back();
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

namespace {

/// ropes[0] turns full layers; ropes[1], where a family has a local one, the sliding layers.
Result<void> parse_laws(const ConfigSource& s, int64_t served_len, ModelConfig& c) {
  const Metadata& f = s.fields;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (f.has(key) && f.type_name(key) != "object") return wrong(f, fmt::format("{} is {}, must be an object", key, f.text(key)));
  }
  if (s.arch->sparse == Sparse::compressed || s.arch->sparse == Sparse::shared) return parse_compressed_ropes(s, served_len, c);
  if (c.latent && c.latent.turning == 0) {  // nothing turns: GLM-5-Next
    c.ropes.emplace_back();
    for (LayerConfig& l : c.layer) l.rope = false;
    return {};
  }
  const bool nested = f.has("rope_parameters.full_attention");
  const std::string at = nested ? "rope_parameters.full_attention." : f.has("rope_parameters") ? "rope_parameters." : "rope_scaling.";
  ISO_TRY(const RopeLaw full, parse_law(f, at, c));
  ISO_CHECK_OK(add_rope(s, full, at, served_len, c));
  if (f.has(at + "llama_4_scaling_beta")) {
    ISO_TRY(c.growth.beta, finite_or(f, at + "llama_4_scaling_beta", 0));
    c.growth.period = float(full.original_len);
    for (LayerConfig& l : c.layer) l.grows = bool(c.growth);
  }
  if (c.latent) c.attn_scale *= latent_temperature(full);
  const std::string local_at = "rope_parameters.sliding_attention.";
  const bool local = f.has("rope_parameters.sliding_attention");
  const std::string_view local_theta = spelled(f, {"rope_local_base_freq", "swa_rope_theta"});
  if (!local && !f.has(local_theta) && !s.arch->local_plain) return {};
  RopeLaw law{.theta = full.theta};
  if (local) {
    ISO_TRY(law, parse_law(f, local_at, c));
    law.divisors.clear();  // of full layers alone
  } else {
    ISO_TRY(law.theta, f.number_or(local_theta, full.theta));
  }
  ISO_CHECK_OK(add_rope(s, law, local_at, served_len, c));
  for (LayerConfig& l : c.layer) l.rope_index = l.window ? 1 : 0;
  return {};
}

}  // namespace

Result<void> parse_ropes(const ConfigSource& s, int64_t served_len, ModelConfig& c) {
  ISO_CHECK_OK(parse_laws(s, served_len, c));
  for (size_t i = 0; i < c.layer.size(); ++i) {
    const LayerConfig& l = c.layer[i];
    const int rot = c.ropes[size_t(l.rope_index)].rot;
    if (l.attends() && l.rope && rot > l.head_dim)
      return wrong(s.fields, fmt::format("heads of layer {} have {} dimensions, {} of them turn", i, l.head_dim, rot));
  }
  return {};
}

}  // namespace isotope::models
