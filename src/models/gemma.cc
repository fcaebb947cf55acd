// Gemma 2 (arXiv:2408.00118) and 3 (arXiv:2503.19786): each block stands between two norms; heads of q and k are normed in Gemma 3 only.
#include "models/orders.h"

namespace isotope::models {

using ops::Tensor;

Tensor Sandwich::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  const ModelConfig& c = config_;
  Tensor x = o.embed(globals.table(), c.embed_scale);                      // [T, D]
  Tensor h = o.rms_norm(x, layers[0].attn_norm, c.norm_eps);
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    const bool last = l + 1 == layers.size();
    if (tap) (*tap)(int(l), x);
    Qkv t = project(o, h, w);
    if (!w.q_norm.empty()) o.head_norm(t.q, c.head_dim, w.q_norm, c.norm_eps);
    if (!w.k_norm.empty()) o.head_norm(t.k, c.head_dim, w.k_norm, c.norm_eps);
    Tensor a = attend(o, t, l);
    if (last && !narrow(o, b, tap, x, a)) return {};
    a = o.linear(a, w.o);
    a = o.rms_norm(a, w.attn_post_norm, c.norm_eps);
    h = o.add_rms_norm(x, a, w.ffn_norm, c.norm_eps);
    Tensor f = o.rms_norm(feed_forward(o, h, w), w.ffn_post_norm, c.norm_eps);
    h = o.add_rms_norm(x, f, last ? globals.norm : layers[l + 1].attn_norm, c.norm_eps);
  }
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : h;                                             // [R, V]
}

}  // namespace isotope::models
