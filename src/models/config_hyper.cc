// Residual streams, and the embeddings of n-grams that are added to them, as config.json spells them.
#include <fmt/format.h>

#include <algorithm>

#include "models/config_fields.h"

namespace isotope::models {
namespace {

using weights::Metadata;

constexpr int64_t kMaxStreams = 16, kMaxIterations = 1000;
constexpr int64_t kMaxNgramHeads = 4096;  ///< each has a prime of its own that must be found

Result<void> parse_low_rank(const Metadata& f, HyperConfig& x) {
  ISO_TRY(const int64_t streams, in_range(f, "hc_count", 2, kMaxStreams));
  ISO_TRY(x.low_rank, in_range(f, "hc_lowrank", 1, kMaxWidth));
  x.streams = int(streams);
  return {};
}

/// Layers that add embeddings of n-grams are numbered from one on.
Result<void> place_ngrams(const Metadata& f, ModelConfig& c) {
  ISO_TRY(std::vector<int64_t> layers, f.integers("ple_layer_ids"));
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] < 1 || layers[i] > c.layers) return wrong(f, fmt::format("ple_layer_ids names layer {} of {}", layers[i], c.layers));
    LayerConfig& l = c.layer[size_t(layers[i] - 1)];
    if (l.mixer == Mixer::attention) return unknown(f, fmt::format("ple_layer_ids names layer {}, which attends", layers[i]), "layers with a state are supported");
    l.ngrams = int(i);
  }
  return {};
}

Result<int64_t> first_end(const Metadata& f) {
  if (!f.is_array("eos_token_id")) return f.integer("eos_token_id");
  ISO_TRY(const std::vector<int64_t> all, f.integers("eos_token_id"));
  return all.empty() ? Result<int64_t>(wrong(f, "eos_token_id is an empty list, and separates n-grams")) : Result<int64_t>(all[0]);
}

Result<void> parse_ngrams(const Metadata& f, ModelConfig& c) {
  NgramConfig& n = c.ngram;
  if (!f.has("ple_layer_ids")) return {};
  ISO_CHECK_OK(place_ngrams(f, c));
  if (std::none_of(c.layer.begin(), c.layer.end(), [](const LayerConfig& l) { return l.ngrams >= 0; })) return {};
  ISO_TRY(const int64_t size, in_range(f, "ngram_size", 2, 8));
  ISO_TRY(const int64_t heads, in_range(f, "heads_per_ngram", 1, 256));
  ISO_TRY(n.width, in_range_or(f, "ple_embed_dim", 1, kMaxWidth, c.hidden));
  ISO_TRY(n.vocabulary, in_range(f, "ngram_vocab_size_base", 2, 1 << 30));
  ISO_TRY(n.multiple, in_range(f, "make_ngram_vocab_size_divisible_by", 1, 1 << 20));
  ISO_TRY(n.seed, f.integer("seed"));
  ISO_TRY(const int64_t width, in_range(f, "ple_conv_kernel_size", 2, ops::kMaxConvWidth));
  ISO_TRY(const int64_t parts, in_range(f, "split_ngram_parts", 1, 1 << 16));
  ISO_TRY(const int64_t separator, first_end(f));
  n.size = int(size), n.heads = int(heads), n.conv_width = int(width), n.parts = int(parts), n.separator = int32_t(separator);
  if (separator < 0 || separator >= c.vocab) return wrong(f, fmt::format("eos_token_id is {}, of {} tokens; it separates n-grams", separator, c.vocab));
  const auto layers = std::count_if(c.layer.begin(), c.layer.end(), [](const LayerConfig& l) { return l.ngrams >= 0; });
  if (layers * n.all_heads() > kMaxNgramHeads)
    return wrong(f, fmt::format("{} layers have {} heads of n-grams each, {} in all are supported", layers, n.all_heads(), kMaxNgramHeads));
  if (n.width % n.all_heads()) return wrong(f, fmt::format("ple_embed_dim {} is no multiple of the {} heads of n-grams", n.width, n.all_heads()));
  if (c.hyper.streams * c.hidden > kMaxWidth) return wrong(f, fmt::format("{} streams are {} wide", c.hyper.streams, c.hyper.streams * c.hidden));
  return {};
}

}  // namespace

Result<void> parse_hyper(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  HyperConfig& x = c.hyper;
  if (s.arch->hyper == Hyper::none) return {};
  if (s.arch->hyper == Hyper::low_rank) {
    ISO_CHECK_OK(parse_low_rank(f, x));
    return parse_ngrams(f, c);
  }
  ISO_TRY(const int64_t streams, in_range(f, "hc_mult", 1, kMaxStreams));
  ISO_TRY(const double eps, f.number("hc_eps"));
  if (!(eps >= 0 && eps < 1)) return wrong(f, fmt::format("hc_eps is {}, must be 0 to 1", eps));
  x.streams = int(streams), x.eps = float(eps);
  if (s.arch->hyper == Hyper::apart) {
    ISO_TRY(x.magnitude, finite_or(f, "hc_magnitude", 2));
    x.added_eps = x.eps;
    return {};
  }
  x.mean = s.arch->hyper == Hyper::averaged;
  ISO_TRY(const int64_t iterations, in_range(f, "hc_sinkhorn_iters", 1, kMaxIterations));
  x.iterations = int(iterations);
  return {};
}

}  // namespace isotope::models
