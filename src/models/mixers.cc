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
  const auto channels = [&]() -> int64_t {
    switch (m) {
      case Mixer::delta: return 2 * int64_t{s.key_heads} * s.key_dim + int64_t{s.value_heads} * s.value_dim;
      case Mixer::mamba2: return s.inner() + 2 * int64_t{s.groups} * s.states;
      case Mixer::mamba1: return s.inner();
      case Mixer::conv: return c.hidden;
      default: return 0;
    }
  };
  return (s.conv_width - 1) * channels();
}

}  // namespace

int64_t state_floats(const ModelConfig& c, Mixer m) {
  const StateConfig& s = c.state;
  switch (m) {
    case Mixer::delta:
      return conv_floats(c, m) +
             ops::DeltaArgs{.key_heads = s.key_heads, .value_heads = s.value_heads, .dk = s.key_dim, .dv = s.value_dim}.state_floats();
    case Mixer::mamba1:
    case Mixer::mamba2:
      return conv_floats(c, m) + ops::ScanArgs{.heads = s.heads, .dim = s.head_dim, .states = s.states, .groups = s.groups,
                                               .per_channel = m == Mixer::mamba1}.state_floats();
    default: return conv_floats(c, m);
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

Tensor Transformer::mix_mamba2(ops::Ops& o, const RowSource& h, size_t layer) const {
  const Mamba2& w = *layers[layer].mamba2;
  const StateConfig& s = config_.state;
  const int64_t inner = s.inner(), bc = int64_t{s.groups} * s.states;
  const Linear* const ws[] = {&w.z, &w.xbc, &w.dt};
  Tensor t[3];
  o.project(h, ws, t);
  const Tensor c = o.short_conv(t[1], w.conv, {state_at_[layer], 0});
  const Tensor y = o.scan({.x = c.columns(0, inner), .b = c.columns(inner, bc), .c = c.columns(inner + bc, bc), .dt = t[2], .dt_bias = w.dt_bias, .d = w.d,
                           .neg_a = w.neg_a, .dt_low = s.dt_low, .dt_high = s.dt_high, .heads = s.heads, .dim = s.head_dim, .states = s.states,
                           .groups = s.groups, .at = {state_at_[layer], conv_floats(config_, Mixer::mamba2)}});
  const Tensor gated = o.act_mul(t[0], y, ops::Activation::silu);
  if (s.groups == 1) return o.rms_norm(gated, w.norm, config_.norm_eps);
  o.head_norm(gated, int(inner / s.groups), {}, config_.norm_eps);
  o.scale_columns(gated, w.norm);
  return gated;
}

Tensor Transformer::mix_mamba1(ops::Ops& o, const RowSource& h, size_t layer) const {
  const Mamba1& w = *layers[layer].mamba1;
  const StateConfig& s = config_.state;
  const Linear* const in[] = {&w.x, &w.z};
  Tensor t[2];
  o.project(h, in, t);
  const Tensor x = o.short_conv(t[0], w.conv, {state_at_[layer], 0});
  const Linear* const ws[] = {&w.rank, &w.b, &w.c};
  Tensor p[3];
  o.linear_n(x, ws, p);
  const Tensor y = o.scan({.x = x, .b = p[1], .c = p[2], .dt = o.linear(p[0], w.dt), .dt_bias = w.dt_bias, .d = w.d, .neg_a = w.neg_a, .dt_low = s.dt_low,
                           .dt_high = s.dt_high, .heads = s.heads, .dim = s.head_dim, .states = s.states, .per_channel = true,
                           .at = {state_at_[layer], conv_floats(config_, Mixer::mamba1)}});
  return o.act_mul(t[1], y, ops::Activation::silu);
}

Tensor Transformer::mix_conv(ops::Ops& o, const RowSource& h, size_t layer) const {
  const GatedConv& w = *layers[layer].conv;
  const Linear* const ws[] = {&w.b, &w.c, &w.x};
  Tensor t[3];
  o.project(h, ws, t);
  o.mul(t[2], t[0]);
  const Tensor y = o.short_conv(t[2], w.conv, {state_at_[layer], 0});
  o.mul(y, t[1]);
  return y;
}

}  // namespace isotope::models
