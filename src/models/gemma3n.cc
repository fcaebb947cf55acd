// Gemma 3n: the residual is several streams, of which each layer computes one and predicts the others (AltUp, arXiv:2301.13310); a path of low rank runs
// beside attention (LAuReL, arXiv:2411.07501), and gates of the lower layers keep only what stands out.
#include <array>
#include <cmath>

#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

namespace {
constexpr float kFloor = 1e-5f;  ///< of a stream's mean square, as the published class has it
}

/// What all coefficients come from: [T, N].
Tensor Gemma3n::modalities(ops::Ops& o, Tensor x, const Layer& w) const {
  const Tensor r = o.rms_norm(x, w.router_norm, config_.norm_eps);
  o.scale(r, 1 / float(config_.hidden));
  const Tensor m = o.linear(r, w.router);
  o.softcap(m, 1);  // tanh
  return m;
}

void Gemma3n::predict(ops::Ops& o, Streams& s, const Layer& w) const {
  const int N = config_.streams.count;
  const Tensor c = o.linear(modalities(o, s[size_t(config_.streams.active)], w), w.predict);  // [T, N * N]
  Streams next(s.size());
  for (int i = 0; i < N; ++i) {
    next[size_t(i)] = o.copy(s[size_t(i)]);
    for (int j = 0; j < N; ++j) o.add_by_row(next[size_t(i)], s[size_t(j)], c.columns(i * N + j, 1));
  }
  s = std::move(next);
}

void Gemma3n::correct(ops::Ops& o, Streams& s, Tensor y, const Layer& w) const {
  const Tensor c = o.linear(modalities(o, y, w), w.correct);  // [T, N], less one
  const Tensor news = o.copy(y);
  o.add(news, s[size_t(config_.streams.active)], -1);
  for (size_t i = 0; i < s.size(); ++i) {
    o.add(s[i], news);
    o.add_by_row(s[i], news, c.columns(int64_t(i), 1));
  }
}

Tensor Gemma3n::sparse_block(ops::Ops& o, const RowSource& h, size_t l) const {
  const Layer& w = layers[l];
  if (config_.layer[l].sparsity == 0) return dense_block(o, h, w);
  const std::array<const ops::Linear*, 2> ws = {&w.gate, &w.up};
  std::array<Tensor, 2> t;
  o.project(h, ws, t);
  o.keep_above(t[0], config_.layer[l].sparsity);
  return o.linear(o.act_mul(t[0], t[1], config_.act), w.down);
}

Tensor Gemma3n::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  const float eps = config_.norm_eps;
  const size_t active = size_t(config_.streams.active);
  const bool narrows = !tap && b.R() != b.T();
  Streams s{o.embed(globals.table(), config_.embed_scale)};                // each [T, D]
  Tensor inputs = layer_inputs(o, b, s[0]);
  for (const ops::Linear& w : globals.stream_in) {
    s.push_back(o.linear(s[0], w));
    o.match_size(s.back(), s[0], kFloor);
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    if (tap) (*tap)(int(l), s[active]);
    predict(o, s, w);
    const Tensor n = o.rms_norm(s[active], w.attn_norm, eps);
    Tensor low = o.rms_norm(o.linear(o.linear(n, w.low_down), w.low_up), w.low_norm, eps);
    o.add(low, n);
    Tensor a = mix(o, {.x = n}, l);
    if (narrows && l + 1 == layers.size()) {
      if (b.R() == 0) return {};
      for (Tensor& t : s) t = o.gather(t, b.logit_rows);
      for (Tensor* t : {&low, &a, &inputs}) *t = o.gather(*t, b.logit_rows);
    }
    const Tensor y = o.rms_norm(o.linear(a, w.o), w.attn_post_norm, eps);
    o.add(y, s[active]);
    o.add(y, low);
    o.scale(y, std::sqrt(0.5f));
    const Tensor f = sparse_block(o, {.x = y, .norm = norm(w.ffn_norm)}, l);
    correct(o, s, o.rows({.x = y, .add = f, .add_norm = norm(w.ffn_post_norm)}), w);
    const Tensor first = o.copy(s[active]);
    if (config_.streams.scaled) o.scale_columns(first, w.stream_scale);
    const Tensor p = o.rms_norm(take_input(o, first, inputs, l), w.input_norm, eps);
    for (size_t i = 1; i < s.size(); ++i) o.add(s[i], p);
  }
  const Tensor x = o.copy(s[0]);
  for (size_t i = 1; i < s.size(); ++i) {
    const Tensor t = o.linear(s[i], globals.stream_out[i - 1]);
    o.match_size(t, s[0], kFloor);
    o.add(x, t);
  }
  o.scale(x, 1 / float(s.size()));
  const RowSource h = finish(o, b, tap, {.x = x, .norm = norm(globals.norm)}, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
