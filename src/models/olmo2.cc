// OLMo 2 (arXiv:2501.00656): no norm before a block, one after it; q and k are normed over their full width.
#include "models/orders.h"

namespace isotope::models {

using ops::Tensor;

Tensor PostNorm::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  const ModelConfig& c = config_;
  Tensor x = o.embed(globals.table(), c.embed_scale);                      // [T, D]
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    if (tap) (*tap)(int(l), x);
    Qkv t = project(o, x, w);
    t.q = o.rms_norm(t.q, w.q_norm, c.norm_eps);
    t.k = o.rms_norm(t.k, w.k_norm, c.norm_eps);
    Tensor a = attend(o, t, l);
    if (l + 1 == layers.size() && !narrow(o, b, tap, x, a)) return {};
    o.add(x, o.rms_norm(o.linear(a, w.o), w.attn_post_norm, c.norm_eps));
    o.add(x, o.rms_norm(feed_forward(o, x, w), w.ffn_post_norm, c.norm_eps));
  }
  const Tensor h = finish(o, b, tap, o.rms_norm(x, globals.norm, c.norm_eps), layers.size());
  return h ? logits(o, h) : h;                                             // [R, V]
}

}  // namespace isotope::models
