// Tensors of residual streams, and of the embeddings of n-grams that are added to them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/ngram.h"
#include "models/planner.h"

namespace isotope::models {

namespace {

/// What the numbers of a mixture are for: to read and to add, and to mix the streams with each other; or to bring them together.
struct Numbers {
  int64_t rows, scales;
};
Numbers around_block(const HyperConfig& x) {
  const int64_t n = x.streams;
  return x.iterations ? Numbers{n * (2 + n), 3} : Numbers{2 * n, 2};
}

void add_one(std::vector<float>& v) {
  for (float& x : v) x += 1;
}

}  // namespace

void Planner::set_streams(ops::Streams& s) const {
  const HyperConfig& x = c_.hyper;
  s.streams = x.streams, s.iterations = x.iterations, s.eps = x.eps, s.norm_eps = c_.norm_eps;
  s.magnitude = x.magnitude, s.added_eps = x.added_eps;
}

Result<void> Planner::add_streams(ops::Streams& s, const std::string& prefix, int64_t numbers, int64_t scales) {
  set_streams(s);
  const int64_t base[] = {numbers}, scale[] = {scales};
  const std::string end = names_.gguf ? ".weight" : "";
  ISO_CHECK_OK(add_float_matrix(s.mix, prefix + "fn" + end, numbers, s.streams * c_.hidden));
  ISO_CHECK_OK(add_numbers(s.base, prefix + "base" + end, base));
  return add_numbers(s.scale, prefix + "scale" + end, scale);
}

Result<void> Planner::add_low_rank_streams(ops::Streams& s, const std::string& prefix, bool injects) {
  set_streams(s);
  const int64_t rank = c_.hyper.low_rank, wide = s.streams * c_.hidden, norm[] = {wide};
  ISO_CHECK_OK(add_numbers(s.norm, prefix + "hc_norm.weight", norm, add_one));
  ISO_CHECK_OK(add_matrix(s.down, prefix + "input_mix_weight_down.weight", rank, wide));
  ISO_CHECK_OK(add_matrix(s.up, prefix + "input_mix_weight_up.weight", wide, rank));
  return injects ? add_float_matrix(s.mix, prefix + "block_inject_weight.weight", s.streams, wide) : Result<void>();
}

/// HY-V4: transformers reads names with "hc_pre." in front, before the last part, and without it.
std::string Planner::streams_at(const std::string& prefix, std::string_view name) const {
  constexpr std::string_view kPre = "hc_pre.";
  const std::string first = prefix + std::string(name);
  if (!name.starts_with(kPre)) return first;
  const std::string_view rest = name.substr(kPre.size());
  const size_t last = rest.rfind('.') + 1;
  for (const std::string& other : {prefix + std::string(rest.substr(0, last)) + std::string(kPre) + std::string(rest.substr(last)), prefix + std::string(rest)})
    if (entry(other + "fn")) return other;
  return first;
}

Result<void> Planner::add_layer_streams(Layer& layer, const std::string& prefix) {
  layer.streams = std::make_unique<LayerStreams>();
  constexpr std::array<std::string_view, 2> kGguf = {"hc_attn_", "hc_ffn_"};
  const auto& names = arch_.hyper_names;
  const std::array<ops::Streams*, 2> blocks = {&layer.streams->attn, &layer.streams->ffn};
  const Numbers n = around_block(c_.hyper);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string at = names_.gguf ? prefix + std::string(kGguf[i]) : streams_at(prefix, names[i]);
    ISO_CHECK_OK(c_.hyper.low_rank ? add_low_rank_streams(*blocks[i], at, true) : add_streams(*blocks[i], at, n.rows, n.scales));
  }
  return {};
}

Result<void> Planner::add_final_streams(Globals& g, const std::string& prefix) {
  g.streams = std::make_unique<ops::Streams>();
  const std::string at = names_.gguf ? "output_hc_" : streams_at(prefix, arch_.hyper_names[2]);
  if (c_.hyper.low_rank) return add_low_rank_streams(*g.streams, at, false);
  if (!c_.hyper.mean) return add_streams(*g.streams, at, c_.hyper.streams, 1);
  set_streams(*g.streams);
  return {};
}

/// The table comes in parts, each but the last of the same height.
Result<void> Planner::add_ngrams(Layer& layer, int place, const std::string& prefix) {
  layer.ngrams = std::make_unique<NgramWeights>();
  NgramWeights& w = *layer.ngrams;
  const NgramConfig& n = c_.ngram;
  if (primes_.empty()) primes_ = ngram_primes(c_);
  w.hash = ngram_hash(c_, place, primes_);
  const std::string at = prefix + "ple.", table = at + "ple_embedding.";
  const int64_t wide = c_.hyper.streams * c_.hidden, norm[] = {wide}, each = (w.hash.rows + n.parts - 1) / n.parts, dim = n.width / n.all_heads();
  w.tables.resize(size_t((w.hash.rows + each - 1) / each));
  for (size_t i = 0; i < w.tables.size(); ++i)
    ISO_CHECK_OK(add_matrix(w.tables[i], fmt::format("{}ngram_embedding.shard_{}.weight", table, i), std::min(each, w.hash.rows - int64_t(i) * each), dim));
  ISO_CHECK_OK(expect_numbers(table + "layer_multipliers", w.hash.multipliers));
  ISO_CHECK_OK(expect_numbers(table + "ngram_heads_vocab_sizes", w.hash.vocabularies));
  ISO_CHECK_OK(expect_numbers(table + "ngram_heads_offsets", w.hash.offsets));
  ISO_CHECK_OK(add_matrix(w.key, at + "key_proj.weight", wide, n.width));
  ISO_CHECK_OK(add_matrix(w.value, at + "value_proj.weight", c_.hidden, n.width));
  ISO_CHECK_OK(add_numbers(w.key_norm, at + "norm_key.weight", norm, add_one));
  ISO_CHECK_OK(add_numbers(w.query_norm, at + "norm_query.weight", norm, add_one));
  ISO_CHECK_OK(add_numbers(w.conv_norm, at + "norm_conv.weight", norm, add_one));
  w.conv.width = n.conv_width, w.conv.dilation = n.size, w.conv.silu = true;
  return add_conv_weight(w.conv, at + "conv1d.weight", wide, {});
}

/// Numbers that follow from the configuration; files hold them all the same.
Result<void> Planner::expect_numbers(const std::string& name, const std::vector<int64_t>& want) {
  const TensorEntry* const e = entry(name);
  if (!e) return {};
  add_use(*e, [name, &want](const Checkpoint::Data& d) -> Result<void> {
    if (whole_numbers(d.view) == want) return {};
    return fail(Code::data_loss, fmt::format("tensor {} holds other numbers than seed, sizes and vocabulary of the configuration give", name), {},
                "use an intact checkpoint with its own config.json");
  });
  return {};
}

}  // namespace isotope::models
