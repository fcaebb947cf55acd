// An embedding of the token for each layer, which joins the residual at the layer's end: Gemma 3n and 4.
#include <algorithm>
#include <cmath>

#include "models/layer.h"

namespace isotope::models {

using ops::Tensor;

Tensor Transformer::layer_inputs(ops::Ops& o, const ops::Batch& b, Tensor x) const {
  const LayerInputConfig& c = config_.layer_input;
  const float size = std::sqrt(float(c.width));
  const Tensor p = o.linear(x, globals.layer_project);
  o.scale(p, 1 / std::sqrt(float(config_.hidden)));
  o.head_norm(p, int(c.width), globals.layer_norm, config_.norm_eps);
  o.scale(p, 1 / size);  // the table's rows count `size` times
  if (std::all_of(b.tokens.begin(), b.tokens.end(), [&](int32_t t) { return t < c.vocab; })) {
    o.add_rows(p, *globals.layer_embed.w, b.tokens);
  } else {
    std::vector<int32_t> rows(b.tokens.begin(), b.tokens.end());
    for (int32_t& t : rows) t = t < c.vocab ? t : 0;
    o.add_rows(p, *globals.layer_embed.w, rows);
  }
  o.scale(p, size * std::sqrt(0.5f));
  return p;
}

Tensor Transformer::take_input(ops::Ops& o, Tensor x, Tensor inputs, size_t layer) const {
  const int64_t width = config_.layer_input.width;
  const Tensor gate = o.linear(x, layers[layer].input_gate);
  return o.linear(o.act_mul(gate, inputs.columns(int64_t(layer) * width, width), config_.act), layers[layer].input_up);
}

}  // namespace isotope::models
