// GGUF keys of the families with sparse attention, as convert_hf_to_gguf.py writes them.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/config_fields.h"
#include "models/config_gguf.h"

namespace isotope::models {
namespace {

using nlohmann::json;
using weights::Checkpoint;
using weights::Metadata;

/// Which layers choose, which share. Files from before there was a key share nothing, or, with the long context of GLM-5.2, as that model does.
Result<void> read_types(const Metadata& m, const std::string& prefix, json& out) {
  const std::string key = prefix + "attention.indexer.types";
  if (m.is_array(key)) {
    ISO_TRY(const std::vector<bool> full, m.booleans(key));
    json types = json::array();
    for (bool f : full) types.push_back(f ? "full" : "shared");
    out["indexer_types"] = std::move(types);
  } else if (out.value("max_position_embeddings", int64_t{0}) >= 1 << 20) {
    out["index_topk_freq"] = 4, out["index_skip_topk_offset"] = 3;
  }
  return {};
}

/// Layers with an indexer are those whose tensors are there; the dense block is as wide as its tensor.
void read_blocks(const Checkpoint& c, json& out) {
  json sparse = json::array();
  for (int64_t l = 0, n = std::min<int64_t>(out.value("num_hidden_layers", int64_t{0}), kMaxLayers); l < n; ++l)
    sparse.push_back(c.find(fmt::format("blk.{}.indexer.q_proj.weight", l)) ? 1 : 0);
  out["sparse_attention_config"]["sparse_attention_freq"] = std::move(sparse);
  out["index_topk_blocks"] = out.value("index_topk", json());
  if (const weights::TensorEntry* const e = c.find("blk.0.ffn_gate.weight"); e && e->rank == 2) out["dense_intermediate_size"] = e->shape[0];
}

Result<void> read_compressed(const Metadata& m, const std::string& prefix, json& out) {
  out["qk_rope_head_dim"] = out.value("rotary_dim", json());
  out.erase("rotary_dim");
  ISO_TRY(const std::vector<int64_t> ratios, m.integers(prefix + "attention.compress_ratios"));
  out["compress_ratios"] = ratios;
  if (const std::string key = prefix + "swiglu_clamp_exp"; m.has(key)) {
    ISO_TRY(const std::vector<double> limits, m.numbers(key));
    if (limits.empty() || std::any_of(limits.begin(), limits.end(), [&](double v) { return v != limits[0]; }))
      return unknown(m, fmt::format("{} differs between layers", key), "only one value for all layers is supported");
    out["swiglu_limit"] = limits[0];
  }
  return {};
}

}  // namespace

Result<void> read_sparse(const Checkpoint& c, const Arch& arch, const std::string& prefix, json& out) {
  switch (arch.sparse) {
    case Sparse::none: return {};
    case Sparse::latent: return arch.index_pairs ? read_types(c.metadata(), prefix, out) : Result<void>();
    case Sparse::blocks: read_blocks(c, out); return {};
    case Sparse::compressed: return read_compressed(c.metadata(), prefix, out);
    case Sparse::pooled: return {};
    case Sparse::shared: return {};  // no GGUF layout of them is published
  }
  return {};
}

}  // namespace isotope::models
