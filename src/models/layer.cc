#include "models/layer.h"

#include <algorithm>
#include <utility>

namespace isotope::models {

using ops::KvGroupSpec;
using ops::Tensor;

void Transformer::set_config(ModelConfig c) {
  config_ = std::move(c);
  groups_.clear();
  layers_.clear();
  // The full group comes first where there is one: prefix matching walks it, the sliding ones follow.
  std::vector<int64_t> windows;
  for (const LayerConfig& l : config_.layer) windows.push_back(l.window);
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  for (int64_t w : windows) groups_.push_back({w ? KvGroupSpec::Kind::sliding : KvGroupSpec::Kind::full, w, 0});
  for (const LayerConfig& l : config_.layer) {
    const int group = int(std::find(windows.begin(), windows.end(), l.window) - windows.begin());
    ++groups_[size_t(group)].layers;
    layers_.push_back({group, config_.kv_heads, config_.head_dim});
  }
}

Transformer::Qkv Transformer::project(ops::Ops& o, Tensor h, const Layer& w) const {
  const ops::Linear* const ws[] = {&w.q, &w.k, &w.v};
  Tensor out[3];
  o.linear_n(h, ws, out);
  return {out[0], out[1], out[2]};
}

Tensor Transformer::attend(ops::Ops& o, Qkv t, size_t layer) const {
  const ModelConfig& c = config_;
  const LayerConfig& l = c.layer[layer];
  if (l.rope) {
    o.rope(t.q, c.head_dim, c.ropes[size_t(l.rope_index)]);
    o.rope(t.k, c.head_dim, c.ropes[size_t(l.rope_index)]);
  }
  return o.attention({.q = t.q, .k = t.k, .v = t.v, .layer = int(layer), .heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim,
                      .scale = c.attn_scale, .softcap = c.attn_softcap, .window = l.window});
}

Tensor Transformer::feed_forward(ops::Ops& o, Tensor h, const Layer& w) const {
  return w.moe ? o.moe(h, w.moe) : o.linear(o.linear_act(h, w.gate, w.up, config_.act), w.down);
}

Tensor Transformer::logits(ops::Ops& o, Tensor h) const {
  Tensor y = o.linear(h, globals.head);
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

Tensor Transformer::finish(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap, Tensor h, size_t layers) {
  if (!tap) return h;
  (*tap)(int(layers), h);
  return b.R() == b.T() ? h : b.R() == 0 ? Tensor{} : o.gather(h, b.logit_rows);
}

}  // namespace isotope::models
