// Layers of one block: norm, mixer, add. Mamba (arXiv:2312.00752) and Mamba 2 (arXiv:2405.21060).
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor Single::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  RowSource h{.x = x, .norm = norm(layers[0].attn_norm)};
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const bool last = l + 1 == layers.size();
    show(o, tap, l, h);
    Tensor y = mix(o, h, l);
    if (last && !narrow(o, b, tap, x, y)) return {};
    h = {.x = x, .add = o.linear(y, layers[l].o), .add_scale = config_.residual_scale, .norm = norm(last ? globals.norm : layers[l + 1].attn_norm)};
  }
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
