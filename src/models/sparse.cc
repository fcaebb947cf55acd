// Attention to the keys that an indexer chooses: KV layers of indexers, and the choice itself. What differs between families is data: whether heads are
// weighted or choose for themselves, how queries and keys are normed, which rotation turns them.
#include "models/sparse.h"

#include <algorithm>
#include <cmath>

#include "models/layer.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

namespace {
int series(const ModelConfig& c, const LayerConfig& l) { return l.ratio == c.compressed.overlap ? 2 : 1; }
}  // namespace

int64_t kept_inputs(const ModelConfig& c, const LayerConfig& l) {
  if (l.entries_of >= 0 || l.ratio == 1) return 0;  // another layer's entries; or an entry is its token's own
  if (l.ratio) return int64_t{series(c, l)} * l.ratio;
  return l.choosing == Choosing::own && c.index.pool > 1 ? c.index.pool : 0;
}

void Transformer::add_sparse_layers(const std::vector<int64_t>& windows) {
  const ModelConfig& c = config_;
  const auto group_of = [&](int64_t window) { return int(std::find(windows.begin(), windows.end(), window) - windows.begin()); };
  const auto add = [&](std::vector<int>& at, size_t layer, ops::KvLayerSpec spec) {
    at[layer] = int(layers_.size());
    layers_.push_back(spec);
  };
  for (auto* at : {&index_at_, &entries_at_, &inputs_at_}) at->assign(c.layer.size(), -1);
  for (size_t i = 0; i < c.layer.size(); ++i) {
    const LayerConfig& l = c.layer[i];
    const bool chooses = l.choosing == Choosing::own;
    if (c.compressed) layers_[size_t(kv_at_[i])].form = ops::KvForm::rows;
    if (l.entries_of >= 0) {
      entries_at_[i] = entries_at_[size_t(l.entries_of)], index_at_[i] = index_at_[size_t(l.entries_of)];
      continue;
    }
    const int64_t kept = kept_inputs(c, l);
    if (kept) ++groups_[size_t(group_of(kept))].layers;
    if (chooses && !kept && !l.ratio) add(index_at_, i, {.group = group_of(l.window), .kv_heads = 1, .head_dim = c.index.dim, .form = ops::KvForm::keys});
    if (chooses && kept && !l.ratio) {
      const int every = c.index.pool, numbers = (c.index.pool_gated ? 2 : 1) * c.index.dim;
      add(index_at_, i, {.group = group_of(0), .kv_heads = 1, .head_dim = c.index.dim, .form = ops::KvForm::rows, .every = every});
      add(inputs_at_, i, {.group = group_of(kept), .head_dim = numbers, .form = ops::KvForm::floats});
    }
    if (!l.ratio) continue;
    const bool pools_keys = chooses && !c.hyper.late;  // else they come from the entries
    const int floats = 2 * series(c, l) * (c.head_dim + (pools_keys ? c.index.dim : 0));
    add(entries_at_, i, {.group = group_of(0), .kv_heads = 1, .head_dim = c.head_dim, .form = ops::KvForm::rows, .every = l.ratio});
    if (chooses) add(index_at_, i, {.group = group_of(0), .kv_heads = 1, .head_dim = c.index.dim, .form = ops::KvForm::rows, .every = l.ratio});
    if (kept) add(inputs_at_, i, {.group = group_of(kept), .head_dim = floats, .form = ops::KvForm::floats});
    ++groups_[size_t(group_of(0))].layers;
  }
}

void Transformer::choose_keys(ops::Ops& o, IndexTensors t, size_t layer) const {
  const IndexConfig& c = config_.index;
  const Indexer& w = *layers[layer].indexer;
  const ops::Rope* const rope = c.rope_index < 0 ? nullptr : &config_.ropes[size_t(c.rope_index)];
  const bool pools = t.k && c.pool > 1, norms = t.k && (!pools || c.pool_gated);  // else the key that is made of several is normed
  if (!w.q_norm.empty()) o.head_norm(t.q, c.dim, w.q_norm, config_.norm_eps);
  if (rope) o.rope(t.q, c.dim, *rope);
  if (norms && w.k_bias.empty()) o.head_norm(t.k, c.dim, w.k_norm, config_.norm_eps);
  else if (norms) o.layer_norm(t.k, {w.k_norm, w.k_bias, c.norm_eps});
  if (t.k && !pools && rope) o.rope(t.k, c.dim, *rope);
  if (pools)
    o.sparse()->compress({.inputs = t.k, .gates = t.gates, .bias = w.pool_bias, .norm = norms ? std::optional<ops::Norm>() : norm(w.k_norm), .rope = rope,
                          .ratio = c.pool, .dim = c.dim, .kept = inputs_at_[layer], .entries = index_at_[layer]});
  if (t.weights) o.scale(t.weights, 1 / std::sqrt(float(c.heads)));
  o.sparse()->choose_keys({.q = t.q, .k = pools ? Tensor{} : t.k, .weights = t.weights, .summed = c.summed, .layer = index_at_[layer], .heads = c.heads,
                           .dim = c.dim, .scale = t.weights || c.summed ? 1 / std::sqrt(float(c.dim)) : 1.0f, .top = c.top, .block = c.block,
                           .local = c.local, .tokens = pools, .blocks = int(layer) == c.blocks_of ? c.blocks : 0, .block_keys = c.block_keys,
                           .within = c.blocks > 0 && int(layer) > c.blocks_of});
}

Tensor Transformer::mix_indexed(ops::Ops& o, const RowSource& h, size_t layer) const {
  const Layer& w = layers[layer];
  const ops::Linear* const ws[] = {&w.q, &w.k, &w.v, &w.indexer->q, &w.indexer->k};
  Tensor t[5];
  o.project(h, ws, t);
  choose_keys(o, {t[3], t[4], {}, {}}, layer);
  return attend(o, {t[0], t[1], t[2]}, layer, &w);
}

}  // namespace isotope::models
