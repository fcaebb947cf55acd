// Tensors of linear attention (delta rules, lightning attention), and of attention whose queries bring a gate.
#include <cmath>
#include <cstdlib>

#include "models/planner.h"

namespace isotope::models {

using ops::Linear;

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

void exp_all(std::vector<float>& v) {
  for (float& x : v) x = std::exp(x);
}
void negate(std::vector<float>& v) {
  for (float& x : v) x = -x;
}

/// What makes an RMS norm over `n` dimensions a unit norm, and for queries scales by 1 / sqrt(n) on top.
void set_units(std::vector<float>& q, std::vector<float>& k, int n) {
  const float unit = 1 / std::sqrt(float(n));
  k.assign(size_t(n), unit);
  q.assign(size_t(n), unit * unit);
}

}  // namespace

Result<void> Planner::add_parts(const std::string& name, int64_t rows, int64_t cols, std::vector<Part> parts) {
  const int64_t want[] = {rows, cols};
  ISO_TRY(const TensorEntry* const e, required(name, want));
  if (!e) return {};
  for (Part& p : parts) add_use(*e, pack_into(*p.to, 0, rows, std::move(p.rows)));
  return {};
}

Result<void> Planner::add_gated_query(const LayerRow& row, Layer& l, const std::string& prefix) {
  const std::string name = prefix + std::string(names_.gguf ? row.gguf : row.hf);
  const int64_t d = c_.head_dim, each = 2 * d;
  return add_parts(name, c_.heads * each, c_.hidden, {{&l.q, rows_in_groups(c_.heads, each, 0, d)}, {&l.q_gate, rows_in_groups(c_.heads, each, d, d)}});
}

Result<void> Planner::add_by_head(std::vector<float>& to, const std::string& name, int64_t heads, int64_t each, void (*change)(std::vector<float>&)) {
  const int64_t shape[] = {heads};
  return add_numbers(to, name, shape, [each, change](std::vector<float>& v) {
    change(v);
    std::vector<float> out;
    for (float x : v) out.insert(out.end(), size_t(each), x);
    v = std::move(out);
  });
}

Result<void> Planner::add_convolved(ConvolvedQkv& w, const std::string& layer, ConvolvedSizes n) {
  const auto conv = [&](MixerTensor t) { return ConvNames{named(layer, t), {}}; };
  ISO_CHECK_OK(add_matrix(w.q, named(layer, {"q_proj.weight", "attn_q.weight"}), n.keys, c_.hidden));
  ISO_CHECK_OK(add_matrix(w.k, named(layer, {"k_proj.weight", "attn_k.weight"}), n.keys, c_.hidden));
  ISO_CHECK_OK(add_matrix(w.v, named(layer, {"v_proj.weight", "attn_v.weight"}), n.values, c_.hidden));
  ISO_CHECK_OK(add_conv(w.q_conv, conv({"q_conv1d.weight", "ssm_conv1d_q.weight"}), n.keys, true));
  ISO_CHECK_OK(add_conv(w.k_conv, conv({"k_conv1d.weight", "ssm_conv1d_k.weight"}), n.keys, true));
  return add_conv(w.v_conv, conv({"v_conv1d.weight", "ssm_conv1d_v.weight"}), n.values, true);
}

/// Qwen3-Next has two matrices, grouped by key head, Qwen 3.5 four, OLMo Hybrid one for each part.
Result<void> Planner::add_delta_projections(DeltaNet& w, const std::string& layer) {
  const StateConfig& s = c_.state;
  const int64_t K = s.key_heads, V = s.value_heads, keys = K * s.key_dim, values = V * s.value_dim, share = V / K, D = c_.hidden;
  const std::string all = named(layer, {"in_proj_qkvz.weight", ""}), gates = named(layer, {"in_proj_ba.weight", "ssm_ba.weight"});
  if (!names_.gguf && ck_.find(all)) {  // of each key head: q, k, then v and z of its value heads
    const int64_t dk = s.key_dim, v = share * s.value_dim, each = 2 * dk + 2 * v;
    std::vector<Part> parts;
    parts.push_back({&w.qkv, joined({rows_in_groups(K, each, 0, dk), rows_in_groups(K, each, dk, dk), rows_in_groups(K, each, 2 * dk, v)})});
    parts.push_back({&w.z, rows_in_groups(K, each, 2 * dk + v, v)});
    ISO_CHECK_OK(add_parts(all, K * each, D, std::move(parts)));
  } else if (!names_.gguf && ck_.find(named(layer, {"q_proj.weight", ""}))) {
    ISO_CHECK_OK(add_convolved(w.apart, layer, {keys, values}));
    ISO_CHECK_OK(add_matrix(w.z, named(layer, {"g_proj.weight", ""}), values, D));
    ISO_CHECK_OK(add_matrix(w.b, named(layer, {"b_proj.weight", ""}), V, D));
    return add_matrix(w.a, named(layer, {"a_proj.weight", ""}), V, D);
  } else {
    ISO_CHECK_OK(add_matrix(w.qkv, named(layer, {"in_proj_qkv.weight", "attn_qkv.weight"}), 2 * keys + values, D));
    ISO_CHECK_OK(add_matrix(w.z, named(layer, {"in_proj_z.weight", "attn_gate.weight"}), values, D));
  }
  if (ck_.find(gates)) {
    std::vector<Part> parts;
    parts.push_back({&w.b, rows_in_groups(K, 2 * share, 0, share)});
    parts.push_back({&w.a, rows_in_groups(K, 2 * share, share, share)});
    ISO_CHECK_OK(add_parts(gates, 2 * V, D, std::move(parts)));
  } else {
    ISO_CHECK_OK(add_matrix(w.b, named(layer, {"in_proj_b.weight", "ssm_beta.weight"}), V, D));
    ISO_CHECK_OK(add_matrix(w.a, named(layer, {"in_proj_a.weight", "ssm_alpha.weight"}), V, D));
  }
  const ConvNames conv{named(layer, {"conv1d.weight", "ssm_conv1d.weight"}), {}};
  return add_conv(w.conv, conv, 2 * keys + values, true);
}

