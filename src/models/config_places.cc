// Which layers of a hybrid model attend, which carry a state, and which are a feed-forward block alone. Each family has its own way to say so.
#include <fmt/format.h>

#include <algorithm>

#include "models/config_fields.h"

namespace isotope::models {
namespace {

/// What a word of `layer_types`, or a letter of `hybrid_override_pattern`, makes of a layer.
enum class Part : uint8_t { attention, indexed, mixer, dense, experts };
struct Word {
  std::string_view word;
  Part part;
};
constexpr Word kTypes[] = {{"full_attention", Part::attention}, {"sliding_attention", Part::attention}, {"attention", Part::attention},
                           {"linear_attention", Part::mixer},   {"mamba", Part::mixer},                 {"conv", Part::mixer},
                           {"mlp", Part::dense},                {"moe", Part::experts},                  {"indexed_attention", Part::indexed}};
constexpr Word kLetters[] = {{"M", Part::mixer}, {"*", Part::attention}, {"-", Part::dense}, {"E", Part::experts}};

/// Whether the family has tensors for such a layer. Feed-forward blocks stand alone only where each layer is one block.
bool can(const Arch& a, Part part) {
  const auto has = [&](ops::Linear Layer::*weight) {
    const std::span<const LayerRow> rows = a.rows();
    return std::any_of(rows.begin(), rows.end(), [&](const LayerRow& r) { return r.weight == weight; });
  };
  switch (part) {
    case Part::attention: return a.latent || has(&Layer::q);
    case Part::indexed: return a.sparse != Sparse::none && can(a, Part::attention);
    case Part::mixer: return true;
    case Part::dense: return a.one_block && has(&Layer::up);
    case Part::experts: return a.one_block && a.moe;
  }
  return false;
}

std::string known(std::span<const Word> words, const Arch& a) {
  std::string out = "known:";
  for (const Word& w : words)
    if (can(a, w.part)) out += fmt::format("{} {}", out.back() == ':' ? "" : ",", w.word);
  return out;
}

void set_part(const Arch& a, Part part, LayerConfig& l) {
  const bool mixes = part < Part::dense;
  l.mixer = part < Part::mixer ? Mixer::attention : mixes ? a.mixer : Mixer::none;
  if (!a.one_block) return;
  l.feeds = !mixes;
  l.moe = part == Part::experts;
}

Result<void> place_words(const ConfigSource& s, std::string_view key, std::span<const std::string_view> found, std::span<const Word> words, ModelConfig& c) {
  if (int64_t(found.size()) != c.layers) return wrong(s.fields, fmt::format("{} has {} entries for {} layers", key, found.size(), c.layers));
  for (size_t i = 0; i < found.size(); ++i) {
    const auto at = std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.word == found[i]; });
    if (at == words.end() || !can(*s.arch, at->part)) return unknown(s.fields, fmt::format("{} names '{}'", key, found[i]), known(words, *s.arch));
    set_part(*s.arch, at->part, c.layer[i]);
  }
  return {};
}

Result<void> by_types(const ConfigSource& s, std::string_view key, ModelConfig& c) {
  ISO_TRY(const std::vector<std::string_view> types, s.fields.strings(key));
  return place_words(s, key, types, kTypes, c);
}

/// One letter for each layer.
Result<void> by_pattern(const ConfigSource& s, std::string_view key, ModelConfig& c) {
  ISO_TRY(const std::string_view pattern, s.fields.string(key));
  std::vector<std::string_view> letters;
  for (size_t i = 0; i < pattern.size(); ++i) letters.push_back(pattern.substr(i, 1));
  return place_words(s, key, letters, kLetters, c);
}

void attend_where(const ConfigSource& s, ModelConfig& c, auto&& attends) {
  for (int64_t i = 0; i < c.layers; ++i) set_part(*s.arch, attends(i) ? Part::attention : Part::mixer, c.layer[size_t(i)]);
}

/// The last of every n layers attends.
Result<void> by_interval(const ConfigSource& s, std::string_view key, ModelConfig& c) {
  ISO_TRY(const int64_t interval, in_range(s.fields, key, 1, kMaxLayers));
  attend_where(s, c, [&](int64_t i) { return (i + 1) % interval == 0; });
  return {};
}

/// Of every n layers the one with that number attends.
Result<void> by_period(const ConfigSource& s, std::string_view key, ModelConfig& c) {
  ISO_TRY(const int64_t period, in_range(s.fields, key, 1, kMaxLayers));
  ISO_TRY(const int64_t offset, in_range_or(s.fields, "attn_layer_offset", 0, period - 1, 0));
  attend_where(s, c, [&](int64_t i) { return i % period == offset; });
  return {};
}

/// Numbers of the layers that attend. `first`: what the first layer is called.
Result<void> by_numbers(const ConfigSource& s, std::string_view key, int64_t first, ModelConfig& c) {
  ISO_TRY(const std::vector<int64_t> all, s.fields.integers(key));
  for (int64_t n : all)
    if (n < first || n >= first + c.layers) return wrong(s.fields, fmt::format("{} names layer {} of {}", key, n, c.layers));
  attend_where(s, c, [&](int64_t i) { return std::find(all.begin(), all.end(), i + first) != all.end(); });
  return {};
}
Result<void> by_numbers_from_0(const ConfigSource& s, std::string_view key, ModelConfig& c) { return by_numbers(s, key, 0, c); }
Result<void> by_numbers_from_1(const ConfigSource& s, std::string_view key, ModelConfig& c) { return by_numbers(s, key, 1, c); }

/// 1 for each layer that attends, 0 for each that does not.
Result<void> by_flags(const ConfigSource& s, std::string_view key, ModelConfig& c) {
  ISO_TRY(const std::vector<int64_t> flags, s.fields.integers(key));
  if (int64_t(flags.size()) != c.layers) return wrong(s.fields, fmt::format("{} has {} entries for {} layers", key, flags.size(), c.layers));
  attend_where(s, c, [&](int64_t i) { return flags[size_t(i)] != 0; });
  return {};
}

struct Rule {
  std::string_view key;
  Result<void> (*apply)(const ConfigSource&, std::string_view key, ModelConfig&);
};
/// The first key that the file has decides.
constexpr Rule kRules[] = {{"hybrid_override_pattern", by_pattern},
                           {"layers_block_type", by_types},
                           {"layer_types", by_types},
                           {"attn_type_list", by_flags},
                           {"linear_attn_config.full_attn_layers", by_numbers_from_1},
                           {"full_attn_idxs", by_numbers_from_0},
                           {"attn_layer_period", by_period},
                           {"layer_group_size", by_interval},
                           {"full_attention_interval", by_interval}};

}  // namespace

Result<void> place_mixers(const ConfigSource& s, ModelConfig& c) {
  if (s.arch->beside) {
    for (LayerConfig& l : c.layer) l.mixer = s.arch->mixer, l.beside = true;
    return {};
  }
  for (const Rule& r : kRules) {
    if (!s.fields.has(r.key)) continue;
    ISO_CHECK_OK(r.apply(s, r.key, c));
    const bool attends = std::any_of(c.layer.begin(), c.layer.end(), [](const LayerConfig& l) { return l.attends(); });
    if (attends && !can(*s.arch, Part::attention)) return unknown(s.fields, fmt::format("{} has layers attend", r.key), "models of this family have no attention");
    return {};
  }
  attend_where(s, c, [](int64_t) { return false; });
  return {};
}

}  // namespace isotope::models
