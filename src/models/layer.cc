#include "models/layer.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace isotope::models {

using ops::KvGroupSpec;
using ops::RowSource;
using ops::Tensor;

void Transformer::set_config(ModelConfig c) {
  config_ = std::move(c);
  config_.settle();
  groups_.clear();
  layers_.clear();
  // The full group comes first where there is one: prefix matching walks it, the sliding ones follow.
  std::vector<int64_t> windows;
  for (const LayerConfig& l : config_.layer) {
    if (l.attends()) windows.push_back(l.window);
    if (l.ratio) windows.push_back(0);
    if (const int64_t kept = kept_inputs(config_, l)) windows.insert(windows.end(), {0, kept});
  }
  if (windows.empty()) windows.push_back(0);
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  for (int64_t w : windows) groups_.push_back({w ? KvGroupSpec::Kind::sliding : KvGroupSpec::Kind::full, w, 0});
  kv_at_.assign(config_.layer.size(), -1);
  for (size_t i = 0; i < config_.layer.size(); ++i) {
    const LayerConfig& l = config_.layer[i];
    if (!l.attends()) continue;
    if (l.kv_of >= 0) {
      kv_at_[i] = kv_at_[size_t(l.kv_of)];
      continue;
    }
    kv_at_[i] = int(layers_.size());
    const int group = int(std::find(windows.begin(), windows.end(), l.window) - windows.begin());
    ++groups_[size_t(group)].layers;
    layers_.push_back({.group = group, .kv_heads = l.kv_heads, .head_dim = l.head_dim, .value_dim = config_.latent.kv_rank});
  }
  add_sparse_layers(windows);
  state_at_.assign(config_.layer.size(), -1);
  int states = 0;
  for (size_t i = 0; i < config_.layer.size(); ++i) {
    const int64_t floats = state_floats(config_, config_.layer[i]);
    if (floats == 0) continue;
    ++states;
    state_at_[i] = int(layers_.size());
    layers_.push_back({.group = int(groups_.size()), .state_floats = floats});
  }
  if (states) groups_.push_back({KvGroupSpec::Kind::state, 0, states});
}

void Transformer::show(ops::Ops& o, const HiddenTap* tap, size_t l, RowSource& h) {
  if (!tap) return;
  const Tensor x = h.x;
  h = {.x = o.rows(h)};
  (*tap)(int(l), x);
}

Transformer::Qkv Transformer::project(ops::Ops& o, const RowSource& h, size_t layer) const {
  const Layer& w = layers[layer];
  const ops::Linear* const ws[] = {&w.q, &w.k, &w.v};
  const size_t n = !w.k ? 1 : !w.v ? 2 : 3;
  Tensor out[3];
  o.project(h, std::span(ws).first(n), std::span(out).first(n));
  if (n == 2) out[2] = o.copy(out[1]);
  return {out[0], out[1], out[2]};
}

std::optional<ops::Norm> Transformer::head_norm(ops::Ops& o, Tensor x, const std::vector<float>& weight, int head_dim) const {
  if (int64_t(weight.size()) == head_dim) return norm(weight);
  if (!weight.empty()) o.head_norm(x, int(weight.size()), weight, config_.norm_eps);
  return {};
}

Tensor Transformer::attend(ops::Ops& o, Qkv t, size_t layer, const Layer* heads) const {
  const ModelConfig& c = config_;
  const LayerConfig& l = c.layer[layer];
  const bool latent = bool(c.latent);  // one head of the cache, whose queries are taken to it already
  ops::AttentionArgs a{.q = t.q, .k = t.k, .v = t.v, .layer = kv_at_[layer], .heads = l.heads, .kv_heads = l.kv_heads, .head_dim = l.head_dim,
                       .scale = c.attn_scale, .softcap = c.attn_softcap, .window = l.window, .chunked = l.chunked, .sinks = layers[layer].sinks,
                       .value_dim = c.latent.kv_rank, .norms_last = c.norms_last, .gemma_norms = c.gemma_norms};
  if (heads) {
    a.q_norm = head_norm(o, t.q, heads->q_norm, l.head_dim);
    a.k_norm = head_norm(o, t.k, heads->k_norm, l.head_dim);
  }
  if (l.rope) a.rope = &c.ropes[size_t(l.rope_index)];
  if (c.unit_heads && l.rope) a.q_norm = a.k_norm = ops::Norm{{}, c.norm_eps};
  if (l.grows && !latent) o.scale_by_position(t.q, c.growth);
  if (c.unit_values && t.v) o.head_norm(t.v, l.head_dim, {}, c.norm_eps);
  if (c.value_scale != 1) o.scale(t.v, c.value_scale);
  if (const int dim = l.value_dim; dim && dim < l.head_dim && !latent) {  // the cache has heads of one size
    a.v = o.resize_heads(t.v, dim, l.head_dim);
    return o.resize_heads(o.attend(a), l.head_dim, dim);
  }
  if (l.choosing != Choosing::none) return o.sparse()->attend_chosen(a);
  if (l.kv_of < 0) return o.attend(a);
  if (a.q_norm) o.head_norm(a.q, l.head_dim, a.q_norm->weight, c.norm_eps);
  if (a.rope) o.rope(a.q, l.head_dim, *a.rope);
  a.stored = true;
  return o.attention(a);
}

