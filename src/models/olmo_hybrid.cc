// OLMo Hybrid: layers with a gated delta rule norm what a block reads, layers that attend norm what it gives, as OLMo 2 does.
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor MixedNorms::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  RowSource h{.x = x};
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    const bool before = !config_.layer[l].attends();
    show(o, tap, l, h);
    if (before) h.norm = norm(w.attn_norm);
    Tensor a = mix(o, h, l);
    if (l + 1 == layers.size() && !narrow(o, b, tap, x, a)) return {};
    RowSource f{.x = x, .add = o.linear(a, w.o)};
    if (before) f.norm = norm(w.ffn_norm);
    else f.add_norm = norm(w.attn_post_norm);
    h = {.x = x, .add = feed_forward(o, f, w)};
    if (!before) h.add_norm = norm(w.ffn_post_norm);
  }
  h.norm = norm(globals.norm);
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
