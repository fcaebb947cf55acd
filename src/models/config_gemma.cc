// What Gemma 3n and 4 have beyond Gemma 3: an embedding of each layer's own, residual streams, sparse gates, blocks of twice the width.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/config_fields.h"

namespace isotope::models {
namespace {

using weights::Metadata;

constexpr int64_t kMaxStreams = 64;

/// Below which value a standard normal variable stays with probability p: Newton's method on its distribution function.
double normal_quantile(double p) {
  double x = 0;
  for (int i = 0; i < 60; ++i) {
    const double below = 0.5 * std::erfc(-x / std::sqrt(2.0)), density = std::exp(-0.5 * x * x) / std::sqrt(2 * 3.14159265358979323846);
    const double step = std::clamp((below - p) / std::max(density, 1e-12), -0.5, 0.5);
    x -= step;
    if (std::abs(step) < 1e-14) break;
  }
  return x;
}

/// A list with a number for each layer.
Result<std::vector<double>> by_layer(const Metadata& f, const char* key, const ModelConfig& c) {
  ISO_TRY(std::vector<double> v, f.numbers(key));
  if (int64_t(v.size()) != c.layers) return wrong(f, fmt::format("{} has {} entries for {} layers", key, v.size(), c.layers));
  return v;
}

Result<void> parse_sparsity(const Metadata& f, ModelConfig& c) {
  if (f.has("activation_sparsity_scale")) {  // GGUF: how many deviations
    ISO_TRY(const std::vector<double> scale, by_layer(f, "activation_sparsity_scale", c));
    for (size_t i = 0; i < scale.size(); ++i) c.layer[i].sparsity = std::isfinite(scale[i]) ? float(scale[i]) : 0;
    return {};
  }
  if (!f.has("activation_sparsity_pattern")) {  // as the class has it
    for (size_t i = 0; i < 10 && c.layers > 10; ++i) c.layer[i].sparsity = float(normal_quantile(0.95));
    return {};
  }
  ISO_TRY(const std::vector<double> part, by_layer(f, "activation_sparsity_pattern", c));
  for (size_t i = 0; i < part.size(); ++i) {
    // At a half and below the cut would lie under the mean; no published model does that.
    if (!(part[i] == 0 || (part[i] > 0.5 && part[i] < 1)))
      return wrong(f, fmt::format("activation_sparsity_pattern holds {}, must be 0, or above 0.5 and below 1", part[i]));
    c.layer[i].sparsity = part[i] > 0 ? float(normal_quantile(part[i])) : 0;
  }
  return {};
}

Result<void> parse_streams(const Metadata& f, ModelConfig& c) {
  StreamsConfig& s = c.streams;
  ISO_TRY(const int64_t count, in_range_or(f, "altup_num_inputs", 2, kMaxStreams, 0));
  s.count = int(count);
  if (count == 0) return {};
  ISO_TRY(const int64_t active, in_range_or(f, "altup_active_idx", 0, count - 1, 0));
  s.active = int(active);
  ISO_TRY(s.low_rank, in_range(f, "laurel_rank", 1, kMaxWidth));
  ISO_TRY(s.scaled, f.boolean_or("altup_correct_scale", true));
  return parse_sparsity(f, c);
}

}  // namespace

Result<void> parse_gemma(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_TRY(c.layer_input.width, in_range_or(f, "hidden_size_per_layer_input", 0, kMaxWidth / c.layers, 0));
  if (c.layer_input.width) { ISO_TRY(c.layer_input.vocab, in_range_or(f, "vocab_size_per_layer_input", 1, kMaxVocab, c.vocab)); }
  ISO_TRY(const bool wide, f.boolean_or("use_double_wide_mlp", false));
  for (LayerConfig& l : c.layer)
    if (wide && l.kv_of >= 0) l.ffn *= 2;
  return parse_streams(f, c);
}

}  // namespace isotope::models