Tensor Transformer::mix(ops::Ops& o, const RowSource& h, size_t layer) const {
  const Layer& w = layers[layer];
  if (w.latent) return mix_latent(o, h, layer);
  if (w.delta) return mix_delta(o, h, layer);
  if (w.mamba2) return mix_mamba2(o, h, layer);
  if (w.mamba1) return mix_mamba1(o, h, layer);
  if (w.conv) return mix_conv(o, h, layer);
  if (w.channel_delta) return mix_channel_delta(o, h, layer);
  if (w.lightning) return mix_lightning(o, h, layer);
  if (w.q_gate) return mix_gated(o, h, layer);
  if (w.indexer) return mix_indexed(o, h, layer);
  return attend(o, project(o, h, layer), layer, &w);
}

Tensor Transformer::feed_forward(ops::Ops& o, const RowSource& h, const Layer& w) const {
  return w.moe ? o.moe(o.rows(h), w.moe) : dense_block(o, h, w);
}

Tensor Transformer::clamped_block(ops::Ops& o, const RowSource& h, const Layer& w, float limit) const {
  const ops::Linear* const ws[] = {&w.gate, &w.up};
  Tensor t[2];
  o.project(h, ws, t);
  o.activate(t[0], config_.act);
  o.clamp(t[0], -std::numeric_limits<float>::infinity(), limit);
  o.clamp(t[1], -limit, limit);
  o.mul(t[0], t[1]);
  return o.linear(t[0], w.down);
}

Tensor Transformer::dense_block(ops::Ops& o, const RowSource& h, const Layer& w) const {
  const float limit = config_.layer[size_t(&w - layers.data())].clamp;
  if (limit > 0) return clamped_block(o, h, w, limit);
  if (!w.gate) {
    const Tensor y = o.project(h, w.up);
    o.activate(y, config_.act);
    return o.linear(y, w.down);
  }
  if (config_.scales.gate == 1 && !(config_.mlp_limit > 0)) return o.project(o.gated(h, {w.gate, w.up, config_.act, w.down}), w.down);
  const ops::Linear* const ws[] = {&w.gate, &w.up};
  Tensor t[2];
  o.project(h, ws, t);
  if (config_.mlp_limit > 0) return o.linear(o.sparse()->clamped_act_mul(t[0], t[1], config_.act, config_.mlp_limit, config_.mlp_alpha), w.down);
  o.scale(t[0], config_.scales.gate);
  return o.linear(o.act_mul(t[0], t[1], config_.act), w.down);
}

Tensor Transformer::logits(ops::Ops& o, const RowSource& h, const ops::Linear& head) const {
  Tensor y = o.project(h, head);
  if (config_.logit_scale != 1) o.scale(y, config_.logit_scale);
  if (config_.final_softcap != 0) o.softcap(y, config_.final_softcap);
  return y;
}

bool Transformer::narrow(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap, Tensor& x, Tensor& y) {
  if (tap || b.R() == b.T()) return true;
  if (b.R() == 0) return false;
  x = o.gather(x, b.logit_rows);
  y = o.gather(y, b.logit_rows);
  return true;
}

bool Transformer::narrow(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap, RowSource& h) {
  if (tap || b.R() == b.T()) return true;
  if (b.R() == 0) return false;
  h.x = o.gather(h.x, b.logit_rows);
  if (h.add) h.add = o.gather(h.add, b.logit_rows);
  return true;
}

RowSource Transformer::finish(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap, RowSource h, size_t layers) {
  if (!tap) return h;
  h = {.x = o.rows(h)};
  (*tap)(int(layers), h.x);
  return b.R() == b.T() ? h : b.R() == 0 ? RowSource{} : RowSource{.x = o.gather(h.x, b.logit_rows)};
}

}  // namespace isotope::models
