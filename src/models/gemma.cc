// Gemma 2 (arXiv:2408.00118) and 3 (arXiv:2503.19786): each block stands between two norms; heads of q and k are normed in Gemma 3 only.
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor Sandwich::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  RowSource h{.x = x, .norm = norm(layers[0].attn_norm)};
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    const bool last = l + 1 == layers.size();
    show(o, tap, l, h);
    Tensor a = mix(o, h, l);
    if (last && !narrow(o, b, tap, x, a)) return {};
    a = o.linear(a, w.o);
    const Tensor f = feed_forward(o, {.x = x, .add = a, .add_norm = norm(w.attn_post_norm), .norm = norm(w.ffn_norm)}, w);
    h = {.x = x, .add = f, .add_norm = norm(w.ffn_post_norm), .norm = norm(last ? globals.norm : layers[l + 1].attn_norm)};
  }
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
