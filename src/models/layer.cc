#include "models/layer.h"

#include <algorithm>
#include <utility>

namespace isotope::models {

using ops::KvGroupSpec;
using ops::RowSource;
using ops::Tensor;

void Transformer::set_config(ModelConfig c) {
  config_ = std::move(c);
  groups_.clear();
  layers_.clear();
  // The full group comes first where there is one: prefix matching walks it, the sliding ones follow.
  std::vector<int64_t> windows;
  for (const LayerConfig& l : config_.layer) {
    if (l.attends()) windows.push_back(l.window);
    if (l.ratio) windows.insert(windows.end(), {0, kept_inputs(config_, l)});
  }
  if (windows.empty()) windows.push_back(0);
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  for (int64_t w : windows) groups_.push_back({w ? KvGroupSpec::Kind::sliding : KvGroupSpec::Kind::full, w, 0});
  kv_at_.assign(config_.layer.size(), -1);
  for (size_t i = 0; i < config_.layer.size(); ++i) {
    const LayerConfig& l = config_.layer[i];
    if (!l.attends()) continue;
    kv_at_[i] = int(layers_.size());
    const int group = int(std::find(windows.begin(), windows.end(), l.window) - windows.begin());
    ++groups_[size_t(group)].layers;
    layers_.push_back({group, config_.kv_heads, config_.head_dim});
  }
  add_sparse_layers(windows);
  state_at_.assign(config_.layer.size(), -1);
  int states = 0;
  for (size_t i = 0; i < config_.layer.size(); ++i) {
    const int64_t floats = state_floats(config_, config_.layer[i].mixer);
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

Transformer::Qkv Transformer::project(ops::Ops& o, const RowSource& h, const Layer& w) const {
  const ops::Linear* const ws[] = {&w.q, &w.k, &w.v};
  Tensor out[3];
  o.project(h, ws, out);
  return {out[0], out[1], out[2]};
}

std::optional<ops::Norm> Transformer::head_norm(ops::Ops& o, Tensor x, const std::vector<float>& weight) const {
  if (int64_t(weight.size()) == config_.head_dim) return norm(weight);
  if (!weight.empty()) o.head_norm(x, int(weight.size()), weight, config_.norm_eps);
  return {};
}

Tensor Transformer::attend(ops::Ops& o, Qkv t, size_t layer, const Layer* heads) const {
  const ModelConfig& c = config_;
  const LayerConfig& l = c.layer[layer];
  ops::AttentionArgs a{.q = t.q, .k = t.k, .v = t.v, .layer = kv_at_[layer], .heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim,
                       .scale = c.attn_scale, .softcap = c.attn_softcap, .window = l.window, .sinks = layers[layer].sinks, .gemma_norms = c.gemma_norms};
  if (heads) {
    a.q_norm = head_norm(o, t.q, heads->q_norm);
    a.k_norm = head_norm(o, t.k, heads->k_norm);
  }
  if (l.rope) a.rope = &c.ropes[size_t(l.rope_index)];
  return l.choosing == Choosing::none ? o.attend(a) : o.sparse()->attend_chosen(a);
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
  return attend(o, project(o, h, w), layer, &w);
}

Tensor Transformer::feed_forward(ops::Ops& o, const RowSource& h, const Layer& w) const {
  if (w.moe) return o.moe(o.rows(h), w.moe);
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

Tensor Transformer::logits(ops::Ops& o, const RowSource& h) const {
  Tensor y = o.project(h, globals.head);
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
