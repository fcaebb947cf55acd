// LongCat-Flash (arXiv:2509.01322): layers come in pairs. What the first one's attention leaves goes to its dense block and to the experts, whose result is added
// only after the second one's dense block.
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor Shortcut::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  RowSource h{.x = x, .norm = attn_norm(0)};
  Tensor routed;
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    show(o, tap, l, h);
    Tensor a = mix(o, h, l);
    if (l + 1 == layers.size()) {
      if (!narrow(o, b, tap, x, a)) return {};
      if (routed && routed.rows != x.rows) routed = o.gather(routed, b.logit_rows);
    }
    const Tensor n = o.rows({.x = x, .add = o.linear(a, w.o), .norm = ffn_norm(l)});
    Tensor f = dense_block(o, {.x = n}, w);
    if (w.moe) {
      routed = o.moe(n, w.moe);
    } else if (routed) {
      o.add(f, routed);
      routed = {};
    }
    h = {.x = x, .add = f, .norm = norm_after(l)};
  }
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
