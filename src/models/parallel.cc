// Attention and the feed-forward block read the same normed rows and are added together: Cohere's Command R7B and A.
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor Parallel::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  RowSource h{.x = x, .norm = attn_norm(0)};
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    show(o, tap, l, h);
    Tensor n = o.rows(h), a = mix(o, {.x = n}, l);
    if (l + 1 == layers.size()) {
      if (!narrow(o, b, tap, x, a)) return {};
      if (n.rows != x.rows) n = o.gather(n, b.logit_rows);
    }
    const Tensor f = feed_forward(o, {.x = n}, w);
    o.add(x, o.linear(a, w.o));
    h = {.x = x, .add = f, .norm = norm_after(l)};
  }
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
