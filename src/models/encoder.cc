#include "models/encoder.h"

#include <cmath>

namespace isotope::models {

using ops::Tensor;

Tensor Encoder::forward(ops::Ops& o, const ops::Batch& b, std::span<const int32_t> types) const {
  const EncoderGlobals& g = globals;
  Tensor x = o.embed(*g.words.w, 1);                                       // [T, D]
  if (g.types) o.add_rows(x, *g.types.w, types);
  o.add_rows(x, *g.positions.w, b.positions);
  o.layer_norm(x, {g.norm, g.norm_bias, config.norm_eps});
  for (const EncoderLayer& w : layers) {
    o.next_layer();
    const ops::Linear* const qkv[] = {&w.q, &w.k, &w.v};
    Tensor t[3];
    o.linear_n(x, qkv, t);
    const Tensor a = o.self_attention({.q = t[0], .k = t[1], .v = t[2], .heads = config.heads, .head_dim = config.head_dim,
                                       .scale = 1 / std::sqrt(float(config.head_dim))});
    o.add_layer_norm(x, o.linear(a, w.o), {w.attn_norm, w.attn_norm_bias, config.norm_eps});
    const Tensor f = o.linear(x, w.up);
    o.activate(f, config.act);
    o.add_layer_norm(x, o.linear(f, w.down), {w.ffn_norm, w.ffn_norm_bias, config.norm_eps});
  }
  return x;
}

Tensor Encoder::classify(ops::Ops& o, Tensor first_rows) const {
  Tensor h = first_rows;
  if (globals.head) {
    h = o.linear(first_rows, globals.head);
    // A few rows: the C library's tanh, the same on every instruction set.
    for (int64_t r = 0; r < h.rows; ++r)
      for (float& v : std::span(h.row(r), size_t(h.cols))) v = config.head_relu ? (v < 0 ? 0 : v) : std::tanh(v);
  }
  return o.linear(h, globals.labels);
}

}  // namespace isotope::models
