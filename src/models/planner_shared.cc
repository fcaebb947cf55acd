// Tensors of DeepSeek V4.1: compressed keys and indexers that layers share, and what stands beside n-gram tables.
#include "models/planner.h"

namespace isotope::models {

Result<void> Planner::add_shared(Layer& layer, const LayerConfig& l, const std::string& prefix) {
  ISO_CHECK_OK(add_compressed_base(layer, prefix));
  if (l.choosing != Choosing::own) return {};
  layer.indexer = std::make_unique<Indexer>();
  Indexer& x = *layer.indexer;
  const std::string at = prefix + "attn.indexer.", from = prefix + "attn.compressor.";
  ISO_CHECK_OK(add_matrix(x.q, at + "wq_b.weight", int64_t{c_.index.heads} * c_.index.dim, c_.compressed.q_rank));
  ISO_CHECK_OK(add_matrix(x.weights, at + "weights_proj.weight", c_.index.heads, c_.hidden));
  if (l.entries_of >= 0) return {};
  const int64_t norm[] = {c_.head_dim}, key[] = {c_.index.dim};
  Compressor& w = layer.compressed->entries;
  ISO_CHECK_OK(add_matrix(w.inputs, from + "wkv.weight", c_.head_dim, c_.hidden));
  if (l.ratio > 1) ISO_CHECK_OK(add_matrix(w.gates, from + "wgate.weight", c_.head_dim, c_.hidden));
  w.bias.assign(size_t(l.ratio) * size_t(c_.head_dim), 0.0f);
  ISO_CHECK_OK(add_numbers(w.norm, from + "norm.weight", norm));
  ISO_CHECK_OK(add_matrix(x.k, at + "wk.weight", c_.index.dim, c_.head_dim));
  return add_numbers(x.k_norm, at + "k_norm.weight", key);
}

Result<void> Planner::add_engram(Layer& layer, int table, const std::string& prefix) {
  const EngramConfig& c = c_.engram;
  const std::string at = prefix + "engram.";
  const int64_t streams = c_.hyper.streams, each[] = {streams, c_.hidden}, shape[] = {c.rows[size_t(table)], c.dim};
  layer.engram = std::make_unique<EngramWeights>();
  EngramWeights& w = *layer.engram;
  ISO_CHECK_OK(add_matrix(w.kv, at + "wkv.weight", (streams + 1) * c_.hidden, c.width()));
  ISO_CHECK_OK(add_numbers(w.q_weight, at + "q_weight", each));
  ISO_CHECK_OK(add_numbers(w.k_weight, at + "k_weight", each));
  ISO_TRY(const TensorEntry* const values, required(at + "embed.weight", shape));
  if (!values) return {};
  const TensorEntry* const scales = entry(at + "embed.scale");
  ignore(at + "embed.weight");
  if (scales) ignore(at + "embed.scale");
  tables_.push_back({.number = table, .values = values, .scales = scales});
  return {};
}

}  // namespace isotope::models
