// The recurrent mixers: projections, the ops that carry the state, and what gates their result.
#include "models/mixers.h"

#include "models/layer.h"

namespace isotope::models {

using ops::Linear;
using ops::RowSource;
using ops::Tensor;

namespace {

/// Where the matrix state of a layer begins: behind the convolution's last inputs.
int64_t conv_floats(const ModelConfig& c, Mixer m) {
  const StateConfig& s = c.state;
  const int64_t channels = m == Mixer::delta ? 2 * int64_t{s.key_heads} * s.key_dim + int64_t{s.value_heads} * s.value_dim : 0;
  return (s.conv_width - 1) * channels;
}

}  // namespace

int64_t state_floats(const ModelConfig& c, Mixer m) {
  const StateConfig& s = c.state;
  switch (m) {
    case Mixer::delta: return conv_floats(c, m) + ops::DeltaArgs{.value_heads = s.value_heads, .dk = s.key_dim, .dv = s.value_dim}.state_floats();
    default: return 0;
  }
}

Tensor Transformer::mix_gated(ops::Ops& o, const RowSource& h, size_t layer) const {
  const Layer& w = layers[layer];
  const Linear* const ws[] = {&w.q, &w.k, &w.v, &w.q_gate};
  Tensor t[4];
  o.project(h, ws, t);
  const Tensor y = attend(o, {t[0], t[1], t[2]}, layer, &w);
  o.sigmoid_mul(y, t[3]);
  return y;
}

Tensor Transformer::mix_delta(ops::Ops& o, const RowSource& h, size_t layer) const {
  const DeltaNet& w = *layers[layer].delta;
  const StateConfig& s = config_.state;
  const int64_t keys = int64_t{s.key_heads} * s.key_dim, values = int64_t{s.value_heads} * s.value_dim;
  constexpr float kUnitEps = 1e-6f;  // added to the sum of squares, where an RMS norm adds to their mean
  const Linear* const ws[] = {&w.qkv, &w.z, &w.b, &w.a};
  Tensor t[4];
  o.project(h, ws, t);
  const Tensor c = o.short_conv(t[0], w.conv, {state_at_[layer], 0});
  const Tensor q = c.columns(0, keys), k = c.columns(keys, keys), v = c.columns(2 * keys, values);
  o.head_norm(q, s.key_dim, w.q_unit, kUnitEps / float(s.key_dim));
  o.head_norm(k, s.key_dim, w.k_unit, kUnitEps / float(s.key_dim));
  const Tensor y = o.gated_delta({.q = q, .k = k, .v = v, .a = t[3], .b = t[2], .neg_a = w.neg_a, .dt_bias = w.dt_bias, .key_heads = s.key_heads,
                                  .value_heads = s.value_heads, .dk = s.key_dim, .dv = s.value_dim,
                                  .at = {state_at_[layer], conv_floats(config_, Mixer::delta)}});
  o.head_norm(y, s.value_dim, w.norm, config_.norm_eps);
  return o.act_mul(t[1], y, ops::Activation::silu);
}

}  // namespace isotope::models