Result<void> Planner::add_delta(Layer& l, const std::string& layer) {
  l.delta = std::make_unique<DeltaNet>();
  DeltaNet& w = *l.delta;
  const StateConfig& s = c_.state;
  ISO_CHECK_OK(add_delta_projections(w, layer));
  const bool apart = !names_.gguf && ck_.find(named(layer, {"q_proj.weight", ""}));
  const int64_t heads[] = {s.value_heads}, dv[] = {s.value_dim};
  ISO_CHECK_OK(add_numbers(w.neg_a, named(layer, {"A_log", "ssm_a"}), heads, decay()));
  ISO_CHECK_OK(add_numbers(w.dt_bias, named(layer, {"dt_bias", "ssm_dt.bias"}), heads));
  ISO_CHECK_OK(add_numbers(w.norm, named(layer, {apart ? "o_norm.weight" : "norm.weight", "ssm_norm.weight"}), dv));
  set_units(w.q_unit, w.k_unit, s.key_dim);
  return add_matrix(l.o, named(layer, {apart ? "o_proj.weight" : "out_proj.weight", "ssm_out.weight"}), c_.hidden, int64_t{s.value_heads} * s.value_dim);
}

/// Decays and gates come through a narrow matrix (Kimi Linear) or straight (Bailing).
Result<void> Planner::add_channel_delta(Layer& l, const std::string& layer) {
  l.channel_delta = std::make_unique<ChannelDelta>();
  ChannelDelta& w = *l.channel_delta;
  const int64_t H = c_.state.value_heads, d = c_.state.value_dim, D = c_.hidden, channels[] = {H * d}, head[] = {d};
  ISO_CHECK_OK(add_convolved(w.qkv, layer, {H * d, H * d}));
  const auto through = [&](Linear& narrow, Linear& wide, MixerTensor a, MixerTensor b, MixerTensor straight) -> Result<void> {
    if (ck_.find(named(layer, straight))) return add_matrix(wide, named(layer, straight), H * d, D);
    ISO_CHECK_OK(add_matrix(narrow, named(layer, a), d, D));
    return add_matrix(wide, named(layer, b), H * d, d);
  };
  ISO_CHECK_OK(through(w.f_a, w.f, {"f_a_proj.weight", "ssm_f_a.weight"}, {"f_b_proj.weight", "ssm_f_b.weight"}, {"f_proj.weight", "ssm_f.weight"}));
  ISO_CHECK_OK(through(w.g_a, w.g, {"g_a_proj.weight", "ssm_g_a.weight"}, {"g_b_proj.weight", "ssm_g_b.weight"}, {"g_proj.weight", "ssm_g.weight"}));
  ISO_CHECK_OK(add_matrix(w.b, named(layer, {"b_proj.weight", "ssm_beta.weight"}), H, D));
  ISO_CHECK_OK(add_by_head(w.rate, named(layer, {"A_log", "ssm_a"}), H, d, names_.gguf ? negate : exp_all));
  ISO_CHECK_OK(add_numbers(w.dt_bias, named(layer, {"dt_bias", "ssm_dt.bias"}), channels));
  ISO_CHECK_OK(add_numbers(w.norm, named(layer, {"o_norm.weight", "ssm_norm.weight"}), head));
  set_units(w.q_unit, w.k_unit, int(d));
  const bool dense = !names_.gguf && ck_.find(named(layer, {"dense.weight", ""}));
  return add_matrix(l.o, named(layer, {dense ? "dense.weight" : "o_proj.weight", "attn_output.weight"}), D, H * d);
}

/// Of each head, queries, keys and values stand together. Slopes fall from head to head, and from the first layer to the last.
Result<void> Planner::add_lightning(Layer& l, const std::string& layer) {
  l.lightning = std::make_unique<Lightning>();
  Lightning& w = *l.lightning;
  const int64_t H = c_.heads, d = c_.head_dim, D = c_.hidden, width[] = {H * d};
  ISO_CHECK_OK(add_parts(named(layer, {"qkv_proj.weight", "attn_qkv.weight"}), 3 * H * d, D,
                         {{&w.q, rows_in_groups(H, 3 * d, 0, d)}, {&w.k, rows_in_groups(H, 3 * d, d, d)}, {&w.v, rows_in_groups(H, 3 * d, 2 * d, d)}}));
  ISO_CHECK_OK(add_matrix(w.gate, named(layer, {"output_gate.weight", "attn_gate.weight"}), H * d, D));
  ISO_CHECK_OK(add_numbers(w.norm, named(layer, {"norm.weight", "attn_norm_2.weight"}), width));
  const auto number = double(std::atoll(layer.c_str() + names_.layer.size()));
  const double factor = 1 - number / (double(c_.layers) - 1 + 1e-5) + 1e-5;
  for (int64_t h = 0; h < H; ++h) w.decay.push_back(-float(std::exp2(-8.0 * double(h + 1) / double(H)) * factor));
  w.skip.assign(size_t(H), 0.0f);
  return add_matrix(l.o, named(layer, {"out_proj.weight", "attn_output.weight"}), D, H * d);
}

}  // namespace isotope::models
