// Embeddings of n-grams (Qwen4-Exp): what they are hashed by, and how a layer adds them to its streams.
#include "models/ngram.h"

#include <algorithm>

#include "models/layer.h"
#include "models/primes.h"

namespace isotope::models {

using ops::Tensor;

namespace {

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;
uint64_t mixed(uint64_t x) {
  x += kGamma;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

int dilation(const ModelConfig& c) { return c.ngram.size; }
int64_t conv_floats(const ModelConfig& c) { return int64_t{c.ngram.conv_width - 1} * dilation(c) * c.hyper.streams * c.hidden; }

}  // namespace

int64_t ngram_floats(const ModelConfig& c) { return conv_floats(c) + c.ngram.size - 1; }

std::vector<int64_t> ngram_primes(const ModelConfig& c) {
  const auto layers = std::count_if(c.layer.begin(), c.layer.end(), [](const LayerConfig& l) { return l.ngrams >= 0; });
  std::vector<int64_t> out(size_t(layers * c.ngram.all_heads()));
  int64_t prime = c.ngram.vocabulary - 1;
  for (int64_t& p : out) {
    do ++prime;
    while (!is_prime(prime));
    p = prime;
  }
  return out;
}

NgramHash ngram_hash(const ModelConfig& c, int place, const std::vector<int64_t>& primes) {
  const NgramConfig& n = c.ngram;
  NgramHash out;
  constexpr uint64_t kLayerStep = 10007;  // of the seed
  const uint64_t seed = uint64_t(n.seed) + kLayerStep * uint64_t(place);
  const uint64_t bound = std::max<uint64_t>(1, (uint64_t{INT64_MAX} / uint64_t(std::max<int64_t>(c.vocab, 1))) / 2);
  for (int i = 0; i < n.size; ++i) out.multipliers.push_back(int64_t(2 * (mixed(seed + kGamma * uint64_t(i + 1)) % bound) + 1));
  const auto first = primes.begin() + std::ptrdiff_t{place} * n.all_heads();
  out.vocabularies.assign(first, first + n.all_heads());
  for (int64_t v : out.vocabularies) out.offsets.push_back(out.rows), out.rows += v;
  out.rows = (out.rows + n.multiple - 1) / n.multiple * n.multiple;
  return out;
}

Tensor Transformer::take_ngrams(ops::Ops& o, Tensor x, size_t layer) const {
  const ModelConfig& c = config_;
  const NgramWeights& w = *layers[layer].ngrams;
  const int64_t state = state_floats(c, c.layer[layer].mixer);
  const int D = int(c.hidden);
  const auto normed = [&](Tensor t, const std::vector<float>& weight) {  // each stream by itself, in place
    o.head_norm(t, D, {}, c.norm_eps);
    o.scale_columns(t, weight);
    return t;
  };
  const Tensor e = o.sparse()->embed_ngrams({.tables = w.tables, .size = c.ngram.size, .heads = c.ngram.heads, .multipliers = w.hash.multipliers,
                                             .vocabularies = w.hash.vocabularies, .offsets = w.hash.offsets, .separator = c.ngram.separator,
                                             .at = {state_at_[layer], state + conv_floats(c)}});
  const ops::Linear* const ws[] = {&w.key, &w.value};
  Tensor t[2];
  o.linear_n(e, ws, t);
  const Tensor y = o.sparse()->gate_streams({.keys = normed(t[0], w.key_norm), .queries = normed(o.copy(x), w.query_norm), .values = t[1],
                                             .streams = c.hyper.streams});
  o.add(y, o.short_conv(normed(o.copy(y), w.conv_norm), w.conv, {state_at_[layer], state}));
  return y;
}

}  // namespace isotope::models
