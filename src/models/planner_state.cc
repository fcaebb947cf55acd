// Tensors of the layers with a recurrent state, and of attention that is gated.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "models/planner.h"

namespace isotope::models {

namespace {

using Rows = std::vector<int32_t>;

/// Rows [first, first + n) of each of `groups` equal runs of `each` rows.
Rows rows_in_groups(int64_t groups, int64_t each, int64_t first, int64_t n) {
  Rows out;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = 0; i < n; ++i) out.push_back(int32_t(g * each + first + i));
  return out;
}

Rows joined(std::initializer_list<Rows> lists) {
  Rows out;
  for (const Rows& l : lists) out.insert(out.end(), l.begin(), l.end());
  return out;
}

void negate_exp(std::vector<float>& v) {
  for (float& x : v) x = -std::exp(x);
}

/// [rows, cols] becomes [cols, rows].
std::vector<float> turned(const std::vector<float>& v, size_t rows, size_t cols) {
  std::vector<float> out(v.size());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < cols; ++c) out[c * rows + r] = v[r * cols + c];
  return out;
}

}  // namespace

Result<void> Planner::add_parts(const std::string& name, int64_t rows, int64_t cols, std::vector<Part> parts) {
  const int64_t want[] = {rows, cols};
  ISO_TRY(const TensorEntry* const e, required(name, want));
  if (!e) return {};
  for (Part& p : parts) add_use(*e, pack_into(*p.to, 0, rows, std::move(p.rows)));
  return {};
}

Result<void> Planner::add_numbers(std::vector<float>& to, const std::string& name, std::span<const int64_t> shape, std::function<void(std::vector<float>&)> change) {
  ISO_TRY(const TensorEntry* const e, required(name, shape));
  if (!e) return {};
  add_use(*e, [&to, change = std::move(change)](const Checkpoint::Data& d) -> Result<void> {
    to.resize(size_t(d.view.elements()));
    ISO_CHECK_OK(tensor::dequantize(d.view.dtype, d.view.data, to));
    if (change) change(to);
    return {};
  });
  return {};
}

Result<void> Planner::add_conv(ops::ShortConv& c, const std::string& prefix, int64_t channels, bool silu) {
  c.width = c_.state.conv_width, c.silu = silu;
  const int64_t shape[] = {channels, 1, c.width};
  ISO_CHECK_OK(add_numbers(c.weight, prefix + "weight", shape, [channels, w = c.width](std::vector<float>& v) { v = turned(v, size_t(channels), size_t(w)); }));
  if (!c_.state.conv_bias) return {};
  return add_numbers(c.bias, prefix + "bias", std::span(shape).first(1));
}

Result<void> Planner::add_gated_query(const LayerRow& row, Layer& l, const std::string& prefix) {
  const std::string name = prefix + std::string(names_.gguf ? row.gguf : row.hf);
  const int64_t d = c_.head_dim, each = 2 * d;
  return add_parts(name, c_.heads * each, c_.hidden, {{&l.q, rows_in_groups(c_.heads, each, 0, d)}, {&l.q_gate, rows_in_groups(c_.heads, each, d, d)}});
}

Result<void> Planner::add_delta(Layer& l, const std::string& prefix) {
  l.delta = std::make_unique<DeltaNet>();
  DeltaNet& w = *l.delta;
  const StateConfig& s = c_.state;
  const int64_t K = s.key_heads, V = s.value_heads, keys = K * s.key_dim, values = V * s.value_dim, share = V / K, D = c_.hidden;
  if (ck_.find(prefix + "in_proj_qkvz.weight")) {  // of each key head: q, k, then v and z of its value heads
    const int64_t dk = s.key_dim, v = share * s.value_dim, each = 2 * dk + 2 * v;
    std::vector<Part> parts, gates;
    parts.push_back({&w.qkv, joined({rows_in_groups(K, each, 0, dk), rows_in_groups(K, each, dk, dk), rows_in_groups(K, each, 2 * dk, v)})});
    parts.push_back({&w.z, rows_in_groups(K, each, 2 * dk + v, v)});
    ISO_CHECK_OK(add_parts(prefix + "in_proj_qkvz.weight", K * each, D, std::move(parts)));
    gates.push_back({&w.b, rows_in_groups(K, 2 * share, 0, share)});
    gates.push_back({&w.a, rows_in_groups(K, 2 * share, share, share)});
    ISO_CHECK_OK(add_parts(prefix + "in_proj_ba.weight", 2 * V, D, std::move(gates)));
  } else {
    ISO_CHECK_OK(add_matrix(w.qkv, prefix + "in_proj_qkv.weight", 2 * keys + values, D));
    ISO_CHECK_OK(add_matrix(w.z, prefix + "in_proj_z.weight", values, D));
    ISO_CHECK_OK(add_matrix(w.b, prefix + "in_proj_b.weight", V, D));
    ISO_CHECK_OK(add_matrix(w.a, prefix + "in_proj_a.weight", V, D));
  }
  ISO_CHECK_OK(add_conv(w.conv, prefix + "conv1d.", 2 * keys + values, true));
  const int64_t heads[] = {V}, dv[] = {s.value_dim};
  ISO_CHECK_OK(add_numbers(w.neg_a, prefix + "A_log", heads, negate_exp));
  ISO_CHECK_OK(add_numbers(w.dt_bias, prefix + "dt_bias", heads));
  ISO_CHECK_OK(add_numbers(w.norm, prefix + "norm.weight", dv));
  const float unit = 1 / std::sqrt(float(s.key_dim));
  w.k_unit.assign(size_t(s.key_dim), unit);
  w.q_unit.assign(size_t(s.key_dim), unit * unit);
  return add_matrix(l.o, prefix + "out_proj.weight", D, values);
}

