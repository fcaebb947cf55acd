// Tensors of indexers and of DeepSeek V4's attention.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "models/planner.h"

namespace isotope::models {

using tensor::DType;

namespace {

void add_one(std::vector<float>& v) {
  for (float& x : v) x += 1;
}

}  // namespace

std::vector<int64_t> whole_numbers(const tensor::HostTensor& t) {
  std::vector<int64_t> out;
  const auto read = [&]<class T>(T) {
    for (int64_t i = 0; i < t.elements(); ++i) {
      T v;
      std::memcpy(&v, static_cast<const std::byte*>(t.data) + size_t(i) * sizeof v, sizeof v);
      out.push_back(int64_t(v));
    }
  };
  if (t.dtype == DType::i32) read(int32_t{});
  if (t.dtype == DType::i64) read(int64_t{});
  return out;
}

Result<void> Planner::add_indexer(Layer& layer, const std::string& prefix) {
  layer.indexer = std::make_unique<Indexer>();
  Indexer& w = *layer.indexer;
  const IndexConfig& x = c_.index;
  const auto name = [&](const char* gguf, const char* hf) { return prefix + (names_.gguf ? gguf : hf); };
  const int64_t dim[] = {x.dim}, all = int64_t{x.heads} * x.dim;
  if (arch_.sparse == Sparse::blocks) {
    void (*const change)(std::vector<float>&) = names_.gguf || arch_.hf_norm_shift == 0 ? nullptr : add_one;
    ISO_CHECK_OK(add_matrix(w.q, name("indexer.q_proj.weight", "self_attn.index_q_proj.weight"), all, c_.hidden));
    ISO_CHECK_OK(add_matrix(w.k, name("indexer.k_proj.weight", "self_attn.index_k_proj.weight"), x.dim, c_.hidden));
    ISO_CHECK_OK(add_numbers(w.q_norm, name("indexer.q_norm.weight", "self_attn.index_q_norm.weight"), dim, change));
    return add_numbers(w.k_norm, name("indexer.k_norm.weight", "self_attn.index_k_norm.weight"), dim, change);
  }
  if (arch_.sparse == Sparse::pooled) {  // queries and keys are one matrix
    const std::string at = prefix + "self_attn.indexer.";
    ISO_CHECK_OK(add_stacked(at + "index_qk_proj.weight", c_.hidden, {{&w.q, all}, {&w.k, x.dim}}));
    ISO_CHECK_OK(add_numbers(w.q_norm, at + "q_layernorm.weight", dim, add_one));
    return add_numbers(w.k_norm, at + "k_layernorm.weight", dim, add_one);
  }
  ISO_CHECK_OK(add_matrix(w.q, name("indexer.attn_q_b.weight", "self_attn.indexer.wq_b.weight"), all, c_.latent.q_rank));
  ISO_CHECK_OK(add_matrix(w.k, name("indexer.attn_k.weight", "self_attn.indexer.wk.weight"), x.dim, c_.hidden));
  ISO_CHECK_OK(add_matrix(w.weights, name("indexer.proj.weight", "self_attn.indexer.weights_proj.weight"), x.heads, c_.hidden));
  ISO_CHECK_OK(add_numbers(w.k_norm, name("indexer.k_norm.weight", "self_attn.indexer.k_norm.weight"), dim));
  ISO_CHECK_OK(add_numbers(w.k_bias, name("indexer.k_norm.bias", "self_attn.indexer.k_norm.bias"), dim));
  if (!x.pool_gated) return {};
  const std::string bias = prefix + "self_attn.indexer.index_kpool_compress_ape", gate = prefix + "self_attn.indexer.index_kpool_compress_gate";
  if (x.pool == 1) {
    ignore(bias), ignore(gate);
    return {};
  }
  const int64_t places[] = {x.pool, x.dim};
  ISO_CHECK_OK(add_numbers(w.pool_bias, bias, places));
  return add_matrix(w.pool_gate, gate, x.dim, c_.hidden);
}

void Planner::ignore_indexer(const std::string& prefix) {
  for (const char* part : {"wq_b.weight", "wk.weight", "weights_proj.weight", "k_norm.weight", "k_norm.bias", "index_kpool_compress_ape", "index_kpool_compress_gate"})
    ignore(prefix + "self_attn.indexer." + part);
}

/// Held as float32, so that no format of the file rounds the activations that it meets.
Result<void> Planner::add_float_matrix(ops::Linear& slot, const std::string& name, int64_t n, int64_t k) {
  const int64_t want[] = {n, k};
  ISO_TRY(const TensorEntry* const e, required(name, want));
  if (!e) return {};
  add_use(*e, [&o = ops_, &slot](const Checkpoint::Data& d) -> Result<void> {
    std::vector<float> v(size_t(d.view.elements()));
    ISO_CHECK_OK(tensor::dequantize(d.view.dtype, d.view.data, v));
    ISO_TRY(slot.w, o.pack({.dtype = DType::f32, .data = v.data(), .bytes = v.size() * sizeof(float), .shape = d.view.shape, .rank = 2}));
    return {};
  });
  return {};
}

Result<void> Planner::add_compressor(Compressor& w, const std::string& prefix, int ratio, int64_t dim) {
  const int64_t width = ratio == c_.compressed.overlap ? 2 * dim : dim, bias[] = {ratio, width}, norm[] = {dim};
  ISO_CHECK_OK(add_matrix(w.inputs, prefix + (names_.gguf ? "kv.weight" : "wkv.weight"), width, c_.hidden));
  ISO_CHECK_OK(add_matrix(w.gates, prefix + (names_.gguf ? "gate.weight" : "wgate.weight"), width, c_.hidden));
  ISO_CHECK_OK(add_numbers(w.bias, prefix + (names_.gguf ? "ape.weight" : "ape"), bias));
  return add_numbers(w.norm, prefix + "norm.weight", norm);
}

Result<void> Planner::add_compressed_base(Layer& layer, const std::string& prefix) {
  layer.compressed = std::make_unique<CompressedWeights>();
  CompressedWeights& w = *layer.compressed;
  const CompressedConfig& x = c_.compressed;
  const auto name = [&](const char* gguf, const char* hf) { return prefix + (names_.gguf ? gguf : hf); };
  const int64_t q = int64_t{c_.heads} * c_.head_dim, q_rank[] = {x.q_rank}, head[] = {c_.head_dim}, out = x.groups * x.out_rank;
  ISO_CHECK_OK(add_matrix(w.q_a, name("attn_q_a.weight", "attn.wq_a.weight"), x.q_rank, c_.hidden));
  ISO_CHECK_OK(add_numbers(w.q_norm, name("attn_q_a_norm.weight", "attn.q_norm.weight"), q_rank));
  ISO_CHECK_OK(add_matrix(w.q_b, name("attn_q_b.weight", "attn.wq_b.weight"), q, x.q_rank));
  ISO_CHECK_OK(add_matrix(w.kv, name("attn_kv.weight", "attn.wkv.weight"), c_.head_dim, c_.hidden));
  ISO_CHECK_OK(add_numbers(w.kv_norm, name("attn_kv_a_norm.weight", "attn.kv_norm.weight"), head));
  ISO_CHECK_OK(add_matrix(layer.o, name("attn_output_b.weight", "attn.wo_b.weight"), c_.hidden, out));
  const int64_t o_a[] = {out, q / x.groups};
  ISO_TRY(const TensorEntry* const e, required(name("attn_output_a.weight", "attn.wo_a.weight"), o_a));
  w.o_a.resize(size_t(x.groups));
  for (int64_t g = 0; e && g < x.groups; ++g) add_use(*e, pack_into(w.o_a[size_t(g)], g * x.out_rank, x.out_rank));
  return {};
}

Result<void> Planner::add_compressed(Layer& layer, const LayerConfig& l, const std::string& prefix) {
  ISO_CHECK_OK(add_compressed_base(layer, prefix));
  CompressedWeights& w = *layer.compressed;
  const auto name = [&](const char* gguf, const char* hf) { return prefix + (names_.gguf ? gguf : hf); };
  if (l.ratio) ISO_CHECK_OK(add_compressor(w.entries, name("attn_compressor_", "attn.compressor."), l.ratio, c_.head_dim));
  if (l.choosing != Choosing::own) return {};
  layer.indexer = std::make_unique<Indexer>();
  ISO_CHECK_OK(add_compressor(w.index, name("indexer_compressor_", "attn.indexer.compressor."), l.ratio, c_.index.dim));
  ISO_CHECK_OK(
      add_matrix(layer.indexer->q, name("indexer.attn_q_b.weight", "attn.indexer.wq_b.weight"), int64_t{c_.index.heads} * c_.index.dim, c_.compressed.q_rank));
  return add_matrix(layer.indexer->weights, name("indexer.proj.weight", "attn.indexer.weights_proj.weight"), c_.index.heads, c_.hidden);
}

Result<void> Planner::add_expert_table(ops::Moe& m, const std::string& name) {
  const int64_t used = c_.moe.routing.used, want[] = {c_.vocab, used};
  ISO_TRY(const TensorEntry* const e, required(name, want));
  if (!e) return {};
  add_use(*e, [&m, used, experts = c_.moe.experts, name](const Checkpoint::Data& d) -> Result<void> {
    const std::vector<int64_t> table = whole_numbers(d.view);
    if (table.empty())
      return fail(Code::unsupported, fmt::format("tensor {} is of type {}", name, tensor::format(d.view.dtype).name), {},
                  "I32 and I64 are supported");
    for (int64_t v : table)
      if (v < 0 || v >= experts)
        return fail(Code::data_loss, fmt::format("tensor {} names expert {} of {}", name, v, experts), {}, "use an intact checkpoint");
    m.by_token.assign(table.begin(), table.end());
    for (auto at = m.by_token.begin(); at != m.by_token.end(); at += used) std::sort(at, at + used);
    return {};
  });
  return {};
}

}  // namespace isotope::models
