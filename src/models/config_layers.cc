// Which layers slide and which turn.
#include <fmt/format.h>

#include <algorithm>

#include "models/config_fields.h"

namespace isotope::models {
namespace {

using weights::Metadata;

Result<void> nope_by_interval(const Metadata& f, ModelConfig& c) {
  ISO_TRY(const int64_t interval, in_range_or(f, "no_rope_layer_interval", 1, kMaxLayers + 1, kMaxLayers + 1));
  for (int64_t i = 0; i < c.layers; ++i) c.layer[size_t(i)].rope = (i + 1) % interval != 0;
  return {};
}

/// NoPE layers: a list (1 = rotate), or every n-th.
Result<void> parse_nope(const Metadata& f, ModelConfig& c) {
  if (f.has("no_rope_layers")) {
    ISO_TRY(const std::vector<int64_t> rotate, f.integers("no_rope_layers"));
    if (rotate.empty()) return nope_by_interval(f, c);  // as Llama 4 writes "the class knows"
    if (int64_t(rotate.size()) != c.layers)
      return wrong(f, fmt::format("no_rope_layers has {} entries for {} layers", rotate.size(), c.layers));
    for (size_t i = 0; i < rotate.size(); ++i) c.layer[i].rope = rotate[i] != 0;
    return {};
  }
  return nope_by_interval(f, c);
}

/// MiMo-V2: a list, 1 for each layer that slides.
Result<std::vector<bool>> sliding_by_list(const ConfigSource& s, const ModelConfig& c) {
  ISO_TRY(const std::vector<int64_t> slides, s.fields.integers("hybrid_layer_pattern"));
  if (int64_t(slides.size()) != c.layers)
    return wrong(s.fields, fmt::format("hybrid_layer_pattern has {} entries for {} layers", slides.size(), c.layers));
  std::vector<bool> out;
  for (int64_t v : slides) out.push_back(v != 0);
  return out;
}

/// Types of layers that have a state are parse_mixers()' business.
Result<std::vector<bool>> sliding_by_types(const ConfigSource& s, const ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_TRY(std::vector<std::string_view> types, f.strings("layer_types"));
  if (int64_t(types.size()) == c.layers + c.draft_layers) types.resize(size_t(c.layers));  // those of multi-token-prediction layers follow
  if (int64_t(types.size()) != c.layers) return wrong(f, fmt::format("layer_types has {} entries for {} layers", types.size(), c.layers));
  std::vector<bool> slides;
  for (size_t i = 0; i < types.size(); ++i) {
    const std::string_view t = types[i];
    if (s.arch->mixer == Mixer::attention && t != "sliding_attention" && t != "full_attention")
      return unknown(f, fmt::format("layer_types names '{}'", t), "known: full_attention, sliding_attention");
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
      case WindowRule::chunks: break;  // parse_chunks()
      case WindowRule::pattern: slides[size_t(i)] = (i + 1) % pattern != 0; break;
    }
  return slides;
}

Result<void> parse_windows(const ConfigSource& s, ModelConfig& c) {
  // GGUF writes 0 where config.json has null.
  ISO_TRY(int64_t window, in_range_or(s.fields, "sliding_window", 0, kMaxContext, 0));
  // MiMo-V2: so many tokens before the query, and itself.
  if (s.fields.has("sliding_window_size")) { ISO_TRY(window, in_range(s.fields, "sliding_window_size", 1, kMaxContext - 1)); ++window; }
  const bool typed = s.fields.has("layer_types") && s.arch->windows != WindowRule::every && s.arch->sparse == Sparse::none;
  const bool listed = s.fields.has("hybrid_layer_pattern");
  ISO_TRY(const std::vector<bool> slides, typed ? sliding_by_types(s, c) : listed ? sliding_by_list(s, c) : sliding_by_rule(s, c));
  for (size_t i = 0; i < slides.size(); ++i) {
    if (!slides[i]) continue;
    if (typed && window == 0) return wrong(s.fields, "layer_types has sliding layers, sliding_window is not set");
    c.layer[i].window = window;
  }
  return {};
}

/// Hybrid models may say for all layers that none turns.
Result<void> parse_hybrid_nope(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  bool nope = s.arch->theta_or_nope && !f.has(f.has("rope_parameters") ? "rope_parameters.rope_theta" : "rope_theta");
  if (s.arch->mixer != Mixer::attention) {
    ISO_TRY(const std::string_view kind, f.string_or("position_embedding_type", "rope"));
    if (kind != "rope" && kind != "nope") return unknown(f, fmt::format("position_embedding_type is '{}'", kind), "known: rope, nope");
    nope |= kind == "nope";
  }
  if (nope)
    for (LayerConfig& l : c.layer) l.rope = false;
  return {};
}

/// Llama 4: layers that turn see the chunk they stand in.
Result<void> parse_chunks(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_TRY(const int64_t chunk, in_range_or(f, "attention_chunk_size", 0, kMaxContext, 0));
  std::vector<std::string_view> types;
  if (f.has("layer_types")) {
    ISO_TRY(types, f.strings("layer_types"));
    if (int64_t(types.size()) != c.layers) return wrong(f, fmt::format("layer_types has {} entries for {} layers", types.size(), c.layers));
  }
  for (size_t i = 0; i < c.layer.size(); ++i) {
    LayerConfig& l = c.layer[i];
    const bool chunked = types.empty() ? l.rope && chunk > 0 : types[i] == "chunked_attention";
    if (!types.empty() && !chunked && types[i] != "full_attention")
      return unknown(f, fmt::format("layer_types names '{}'", types[i]), "known: full_attention, chunked_attention");
    if (chunked && chunk == 0) return wrong(f, "layer_types has chunked layers, attention_chunk_size is not set");
    if (chunked) l.window = chunk, l.chunked = true;
  }
  return {};
}

}  // namespace

Result<void> parse_layers(const ConfigSource& s, ModelConfig& c) {
  ISO_CHECK_OK(parse_nope(s.fields, c));
  ISO_CHECK_OK(parse_hybrid_nope(s, c));
  ISO_CHECK_OK(s.arch->windows == WindowRule::chunks ? parse_chunks(s, c) : parse_windows(s, c));
  const auto slides = [](const LayerConfig& l) { return l.window > 0; };
  if (s.arch->nope_full && std::any_of(c.layer.begin(), c.layer.end(), slides))
    for (LayerConfig& l : c.layer) l.rope = slides(l);
  return {};
}

}  // namespace isotope::models
