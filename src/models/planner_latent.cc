// Latent attention: the file's matrices become those of the absorbed form (layer.h). What turns comes first, and W_UK is turned over.
#include <numeric>

#include "models/planner.h"

namespace isotope::models {

using tensor::HostTensor;

namespace {

/// All heads' plain rows, then all turning ones; the file has them head by head.
std::vector<int32_t> plain_first(int heads, const LatentConfig& c) {
  std::vector<int32_t> order;
  const int head = c.plain + c.turning;
  for (int h = 0; h < heads; ++h)
    for (int i = 0; i < c.plain; ++i) order.push_back(h * head + i);
  for (int h = 0; h < heads; ++h)
    for (int i = c.plain; i < head; ++i) order.push_back(h * head + i);
  return order;
}

/// Each of n rows `times` times.
std::vector<int32_t> repeated(int n, int times) {
  std::vector<int32_t> rows;
  for (int i = 0; i < n; ++i) rows.insert(rows.end(), size_t(times), i);
  return rows;
}

std::vector<int32_t> turning_first(const LatentConfig& c) {
  std::vector<int32_t> order(size_t(c.kv_rank + c.turning));
  std::iota(order.begin(), order.begin() + c.turning, c.kv_rank);
  std::iota(order.begin() + c.turning, order.end(), 0);
  return order;
}

/// Rows [first, first + n) of `t`, turned over: [k, n]. Formats of blocks become float32, since a block runs along the other side.
Result<std::unique_ptr<ops::Weight>> pack_turned(ops::Ops& o, const HostTensor& t, int64_t first, int64_t n) {
  HostTensor part = rows_of(t, first, n);
  std::vector<float> values;
  if (tensor::format(t.dtype).block != 1) {
    values.resize(size_t(part.elements()));
    ISO_CHECK_OK(tensor::dequantize(part.dtype, part.data, values));
    part.dtype = tensor::DType::f32, part.data = values.data(), part.bytes = values.size() * sizeof(float);
  }
  return pack_columns(o, part, 0, part.cols());
}

}  // namespace

Result<void> Planner::add_latent(Layer& layer, const std::string& prefix) {
  const LatentConfig& c = c_.latent;
  LatentWeights& w = layer.latent;
  const auto name = [&](const char* gguf, const char* hf) { return prefix + (names_.gguf ? gguf : std::string(arch_.latent_names) + hf); };
  const auto scaled = [](float by) {
    return [by](std::vector<float>& v) { for (float& x : v) x *= by; };
  };
  const int64_t q_rows = int64_t{c_.heads} * (c.plain + c.turning), q_rank[] = {c.q_rank}, kv_rank[] = {c.kv_rank};
  if (c.q_rank > 0) {
    ISO_CHECK_OK(add_matrix(w.q_a, name("attn_q_a.weight", "q_a_proj.weight"), c.q_rank, c_.hidden));
    ISO_CHECK_OK(add_numbers(w.q_norm, name("attn_q_a_norm.weight", "q_a_layernorm.weight"), q_rank, scaled(c.q_scale)));
    ISO_CHECK_OK(add_matrix(w.q, name("attn_q_b.weight", "q_b_proj.weight"), q_rows, c.q_rank, plain_first(c_.heads, c)));
  } else {
    ISO_CHECK_OK(add_matrix(w.q, name("attn_q.weight", "q_proj.weight"), q_rows, c_.hidden, plain_first(c_.heads, c)));
  }
  ISO_CHECK_OK(add_matrix(w.kv, name("attn_kv_a_mqa.weight", "kv_a_proj_with_mqa.weight"), c.kv_rank + c.turning, c_.hidden, turning_first(c)));
  ISO_CHECK_OK(add_numbers(w.kv_norm, name("attn_kv_a_norm.weight", "kv_a_layernorm.weight"), kv_rank, scaled(c.kv_scale)));
  const bool dense = !names_.gguf && entry(name("", "dense.weight"));
  ISO_CHECK_OK(add_matrix(layer.o, name("attn_output.weight", dense ? "dense.weight" : "o_proj.weight"), c_.hidden, int64_t{c_.heads} * c.value));
  // One row a head, repeated for its dimensions, so that a gate is what it is elsewhere: a tensor of the output's shape.
  if (c.wide_gate) ISO_CHECK_OK(add_matrix(w.gate, name("attn_gate.weight", "linear_gate.weight"), int64_t{c_.heads} * c.value, c_.hidden));
  if (c.gated) ISO_CHECK_OK(add_parts(name("attn_gate.weight", "g_proj.weight"), c_.heads, c_.hidden, {{&w.gate, repeated(c_.heads, c.value)}}));
  w.k_up.resize(size_t(c_.heads));
  w.v_up.resize(size_t(c_.heads));
  return add_latent_ups(w, prefix);
}

/// W_UK and W_UV: one matrix with both for each head, or (GGUF since 2025) one stack for each, W_UK turned over already.
Result<void> Planner::add_latent_ups(LatentWeights& w, const std::string& prefix) {
  const LatentConfig& c = c_.latent;
  const int64_t H = c_.heads, k = c.plain, v = c.value, rank = c.kv_rank;
  const std::string k_name = prefix + "attn_k_b.weight", v_name = prefix + "attn_v_b.weight";
  if (names_.gguf && ck_.find(k_name)) {
    const int64_t k_shape[] = {H, rank, k}, v_shape[] = {H, v, rank};
    ISO_TRY(const TensorEntry* const ke, required(k_name, k_shape));
    ISO_TRY(const TensorEntry* const ve, required(v_name, v_shape));
    if (!ke || !ve) return {};
    for (int64_t h = 0; h < H; ++h) {
      add_use(*ke, pack_into(w.k_up[size_t(h)], h * rank, rank));
      add_use(*ve, pack_into(w.v_up[size_t(h)], h * v, v));
    }
    return {};
  }
  const std::string name = prefix + (names_.gguf ? "attn_kv_b.weight" : std::string(arch_.latent_names) + "kv_b_proj.weight");
  const int64_t shape[] = {H * (k + v), rank};
  ISO_TRY(const TensorEntry* const e, required(name, shape));
  if (!e) return {};
  for (int64_t h = 0; h < H; ++h) {
    add_use(*e, [&o = ops_, &slot = w.k_up[size_t(h)], first = h * (k + v), k](const Checkpoint::Data& d) -> Result<void> {
      ISO_TRY(slot.w, pack_turned(o, d.view, first, k));
      return {};
    });
    add_use(*e, pack_into(w.v_up[size_t(h)], h * (k + v) + k, v));
  }
  return {};
}

}  // namespace isotope::models
