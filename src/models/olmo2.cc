// OLMo 2 (arXiv:2501.00656): no norm before a block, one after it; q and k are normed over their full width. EXAONE 4
// (arXiv:2507.11407): the same with a norm on each head.
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor PostNorm::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  RowSource h{.x = x};
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    show(o, tap, l, h);
    Qkv t = project(o, h, l);
    o.head_norm(t.q, int(w.q_norm.size()), w.q_norm, config_.norm_eps);  // a head's width, or all of it
    o.head_norm(t.k, int(w.k_norm.size()), w.k_norm, config_.norm_eps);
    Tensor a = attend(o, t, l, nullptr);
    if (l + 1 == layers.size() && !narrow(o, b, tap, x, a)) return {};
    const Tensor f = feed_forward(o, {.x = x, .add = o.linear(a, w.o), .add_norm = norm(w.attn_post_norm)}, w);
    h = {.x = x, .add = f, .add_norm = norm(w.ffn_post_norm)};
  }
  h.norm = norm(globals.norm);
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
