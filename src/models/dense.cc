// Pre-norm decoder: Llama (arXiv:2302.13971) and its kin. Differences of the families are data: a bias or a head norm that is there or not, a window,
// a layer without rotation, a multiplier that is 1 in most.
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor Dense::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  const float s = config_.residual_scale;
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  RowSource h{.x = x, .norm = attn_norm(0)};
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    const bool last = l + 1 == layers.size();
    show(o, tap, l, h);
    Tensor a = mix(o, h, l);
    if (last && !narrow(o, b, tap, x, a)) return {};
    a = o.linear(a, w.o);
    const Tensor f = feed_forward(o, {.x = x, .add = a, .add_scale = s, .norm = ffn_norm(l)}, w);
    h = {.x = x, .add = f, .add_scale = s, .norm = norm_after(l)};
  }
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
