// Tensors of state spaces and short convolutions, and what all mixers share.
#include <algorithm>
#include <cmath>

#include "models/planner.h"

namespace isotope::models {

namespace {

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

std::vector<int64_t> squeezed(std::span<const int64_t> shape) {
  std::vector<int64_t> out(shape.begin(), shape.end());
  std::erase(out, 1);
  return out;
}

}  // namespace

Result<void> Planner::add_numbers(std::vector<float>& to, const std::string& name, std::span<const int64_t> shape, std::function<void(std::vector<float>&)> change) {
  const TensorEntry* const e = entry(name);
  if (!e) {
    need(name, shape);
    return {};
  }
  if (squeezed(std::span(e->shape).first(size_t(std::clamp(e->rank, 0, 4)))) != squeezed(shape)) ISO_CHECK_OK(expect_shape(*e, shape));
  add_use(*e, [&to, change = std::move(change)](const Checkpoint::Data& d) -> Result<void> {
    to.resize(size_t(d.view.elements()));
    ISO_CHECK_OK(tensor::dequantize(d.view.dtype, d.view.data, to));
    if (change) change(to);
    return {};
  });
  return {};
}

Result<void> Planner::add_conv(ops::ShortConv& c, const ConvNames& names, int64_t channels, bool silu, std::vector<float> scales) {
  c.width = c_.state.conv_width, c.silu = silu;
  ISO_CHECK_OK(add_conv_weight(c, names.weight, channels, std::move(scales)));
  if (!c_.state.conv_bias) return {};
  const int64_t shape[] = {channels};
  return add_numbers(c.bias, names.bias, shape);
}

Result<void> Planner::add_conv_weight(ops::ShortConv& c, const std::string& name, int64_t channels, std::vector<float> scales) {
  const int64_t shape[] = {channels, 1, c.width};
  const auto turn = [channels, w = c.width, scales = std::move(scales)](std::vector<float>& v) {
    v = turned(v, size_t(channels), size_t(w));
    for (size_t i = 0; i < v.size() && !scales.empty(); ++i) v[i] *= scales[i % scales.size()];
  };
  return add_numbers(c.weight, name, shape, turn);
}

std::function<void(std::vector<float>&)> Planner::decay() const { return names_.gguf ? std::function<void(std::vector<float>&)>() : negate_exp; }

std::string Planner::named(const std::string& layer, const MixerTensor& t) const {
  return names_.gguf ? layer + std::string(t.gguf) : layer + std::string(arch_.mixer_names) + std::string(t.hf);
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

Result<void> Planner::add_mamba2(Layer& l, const std::string& layer) {
  l.mamba2 = std::make_unique<Mamba2>();
  Mamba2& w = *l.mamba2;
  const StateConfig& s = c_.state;
  const int64_t inner = s.inner(), bc = int64_t{s.groups} * s.states, mixed = inner + 2 * bc, heads[] = {s.heads};
  ISO_CHECK_OK(add_stacked(named(layer, {"in_proj.weight", "ssm_in.weight"}), c_.hidden, {{&w.z, inner}, {&w.xbc, mixed}, {&w.dt, s.heads}}));
  std::vector<float> scales;
  if (s.x_scale != 1 || s.b_scale != 1 || s.c_scale != 1) {
    scales.assign(size_t(inner), s.x_scale);
    scales.insert(scales.end(), size_t(bc), s.b_scale);
    scales.insert(scales.end(), size_t(bc), s.c_scale);
  }
  const ConvNames conv{named(layer, {"conv1d.weight", "ssm_conv1d.weight"}), named(layer, {"conv1d.bias", "ssm_conv1d.bias"})};
  ISO_CHECK_OK(add_conv(w.conv, conv, mixed, true, std::move(scales)));
  ISO_CHECK_OK(add_numbers(w.neg_a, named(layer, {"A_log", "ssm_a"}), heads, decay()));
  ISO_CHECK_OK(add_numbers(w.dt_bias, named(layer, {"dt_bias", "ssm_dt.bias"}), heads));
  ISO_CHECK_OK(add_numbers(w.d, named(layer, {"D", "ssm_d"}), heads));
  if (s.gated_norm) {
    const int64_t width[] = {inner}, grouped[] = {s.groups, inner / s.groups};
    const auto shape = names_.gguf ? std::span<const int64_t>(grouped) : std::span<const int64_t>(width);
    ISO_CHECK_OK(add_numbers(w.norm, named(layer, {"norm.weight", "ssm_norm.weight"}), shape));
  }
  return add_matrix(mixer_out(l), named(layer, {"out_proj.weight", "ssm_out.weight"}), c_.hidden, inner);
}

Result<void> Planner::add_mamba1(Layer& l, const std::string& layer) {
  l.mamba1 = std::make_unique<Mamba1>();
  Mamba1& w = *l.mamba1;
  const StateConfig& s = c_.state;
  const int64_t inner = s.inner(), N = s.states, width[] = {inner}, decays[] = {inner, N}, rank[] = {s.dt_rank}, states[] = {N};
  ISO_CHECK_OK(add_stacked(named(layer, {"in_proj.weight", "ssm_in.weight"}), c_.hidden, {{&w.x, inner}, {&w.z, inner}}));
  const ConvNames conv{named(layer, {"conv1d.weight", "ssm_conv1d.weight"}), named(layer, {"conv1d.bias", "ssm_conv1d.bias"})};
  ISO_CHECK_OK(add_conv(w.conv, conv, inner, true));
  ISO_CHECK_OK(add_stacked(named(layer, {"x_proj.weight", "ssm_x.weight"}), inner, {{&w.rank, s.dt_rank}, {&w.b, N}, {&w.c, N}}));
  ISO_CHECK_OK(add_matrix(w.dt, named(layer, {"dt_proj.weight", "ssm_dt.weight"}), inner, s.dt_rank));
  ISO_CHECK_OK(add_numbers(w.dt_bias, named(layer, {"dt_proj.bias", "ssm_dt.bias"}), width));
  ISO_CHECK_OK(add_numbers(w.neg_a, named(layer, {"A_log", "ssm_a"}), decays, [inner, N, change = decay()](std::vector<float>& v) {
    if (change) change(v);
    std::vector<float> panels(size_t((inner + 15) / 16 * N * 16));
    for (int64_t c = 0; c < inner; ++c)
      for (int64_t n = 0; n < N; ++n) panels[size_t((c / 16 * N + n) * 16 + c % 16)] = v[size_t(c * N + n)];
    v = std::move(panels);
  }));
  ISO_CHECK_OK(add_numbers(w.d, named(layer, {"D", "ssm_d"}), width));
  if (s.normed_steps) {
    ISO_CHECK_OK(add_numbers(w.rank_norm, named(layer, {"dt_layernorm.weight", "ssm_dt_norm.weight"}), rank));
    ISO_CHECK_OK(add_numbers(w.b_norm, named(layer, {"b_layernorm.weight", "ssm_b_norm.weight"}), states));
    ISO_CHECK_OK(add_numbers(w.c_norm, named(layer, {"c_layernorm.weight", "ssm_c_norm.weight"}), states));
  }
  return add_matrix(l.o, named(layer, {"out_proj.weight", "ssm_out.weight"}), c_.hidden, inner);
}

Result<void> Planner::add_gated_conv(Layer& l, const std::string& layer) {
  l.conv = std::make_unique<GatedConv>();
  GatedConv& w = *l.conv;
  const int64_t D = c_.hidden;
  ISO_CHECK_OK(add_stacked(named(layer, {"in_proj.weight", "shortconv.in_proj.weight"}), D, {{&w.b, D}, {&w.c, D}, {&w.x, D}}));
  ISO_CHECK_OK(add_conv(w.conv, {named(layer, {"conv.weight", "shortconv.conv.weight"}), {}}, D, false));
  return add_matrix(l.o, named(layer, {"out_proj.weight", "shortconv.out_proj.weight"}), D, D);
}

Result<void> Planner::add_mixer(Layer& l, Mixer m, const std::string& layer) {
  switch (m) {
    case Mixer::delta: return add_delta(l, layer);
    case Mixer::mamba2: return add_mamba2(l, layer);
    case Mixer::mamba1: return add_mamba1(l, layer);
    case Mixer::conv: return add_gated_conv(l, layer);
    case Mixer::channel_delta: return add_channel_delta(l, layer);
    case Mixer::lightning: return add_lightning(l, layer);
    default: return {};
  }
}

}  // namespace isotope::models
