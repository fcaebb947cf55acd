// Falcon-H1 (arXiv:2507.22448): attention and a Mamba 2 mixer read the same normed rows, and both results are added. Numbers from maximal update
// parametrization multiply what the blocks give.
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor Beside::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  const BlockScales& s = config_.scales;
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  RowSource h{.x = x, .norm = norm(layers[0].attn_norm)};
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    const bool last = l + 1 == layers.size();
    show(o, tap, l, h);
    const RowSource read{.x = o.rows(h)};
    Tensor m = mix_mamba2(o, read, l), a = attend(o, project(o, read, l), l, &w);
    if (last && !narrow(o, b, tap, x, a)) return {};
    if (m.rows != a.rows) m = o.gather(m, b.logit_rows);
    o.add(x, o.linear(m, w.mixer_o), s.mixer);
    const Tensor f = feed_forward(o, {.x = x, .add = o.linear(a, w.o), .add_scale = s.attention, .norm = norm(w.ffn_norm)}, w);
    h = {.x = x, .add = f, .add_scale = s.feed_forward, .norm = norm(last ? globals.norm : layers[l + 1].attn_norm)};
  }
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
