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
constexpr float kIndexEps = 1e-6f;  ///< of the LayerNorm on an indexer's keys; the published classes do not take it from the configuration

int series(const ModelConfig& c, const LayerConfig& l) { return l.ratio == c.compressed.overlap ? 2 : 1; }
}  // namespace

int64_t kept_inputs(const ModelConfig& c, const LayerConfig& l) { return int64_t{series(c, l)} * l.ratio; }

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
    if (chooses && !l.ratio) add(index_at_, i, {.group = group_of(l.window), .kv_heads = 1, .head_dim = c.index.dim, .form = ops::KvForm::keys});
    if (!l.ratio) continue;
    const int floats = 2 * series(c, l) * (c.head_dim + (chooses ? c.index.dim : 0));
    add(entries_at_, i, {.group = group_of(0), .kv_heads = 1, .head_dim = c.head_dim, .form = ops::KvForm::rows, .every = l.ratio});
    if (chooses) add(index_at_, i, {.group = group_of(0), .kv_heads = 1, .head_dim = c.index.dim, .form = ops::KvForm::rows, .every = l.ratio});
    add(inputs_at_, i, {.group = group_of(kept_inputs(c, l)), .head_dim = floats, .form = ops::KvForm::floats});
    for (int64_t window : {int64_t{0}, kept_inputs(c, l)}) ++groups_[size_t(group_of(window))].layers;
  }
}

void Transformer::choose_keys(ops::Ops& o, Tensor q, Tensor k, Tensor weights, size_t layer) const {
  const IndexConfig& c = config_.index;
  const Indexer& w = *layers[layer].indexer;
  const ops::Rope& rope = config_.ropes[size_t(c.rope_index)];
  if (!w.q_norm.empty()) o.head_norm(q, c.dim, w.q_norm, config_.norm_eps);
  o.rope(q, c.dim, rope);
  if (k) {
    if (w.k_bias.empty()) o.head_norm(k, c.dim, w.k_norm, config_.norm_eps);
    else o.layer_norm(k, {w.k_norm, w.k_bias, kIndexEps});
    o.rope(k, c.dim, rope);
  }
  if (weights) o.scale(weights, 1 / std::sqrt(float(c.heads)));
  o.sparse()->choose_keys({.q = q, .k = k, .weights = weights, .layer = index_at_[layer], .heads = c.heads, .dim = c.dim,
                           .scale = weights ? 1 / std::sqrt(float(c.dim)) : 1.0f, .top = c.top, .block = c.block, .local = c.local});
}

Tensor Transformer::mix_indexed(ops::Ops& o, const RowSource& h, size_t layer) const {
  const Layer& w = layers[layer];
  const ops::Linear* const ws[] = {&w.q, &w.k, &w.v, &w.indexer->q, &w.indexer->k};
  Tensor t[5];
  o.project(h, ws, t);
  choose_keys(o, t[3], t[4], {}, layer);
  return attend(o, {t[0], t[1], t[2]}, layer, &w);
}

}  // namespace isotope::models
