// Pre-norm decoder: Llama (arXiv:2302.13971) and its kin. Differences of the families are data: a bias or a head norm that is there or not, a window,
// a layer without rotation, a multiplier that is 1 in most.
#include "models/orders.h"

namespace isotope::models {

using ops::Tensor;

Tensor Dense::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  const ModelConfig& c = config_;
  Tensor x = o.embed(globals.table(), c.embed_scale);                      // [T, D]
  Tensor h = o.rms_norm(x, layers[0].attn_norm, c.norm_eps);
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    const bool last = l + 1 == layers.size();
    if (tap) (*tap)(int(l), x);
    Qkv t = project(o, h, w);
    if (!w.q_norm.empty()) o.head_norm(t.q, int(w.q_norm.size()), w.q_norm, c.norm_eps);  // a head's width, or all of it
    if (!w.k_norm.empty()) o.head_norm(t.k, int(w.k_norm.size()), w.k_norm, c.norm_eps);
    Tensor a = attend(o, t, l);
    if (last && !narrow(o, b, tap, x, a)) return {};
    a = o.linear(a, w.o);
    if (c.residual_scale != 1) o.scale(a, c.residual_scale);
    h = o.add_rms_norm(x, a, w.ffn_norm, c.norm_eps);
    Tensor f = feed_forward(o, h, w);
    if (c.residual_scale != 1) o.scale(f, c.residual_scale);
    h = o.add_rms_norm(x, f, last ? globals.norm : layers[l + 1].attn_norm, c.norm_eps);
  }
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : h;                                             // [R, V]
}

}  // namespace isotope::models