Result<void> Planner::add_stacked(const std::string& name, int64_t cols, std::initializer_list<std::pair<ops::Linear*, int64_t>> parts) {
  int64_t rows = 0;
  for (const auto& [to, n] : parts) rows += n;
  const int64_t want[] = {rows, cols};
  ISO_TRY(const TensorEntry* const e, required(name, want));
  if (!e) return {};
  int64_t first = 0;
  for (const auto& [to, n] : parts) {
    add_use(*e, pack_into(*to, first, n));
    first += n;
  }
  return {};
}

Result<void> Planner::add_mamba2(Layer& l, const std::string& prefix) {
  l.mamba2 = std::make_unique<Mamba2>();
  Mamba2& w = *l.mamba2;
  const StateConfig& s = c_.state;
  const int64_t inner = s.inner(), mixed = inner + 2 * int64_t{s.groups} * s.states, heads[] = {s.heads}, width[] = {inner};
  ISO_CHECK_OK(add_stacked(prefix + "in_proj.weight", c_.hidden, {{&w.z, inner}, {&w.xbc, mixed}, {&w.dt, s.heads}}));
  ISO_CHECK_OK(add_conv(w.conv, prefix + "conv1d.", mixed, true));
  ISO_CHECK_OK(add_numbers(w.neg_a, prefix + "A_log", heads, negate_exp));
  ISO_CHECK_OK(add_numbers(w.dt_bias, prefix + "dt_bias", heads));
  ISO_CHECK_OK(add_numbers(w.d, prefix + "D", heads));
  ISO_CHECK_OK(add_numbers(w.norm, prefix + "norm.weight", width));
  return add_matrix(l.o, prefix + "out_proj.weight", c_.hidden, inner);
}

Result<void> Planner::add_mamba1(Layer& l, const std::string& prefix) {
  l.mamba1 = std::make_unique<Mamba1>();
  Mamba1& w = *l.mamba1;
  const StateConfig& s = c_.state;
  const int64_t inner = s.inner(), N = s.states, width[] = {inner}, decays[] = {inner, N};
  ISO_CHECK_OK(add_stacked(prefix + "in_proj.weight", c_.hidden, {{&w.x, inner}, {&w.z, inner}}));
  ISO_CHECK_OK(add_conv(w.conv, prefix + "conv1d.", inner, true));
  ISO_CHECK_OK(add_stacked(prefix + "x_proj.weight", inner, {{&w.rank, s.dt_rank}, {&w.b, N}, {&w.c, N}}));
  ISO_CHECK_OK(add_matrix(w.dt, prefix + "dt_proj.weight", inner, s.dt_rank));
  ISO_CHECK_OK(add_numbers(w.dt_bias, prefix + "dt_proj.bias", width));
  ISO_CHECK_OK(add_numbers(w.neg_a, prefix + "A_log", decays, [inner, N](std::vector<float>& v) {
    negate_exp(v);
    std::vector<float> panels(size_t((inner + 15) / 16 * N * 16));
    for (int64_t c = 0; c < inner; ++c)
      for (int64_t n = 0; n < N; ++n) panels[size_t((c / 16 * N + n) * 16 + c % 16)] = v[size_t(c * N + n)];
    v = std::move(panels);
  }));
  ISO_CHECK_OK(add_numbers(w.d, prefix + "D", width));
  return add_matrix(l.o, prefix + "out_proj.weight", c_.hidden, inner);
}

Result<void> Planner::add_gated_conv(Layer& l, const std::string& prefix) {
  l.conv = std::make_unique<GatedConv>();
  GatedConv& w = *l.conv;
  const int64_t D = c_.hidden;
  ISO_CHECK_OK(add_stacked(prefix + "in_proj.weight", D, {{&w.b, D}, {&w.c, D}, {&w.x, D}}));
  ISO_CHECK_OK(add_conv(w.conv, prefix + "conv.", D, false));
  return add_matrix(l.o, prefix + "out_proj.weight", D, D);
}

Result<void> Planner::add_mixer(Layer& l, Mixer m, const std::string& prefix) {
  const std::string at = prefix + std::string(arch_.mixer_names);
  switch (m) {
    case Mixer::delta: return add_delta(l, at);
    case Mixer::mamba2: return add_mamba2(l, at);
    case Mixer::mamba1: return add_mamba1(l, at);
    case Mixer::conv: return add_gated_conv(l, at);
    default: return {};
  }
}

}  // namespace isotope::models
