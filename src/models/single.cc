// Layers of one block: norm, block, add. Mamba (arXiv:2312.00752), Mamba 2 (arXiv:2405.21060); Nemotron-H (arXiv:2504.03624), whose blocks are mixers,
// attention and feed-forward blocks in an order of its own.
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor Single::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  RowSource h{.x = x, .norm = norm(layers[0].attn_norm)};
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    const bool last = l + 1 == layers.size(), feeds = config_.layer[l].mixer == Mixer::none;
    show(o, tap, l, h);
    Tensor y;
    if (feeds) {
      if (last && !narrow(o, b, tap, h)) return {};
      x = tap ? x : h.x;
      y = feed_forward(o, h, w);
    } else {
      y = mix(o, h, l);
      if (last && !narrow(o, b, tap, x, y)) return {};
      y = o.linear(y, w.o);
    }
    h = {.x = x, .add = y, .add_scale = config_.residual_scale, .norm = norm(last ? globals.norm : layers[l + 1].attn_norm)};
  }
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
