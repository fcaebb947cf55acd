// Latent attention: the file's matrices become those of the absorbed form (layer.h). What turns comes first, and W_UK is turned over.
#include <cstring>
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
  const size_t size = size_t(tensor::format(part.dtype).bytes), k = size_t(part.cols());
  std::vector<std::byte> turned(part.bytes);
  const auto* const from = static_cast<const std::byte*>(part.data);
  for (size_t r = 0; r < size_t(n); ++r)
    for (size_t i = 0; i < k; ++i) std::memcpy(&turned[(i * size_t(n) + r) * size], from + (r * k + i) * size, size);
  return o.pack({.dtype = part.dtype, .data = turned.data(), .bytes = turned.size(), .shape = {int64_t(k), n}, .rank = 2});
}

}  // namespace

Result<void> Planner::add_norm(std::vector<float>& slot, const std::string& name, int64_t n) {
  const TensorEntry* e = ck_.find(name);
  if (!e) {
    need(name);
    return {};
  }
  ISO_CHECK_OK(expect_shape(*e, std::span(&n, 1)));
  add_use(*e, read_into(slot, 0, n));
  return {};
}

Result<void> Planner::add_latent(Layer& layer, const std::string& prefix) {
  const LatentConfig& c = c_.latent;
  LatentWeights& w = layer.latent;
  const auto name = [&](const char* gguf, const char* hf) { return prefix + (names_.gguf ? gguf : hf); };
  const int64_t q_rows = int64_t{c_.heads} * (c.plain + c.turning);
  if (c.q_rank > 0) {
    ISO_CHECK_OK(add_matrix(w.q_a, name("attn_q_a.weight", "self_attn.q_a_proj.weight"), c.q_rank, c_.hidden));
    ISO_CHECK_OK(add_norm(w.q_norm, name("attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"), c.q_rank));
    ISO_CHECK_OK(add_matrix(w.q, name("attn_q_b.weight", "self_attn.q_b_proj.weight"), q_rows, c.q_rank, plain_first(c_.heads, c)));
  } else {
    ISO_CHECK_OK(add_matrix(w.q, name("attn_q.weight", "self_attn.q_proj.weight"), q_rows, c_.hidden, plain_first(c_.heads, c)));
  }
  ISO_CHECK_OK(add_matrix(w.kv, name("attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"), c.kv_rank + c.turning, c_.hidden, turning_first(c)));
  ISO_CHECK_OK(add_norm(w.kv_norm, name("attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"), c.kv_rank));
  ISO_CHECK_OK(add_matrix(layer.o, name("attn_output.weight", "self_attn.o_proj.weight"), c_.hidden, int64_t{c_.heads} * c.value));
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
    const TensorEntry *ke = ck_.find(k_name), *ve = ck_.find(v_name);
    if (!ve) {
      need(v_name);
      return {};
    }
    const int64_t k_shape[] = {H, rank, k}, v_shape[] = {H, v, rank};
    ISO_CHECK_OK(expect_shape(*ke, k_shape));
    ISO_CHECK_OK(expect_shape(*ve, v_shape));
    for (int64_t h = 0; h < H; ++h) {
      add_use(*ke, pack_into(w.k_up[size_t(h)], h * rank, rank));
      add_use(*ve, pack_into(w.v_up[size_t(h)], h * v, v));
    }
    return {};
  }
  const std::string name = prefix + (names_.gguf ? "attn_kv_b.weight" : "self_attn.kv_b_proj.weight");
  const TensorEntry* e = ck_.find(name);
  if (!e) {
    need(name);
    return {};
  }
  const int64_t shape[] = {H * (k + v), rank};
  ISO_CHECK_OK(expect_shape(*e, shape));
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
