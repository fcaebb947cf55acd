// The recurrent mixers: projections, the ops that carry the state, and what gates their result.
#include "models/mixers.h"

#include <algorithm>
#include <array>

#include "models/layer.h"

namespace isotope::models {

using ops::Linear;
using ops::RowSource;
using ops::Tensor;

namespace {

constexpr float kUnitEps = 1e-6f;  ///< of unit norms: added to the sum of squares, where an RMS norm adds to their mean

/// Where the matrix state of a layer begins: behind the convolutions' last inputs.
int64_t conv_floats(const ModelConfig& c, Mixer m) {
  const StateConfig& s = c.state;
  const auto channels = [&]() -> int64_t {
    switch (m) {
      case Mixer::delta:
      case Mixer::channel_delta: return 2 * int64_t{s.key_heads} * s.key_dim + int64_t{s.value_heads} * s.value_dim;
      case Mixer::mamba2: return s.inner() + 2 * int64_t{s.groups} * s.states;
      case Mixer::mamba1: return s.inner();
      case Mixer::conv: return c.hidden;
      default: return 0;
    }
  };
  return m == Mixer::lightning ? 0 : (s.conv_width - 1) * channels();
}

/// Queries, keys and values, each through its own convolution; `t` begins with what their projections gave.
std::array<Tensor, 3> convolved(ops::Ops& o, const ConvolvedQkv& w, std::span<const Tensor> t, int state) {
  int64_t at = 0;
  std::array<Tensor, 3> out;
  const ops::ShortConv* const convs[] = {&w.q_conv, &w.k_conv, &w.v_conv};
  for (size_t i = 0; i < 3; ++i) {
    out[i] = o.short_conv(t[i], *convs[i], {state, at});
    at += convs[i]->state_floats();
  }
  return out;
}

}  // namespace

int64_t state_floats(const ModelConfig& c, Mixer m) {
  const StateConfig& s = c.state;
  const auto matrix = [&]() -> int64_t {
    switch (m) {
      case Mixer::delta: return ops::DeltaArgs{.key_heads = s.key_heads, .value_heads = s.value_heads, .dk = s.key_dim, .dv = s.value_dim}.state_floats();
      case Mixer::channel_delta: return ops::ChannelDeltaArgs{.heads = s.value_heads, .dk = s.key_dim, .dv = s.value_dim}.state_floats();
      case Mixer::lightning:
      case Mixer::mamba1:
      case Mixer::mamba2:
        return ops::ScanArgs{.heads = s.heads, .dim = s.head_dim, .states = s.states, .groups = s.groups, .per_channel = m == Mixer::mamba1}.state_floats();
      default: return 0;
    }
  };
  return conv_floats(c, m) + matrix();
}

int64_t state_floats(const ModelConfig& c, const LayerConfig& l) {
  const int64_t mixer = state_floats(c, l.mixer);
  return l.ngrams < 0 ? mixer : mixer + ngram_floats(c);
}

Tensor Transformer::mix_gated(ops::Ops& o, const RowSource& h, size_t layer) const {
  const Layer& w = layers[layer];
  const Indexer* const index = w.indexer.get();
  const Linear* const ws[] = {&w.q, &w.k, &w.v, &w.q_gate, index ? &index->q : nullptr, index ? &index->k : nullptr};
  Tensor t[6];
  o.project(h, std::span(ws).first(index ? 6 : 4), std::span(t).first(index ? 6 : 4));
  if (index) choose_keys(o, {t[4], t[5], {}, {}}, layer);
  const Tensor y = attend(o, {t[0], t[1], t[2]}, layer, &w);
  o.sigmoid_mul(y, t[3]);
  return y;
}

Tensor Transformer::mix_delta(ops::Ops& o, const RowSource& h, size_t layer) const {
  const DeltaNet& w = *layers[layer].delta;
  const StateConfig& s = config_.state;
  const int64_t keys = int64_t{s.key_heads} * s.key_dim, values = int64_t{s.value_heads} * s.value_dim;
  std::array<Tensor, 3> qkv;
  Tensor gates[3];  // z, b, a
  if (w.apart) {
    const Linear* const ws[] = {&w.apart.q, &w.apart.k, &w.apart.v, &w.z, &w.b, &w.a};
    Tensor t[6];
    o.project(h, ws, t);
    qkv = convolved(o, w.apart, t, state_at_[layer]);
    std::copy(t + 3, t + 6, gates);
  } else {
    const Linear* const ws[] = {&w.qkv, &w.z, &w.b, &w.a};
    Tensor t[4];
    o.project(h, ws, t);
    const Tensor c = o.short_conv(t[0], w.conv, {state_at_[layer], 0});
    qkv = {c.columns(0, keys), c.columns(keys, keys), c.columns(2 * keys, values)};
    std::copy(t + 1, t + 4, gates);
  }
  const auto [q, k, v] = qkv;
  o.head_norm(q, s.key_dim, w.q_unit, kUnitEps / float(s.key_dim));
  o.head_norm(k, s.key_dim, w.k_unit, kUnitEps / float(s.key_dim));
  const Tensor y = o.gated_delta({.q = q, .k = k, .v = v, .a = gates[2], .b = gates[1], .neg_a = w.neg_a, .dt_bias = w.dt_bias, .beta_scale = s.beta_scale,
                                  .key_heads = s.key_heads, .value_heads = s.value_heads, .dk = s.key_dim, .dv = s.value_dim, .tiled = s.tiled_heads,
                                  .at = {state_at_[layer], conv_floats(config_, Mixer::delta)}});
  o.head_norm(y, s.value_dim, w.norm, s.norm_eps);
  if (!s.sigmoid_gate) return o.act_mul(gates[0], y, ops::Activation::silu);
  o.sigmoid_mul(y, gates[0]);
  return y;
}

Tensor Transformer::mix_channel_delta(ops::Ops& o, const RowSource& h, size_t layer) const {
  const ChannelDelta& w = *layers[layer].channel_delta;
  const StateConfig& s = config_.state;
  const Linear* const ws[] = {&w.qkv.q, &w.qkv.k, &w.qkv.v, w.f_a ? &w.f_a : &w.f, w.g_a ? &w.g_a : &w.g, &w.b};
  Tensor t[6];
  o.project(h, ws, t);
  const auto [q, k, v] = convolved(o, w.qkv, t, state_at_[layer]);
  o.head_norm(q, s.key_dim, w.q_unit, kUnitEps / float(s.key_dim));
  o.head_norm(k, s.key_dim, w.k_unit, kUnitEps / float(s.key_dim));
  const Tensor f = w.f_a ? o.linear(t[3], w.f) : t[3], gate = w.g_a ? o.linear(t[4], w.g) : t[4];
  const Tensor y = o.channel_delta({.q = q, .k = k, .v = v, .f = f, .b = t[5], .rate = w.rate, .dt_bias = w.dt_bias, .floor = s.decay_floor,
                                    .heads = s.value_heads, .dk = s.key_dim, .dv = s.value_dim,
                                    .at = {state_at_[layer], conv_floats(config_, Mixer::channel_delta)}});
  o.head_norm(y, s.value_dim, w.norm, s.norm_eps);
  o.sigmoid_mul(y, gate);
  return y;
}

/// S = e^-slope S + v kᵀ, out = S q for each head: the scan of Mamba 2 with steps of one, values as its input, and a group for each head.
Tensor Transformer::mix_lightning(ops::Ops& o, const RowSource& h, size_t layer) const {
  const Lightning& w = *layers[layer].lightning;
  const StateConfig& s = config_.state;
  const Linear* const ws[] = {&w.q, &w.k, &w.v, &w.gate};
  Tensor t[4];
  o.project(h, ws, t);
  for (int i = 0; i < 3; ++i) o.activate(t[i], config_.act);
  const Tensor mixed = o.scan({.x = t[2], .b = t[1], .c = t[0], .d = w.skip, .neg_a = w.decay, .dt_low = 1, .dt_high = 1, .heads = s.heads, .dim = s.head_dim,
                               .states = s.states, .groups = s.groups, .at = {state_at_[layer], 0}});
  const Tensor y = o.rms_norm(mixed, w.norm, s.norm_eps);
  o.sigmoid_mul(y, t[3]);
  return y;
}

Tensor Transformer::mix_mamba2(ops::Ops& o, const RowSource& h, size_t layer) const {
  const Mamba2& w = *layers[layer].mamba2;
  const StateConfig& s = config_.state;
  const int64_t inner = s.inner(), bc = int64_t{s.groups} * s.states;
  const Linear* const ws[] = {&w.z, &w.xbc, &w.dt};
  Tensor t[3];
  o.project(h, ws, t);
  if (s.z_scale != 1) o.scale(t[0], s.z_scale);
  if (s.dt_scale != 1) o.scale(t[2], s.dt_scale);
  const Tensor c = o.short_conv(t[1], w.conv, {state_at_[layer], 0});
  const Tensor y = o.scan({.x = c.columns(0, inner), .b = c.columns(inner, bc), .c = c.columns(inner + bc, bc), .dt = t[2], .dt_bias = w.dt_bias, .d = w.d,
                           .neg_a = w.neg_a, .dt_low = s.dt_low, .dt_high = s.dt_high, .heads = s.heads, .dim = s.head_dim, .states = s.states,
                           .groups = s.groups, .at = {state_at_[layer], conv_floats(config_, Mixer::mamba2)}});
  const auto normed = [&](Tensor x) {
    if (!s.gated_norm) return x;
    if (s.groups == 1) return o.rms_norm(x, w.norm, s.norm_eps);
    o.head_norm(x, int(inner / s.groups), {}, s.norm_eps);
    o.scale_columns(x, w.norm);
    return x;
  };
  if (s.norm_before_gate) return o.act_mul(t[0], normed(y), ops::Activation::silu);
  return normed(o.act_mul(t[0], y, ops::Activation::silu));
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
  const std::vector<float>* const norms[] = {&w.rank_norm, &w.b_norm, &w.c_norm};
  for (size_t i = 0; i < 3; ++i)
    if (!norms[i]->empty()) o.head_norm(p[i], int(p[i].cols), *norms[i], s.norm_eps);
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
