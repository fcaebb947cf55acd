// Gemma 4: Gemma 3's sandwich; layers may read another one's keys and values, have an embedding of their own, and experts beside the dense block.
#include <cmath>

#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

/// The dense block and the experts, each between norms of its own; the router reads the residual, normed by itself.
Tensor Gemma4::both_blocks(ops::Ops& o, const RowSource& h, const Layer& w) const {
  const float eps = config_.norm_eps;
  const Tensor n = o.rows(h), x = h.x;
  const Tensor dense = o.rms_norm(dense_block(o, {.x = n}, w), w.dense_post_norm, eps);
  const Tensor r = o.rms_norm(x, w.router_norm, eps);
  o.scale(r, 1 / std::sqrt(float(config_.hidden)));
  const Tensor routed = o.moe_routed_by(o.rms_norm(x, w.moe_norm, eps), r, w.moe);
  o.add(dense, o.rms_norm(routed, w.moe_post_norm, eps));
  return dense;
}

/// What follows the blocks: the layer's own embedding and its scale.
RowSource Gemma4::end_layer(ops::Ops& o, const RowSource& h, Tensor inputs, size_t l) const {
  const Layer& w = layers[l];
  if (!inputs && w.scalar.empty()) return {.x = h.x, .add = h.add, .add_norm = h.add_norm, .norm = norm_after(l)};
  Tensor x = o.rows(h);
  if (inputs) x = o.rows({.x = x, .add = take_input(o, x, inputs, l), .add_norm = norm(w.input_norm)});
  if (!w.scalar.empty()) o.scale(x, w.scalar[0]);
  return {.x = x, .norm = norm_after(l)};
}

Tensor Gemma4::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  Tensor inputs = config_.layer_input.width ? layer_inputs(o, b, x) : Tensor{};
  RowSource h{.x = x, .norm = attn_norm(0)};
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    show(o, tap, l, h);
    Tensor a = mix(o, h, l);
    if (l + 1 == layers.size()) {
      if (!narrow(o, b, tap, x, a)) return {};
      if (inputs && inputs.rows != x.rows) inputs = o.gather(inputs, b.logit_rows);
    }
    a = o.linear(a, w.o);
    const RowSource mid{.x = x, .add = a, .add_norm = norm(w.attn_post_norm), .norm = norm(w.ffn_norm)};
    const Tensor f = w.moe ? both_blocks(o, mid, w) : dense_block(o, mid, w);
    h = end_layer(o, {.x = x, .add = f, .add_norm = norm(w.ffn_post_norm)}, inputs, l);
  }
  h = finish(o, b, tap, h, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
