// Indexers and compressed keys as config.json spells them.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "models/config_fields.h"

namespace isotope::models {
namespace {

using weights::Metadata;

constexpr int64_t kMaxIndexDim = 512, kMaxRatio = 4096;

/// A size that the cache and the kernels can hold.
Result<int> head_width(const Metadata& f, std::string_view key) {
  ISO_TRY(const int64_t v, in_range(f, key, 8, kMaxIndexDim));
  if (v % 8) return unknown(f, fmt::format("{} is {}", key, v), "multiples of 8 are supported");
  return int(v);
}

Result<void> expect_turning(const Metadata& f, std::string_view key, const IndexConfig& x, int rot) {
  if (rot <= x.dim) return {};
  return wrong(f, fmt::format("{} is {}, while {} dimensions of a head turn", key, x.dim, rot));
}

// ---- DeepSeek V3.2, GLM-5 ---------------------------------------------------------------------------------------------------------
/// "F" or "full" chooses, "S" or "shared" reuses the last choice.
Result<Choosing> choosing_of(const Metadata& f, std::string_view key, std::string_view name) {
  if (name == "full" || name == "F") return Choosing::own;
  if (name == "shared" || name == "S") return Choosing::last;
  return unknown(f, fmt::format("{} names '{}'", key, name), "known: full, shared");
}

Result<void> choosing_by_names(const Metadata& f, std::string_view key, ModelConfig& c) {
  std::vector<std::string_view> names;
  if (f.is_array(key)) {
    ISO_TRY(names, f.strings(key));
  } else {
    ISO_TRY(const std::string_view letters, f.string(key));
    for (size_t i = 0; i < letters.size(); ++i) names.push_back(letters.substr(i, 1));
  }
  if (int64_t(names.size()) == c.layers + c.draft_layers) names.resize(size_t(c.layers));  // those of multi-token-prediction layers follow
  if (int64_t(names.size()) != c.layers) return wrong(f, fmt::format("{} has {} entries for {} layers", key, names.size(), c.layers));
  for (size_t i = 0; i < names.size(); ++i) { ISO_TRY(c.layer[i].choosing, choosing_of(f, key, names[i])); }
  return {};
}

Result<void> parse_choosing(const Metadata& f, ModelConfig& c) {
  for (LayerConfig& l : c.layer) l.choosing = Choosing::own;
  for (std::string_view key : {"indexer_types", "index_topk_pattern"})
    if (f.has(key)) return choosing_by_names(f, key, c);
  ISO_TRY(const int64_t every, in_range_or(f, "index_topk_freq", 0, kMaxLayers, 1));
  ISO_TRY(const int64_t offset, in_range_or(f, "index_skip_topk_offset", 0, kMaxLayers, 2));
  for (int64_t i = 0; i < c.layers; ++i)
    if (std::max<int64_t>(i - offset + 1, 0) % std::max<int64_t>(every, 1)) c.layer[size_t(i)].choosing = Choosing::last;
  return {};
}

/// Tokens to a key of an indexer: the cache finds the entry by its last token.
Result<int> pool_of(const Metadata& f, std::string_view key) {
  ISO_TRY(const int64_t pool, in_range(f, key, 1, kMaxRatio));
  if (!std::has_single_bit(uint64_t(pool))) return unknown(f, fmt::format("{} is {}", key, pool), "powers of two are supported");
  return int(pool);
}

/// GLM-5-Next: `index_topk` counts tokens, of which several make a key.
Result<void> parse_pool(const Metadata& f, ModelConfig& c) {
  IndexConfig& x = c.index;
  if (!f.has("index_kpool")) return {};
  ISO_TRY(x.pool, pool_of(f, "index_kpool"));
  x.pool_gated = true;
  if (x.top % x.pool) return wrong(f, fmt::format("index_topk {} is no multiple of index_kpool {}", x.top, x.pool));
  x.top /= x.pool;
  if (c.latent.turning > 0)
    return unknown(f, fmt::format("qk_rope_head_dim is {} together with index_kpool", c.latent.turning), "0 is supported: heads that do not turn");
  ISO_TRY(const bool tail, f.boolean_or("index_kpool_always_select_tail", true));
  if (!tail && x.pool > 1)
    return unknown(f, "index_kpool_always_select_tail is false", "only models whose queries always see the tokens after the last whole pool are supported");
  return {};
}

Result<void> parse_latent_index(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  IndexConfig& x = c.index;
  if (c.latent.q_rank == 0) return wrong(f, "q_lora_rank is not set: the indexer reads compressed queries");
  if (s.arch->latent_eps) c.latent.norm_eps = c.norm_eps;
  if (s.arch->index_eps) x.norm_eps = c.norm_eps;
  ISO_TRY(const int64_t heads, in_range(f, "index_n_heads", 1, kMaxHeads));
  ISO_TRY(x.dim, head_width(f, "index_head_dim"));
  ISO_TRY(x.top, in_range(f, "index_topk", 1, kMaxContext));
  x.heads = int(heads);
  ISO_CHECK_OK(expect_turning(f, "index_head_dim", x, c.ropes[0].rot));
  ISO_CHECK_OK(parse_choosing(f, c));
  for (LayerConfig& l : c.layer)
    if (!l.attends()) l.choosing = Choosing::none;
  const auto first = std::find_if(c.layer.begin(), c.layer.end(), [](const LayerConfig& l) { return l.attends(); });
  if (first != c.layer.end() && first->choosing == Choosing::last)
    return wrong(f, first == c.layer.begin() ? "the first layer shares the choice of keys of the one before it"
                                             : "the first layer that attends shares the choice of keys of one before it");
  ISO_CHECK_OK(parse_pool(f, c));
  if (c.latent.turning == 0) {
    x.rope_index = -1;
    return {};
  }
  ISO_TRY(const bool pairs, f.boolean_or("indexer_rope_interleave", s.arch->index_pairs));
  if (pairs == c.ropes[0].interleaved && !s.arch->index_last) return {};
  x.rope_index = int(c.ropes.size());
  c.ropes.push_back(c.ropes[0]);
  c.ropes.back().interleaved = pairs;
  if (s.arch->index_last) c.ropes.back().first = x.dim - c.ropes.back().rot;
  return {};
}

// ---- MiniMax M3 -------------------------------------------------------------------------------------------------------------------
/// transformers 5 has the numbers of `sparse_attention_config` at the top level, under other names.
std::string_view either(const Metadata& f, std::string_view nested, std::string_view flat) { return f.has(nested) ? nested : flat; }

Result<void> parse_block_layers(const Metadata& f, ModelConfig& c) {
  if (f.has("sparse_attention_config.sparse_attention_freq")) {
    ISO_TRY(const std::vector<int64_t> sparse, f.integers("sparse_attention_config.sparse_attention_freq"));
    if (int64_t(sparse.size()) != c.layers)
      return wrong(f, fmt::format("sparse_attention_config.sparse_attention_freq has {} entries for {} layers", sparse.size(), c.layers));
    for (size_t i = 0; i < sparse.size(); ++i) c.layer[i].choosing = sparse[i] ? Choosing::own : Choosing::none;
    return {};
  }
  if (!f.has("layer_types")) return {};
  ISO_TRY(const std::vector<std::string_view> types, f.strings("layer_types"));
  if (int64_t(types.size()) != c.layers) return wrong(f, fmt::format("layer_types has {} entries for {} layers", types.size(), c.layers));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "minimax_m3_sparse" && types[i] != "full_attention")
      return unknown(f, fmt::format("layer_types names '{}'", types[i]), "known: full_attention, minimax_m3_sparse");
    c.layer[i].choosing = types[i] == "minimax_m3_sparse" ? Choosing::own : Choosing::none;
  }
  return {};
}

Result<void> parse_block_index(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  IndexConfig& x = c.index;
  ISO_CHECK_OK(parse_block_layers(f, c));
  const std::string_view heads_key = either(f, "sparse_attention_config.sparse_num_index_heads", "index_n_heads");
  ISO_TRY(const int64_t heads, in_range(f, heads_key, 1, kMaxHeads));
  if (heads != c.kv_heads)
    return unknown(f, fmt::format("{} is {}, num_key_value_heads {}", heads_key, heads, c.kv_heads), "one index head for each kv head is supported");
  const std::string_view dim_key = either(f, "sparse_attention_config.sparse_index_dim", "index_head_dim");
  ISO_TRY(x.dim, head_width(f, dim_key));
  ISO_TRY(const int64_t block, in_range(f, either(f, "sparse_attention_config.sparse_block_size", "index_block_size"), 1, 1 << 16));
  ISO_TRY(x.top, in_range(f, either(f, "sparse_attention_config.sparse_topk_blocks", "index_topk_blocks"), 1, 1 << 16));
  ISO_TRY(const int64_t local, in_range(f, either(f, "sparse_attention_config.sparse_local_block", "index_local_blocks"), 0, x.top));
  x.heads = int(heads), x.block = int(block), x.local = int(local);
  ISO_TRY(const std::string_view act, f.string_or("hidden_act", "swigluoai"));
  if (act != "swigluoai" && act != "silu") return unknown(f, fmt::format("hidden_act is '{}'", act), "known: swigluoai");
  c.moe.shared_limit = c.mlp_limit = c.moe.swiglu_limit, c.mlp_alpha = c.moe.swiglu_alpha;
  return expect_turning(f, dim_key, x, c.ropes[0].rot);
}

// ---- Qwen4-Exp --------------------------------------------------------------------------------------------------------------------
/// The budget counts tokens, of which several make a key.
Result<void> parse_pooled(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  IndexConfig& x = c.index;
  ISO_TRY(const int64_t heads, in_range(f, "indexer_n_heads", 1, kMaxHeads));
  ISO_TRY(const int64_t keys, in_range(f, "indexer_kv_heads", 1, kMaxHeads));
  if (keys != 1) return unknown(f, fmt::format("indexer_kv_heads is {}", keys), "one, shared by all heads, is supported");
  ISO_TRY(x.dim, head_width(f, "indexer_head_dim"));
  ISO_TRY(x.top, in_range(f, "indexer_budget", 1, kMaxContext));
  ISO_TRY(x.pool, pool_of(f, "indexer_compress_ratio"));
  if (x.top % x.pool) return wrong(f, fmt::format("indexer_budget {} is no multiple of indexer_compress_ratio {}", x.top, x.pool));
  x.top /= x.pool;
  x.heads = int(heads), x.summed = true;
  for (LayerConfig& l : c.layer) l.choosing = l.attends() ? Choosing::own : Choosing::none;
  return expect_turning(f, "indexer_head_dim", x, c.ropes[0].rot);
}

// ---- DeepSeek V4 ------------------------------------------------------------------------------------------------------------------
struct Ratios {
  int64_t sparse = 4, heavy = 128;  ///< of keys that are chosen, of those that are all seen
};

Result<Ratios> parse_ratios(const Metadata& f) {
  Ratios r;
  const auto read = [&](const char* nested, const char* flat, int64_t& out) -> Result<void> {
    ISO_TRY(out, in_range_or(f, flat, 2, kMaxRatio, out));
    ISO_TRY(out, in_range_or(f, nested, 2, kMaxRatio, out));
    if (!std::has_single_bit(uint64_t(out))) return unknown(f, fmt::format("{} is {}", nested, out), "powers of two are supported");
    return {};
  };
  ISO_CHECK_OK(read("compress_rates.compressed_sparse_attention", "compress_rate_csa", r.sparse));
  ISO_CHECK_OK(read("compress_rates.heavily_compressed_attention", "compress_rate_hca", r.heavy));
  if (r.sparse == r.heavy) return unknown(f, fmt::format("both compression rates are {}", r.sparse), "two different ones are supported");
  return r;
}

Result<void> set_ratio(const Metadata& f, LayerConfig& l, int64_t ratio, const Ratios& r) {
  if (ratio != 0 && ratio != r.sparse && ratio != r.heavy)
    return unknown(f, fmt::format("compress_ratios holds {}", ratio), fmt::format("known: 0, {}, {}", r.sparse, r.heavy));
  l.ratio = int(ratio);
  l.choosing = ratio == r.sparse ? Choosing::own : Choosing::none;
  l.rope_index = ratio ? 1 : 0;
  return {};
}

Result<void> parse_compressed_layers(const Metadata& f, const Ratios& r, ModelConfig& c) {
  if (f.has("layer_types")) {
    ISO_TRY(const std::vector<std::string_view> types, f.strings("layer_types"));
    if (int64_t(types.size()) != c.layers) return wrong(f, fmt::format("layer_types has {} entries for {} layers", types.size(), c.layers));
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string_view t = types[i];
      if (t != "sliding_attention" && t != "compressed_sparse_attention" && t != "heavily_compressed_attention")
        return unknown(f, fmt::format("layer_types names '{}'", t),
                       "known: sliding_attention, compressed_sparse_attention, heavily_compressed_attention");
      ISO_CHECK_OK(set_ratio(f, c.layer[i], t == "sliding_attention" ? 0 : t == "compressed_sparse_attention" ? r.sparse : r.heavy, r));
    }
    return {};
  }
  if (!f.has("compress_ratios")) {  // two heavily compressed layers, then both kinds in turn
    for (size_t i = 0; i < c.layer.size(); ++i) ISO_CHECK_OK(set_ratio(f, c.layer[i], i >= 2 && i % 2 ? r.sparse : r.heavy, r));
    return {};
  }
  ISO_TRY(const std::vector<int64_t> ratios, f.integers("compress_ratios"));
  if (int64_t(ratios.size()) < c.layers)
    return wrong(f, fmt::format("compress_ratios has {} entries for {} layers", ratios.size(), c.layers));  // drafters have theirs
  for (size_t i = 0; i < c.layer.size(); ++i) ISO_CHECK_OK(set_ratio(f, c.layer[i], ratios[i], r));
  return {};
}

Result<void> parse_hashed(const Metadata& f, ModelConfig& c) {
  if (f.has("mlp_layer_types")) {
    ISO_TRY(const std::vector<std::string_view> types, f.strings("mlp_layer_types"));
    if (int64_t(types.size()) != c.layers) return wrong(f, fmt::format("mlp_layer_types has {} entries for {} layers", types.size(), c.layers));
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] != "hash_moe" && types[i] != "moe") return unknown(f, fmt::format("mlp_layer_types names '{}'", types[i]), "known: hash_moe, moe");
      c.layer[i].by_token = types[i] == "hash_moe";
    }
    return {};
  }
  ISO_TRY(const int64_t hashed, in_range_or(f, "num_hash_layers", 0, kMaxLayers, 3));
  for (size_t i = 0; i < c.layer.size(); ++i) c.layer[i].by_token = int64_t(i) < hashed;
  return {};
}

/// The rotations of sliding and of compressing layers, the same ones turning back, and that of index heads.
void add_ropes(ModelConfig& c) {
  const auto at_end = [](ops::Rope r, int dim) { r.first = dim - r.rot; return r; };
  for (ops::Rope& r : c.ropes) r = at_end(r, c.head_dim);
  for (size_t i = 0; i < 2; ++i) {
    ops::Rope back = c.ropes[i];
    for (float& frequency : back.inv_freq) frequency = -frequency;
    c.ropes.push_back(std::move(back));
  }
  c.index.rope_index = int(c.ropes.size());
  c.ropes.push_back(at_end(c.ropes[1], c.index.dim));
}

Result<void> parse_compressed(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_TRY(const Ratios ratios, parse_ratios(f));
  ISO_CHECK_OK(parse_compressed_layers(f, ratios, c));
  ISO_CHECK_OK(parse_hashed(f, c));
  c.compressed.overlap = int(ratios.sparse);
  return parse_compressed_sizes(f, c);
}

}  // namespace

Result<void> parse_compressed_sizes(const Metadata& f, ModelConfig& c) {
  CompressedConfig& x = c.compressed;
  IndexConfig& index = c.index;
  if (c.kv_heads != 1) return unknown(f, fmt::format("num_key_value_heads is {}", c.kv_heads), "one, shared by all heads, is supported");
  if (c.head_dim % 8 || c.head_dim > kMaxIndexDim)
    return unknown(f, fmt::format("head_dim is {}", c.head_dim), "multiples of 8 up to 512 are supported");
  ISO_TRY(x.q_rank, in_range(f, "q_lora_rank", 1, kMaxWidth));
  ISO_TRY(x.out_rank, in_range(f, "o_lora_rank", 1, kMaxWidth));
  ISO_TRY(const int64_t groups, in_range(f, "o_groups", 1, c.heads));
  if (c.heads % groups) return wrong(f, fmt::format("num_attention_heads {} is no multiple of o_groups {}", c.heads, groups));
  x.groups = int(groups);
  ISO_TRY(const int64_t window, in_range(f, "sliding_window", 1, kMaxContext));
  for (LayerConfig& l : c.layer) l.window = window;
  ISO_TRY(const int64_t heads, in_range(f, "index_n_heads", 1, kMaxHeads));
  ISO_TRY(index.dim, head_width(f, "index_head_dim"));
  ISO_TRY(index.top, in_range(f, "index_topk", 1, kMaxContext));
  index.heads = int(heads);
  ISO_CHECK_OK(expect_turning(f, "index_head_dim", index, c.ropes[1].rot));
  ISO_TRY(c.moe.swiglu_limit, finite_or(f, "swiglu_limit", 0));
  if (c.moe.swiglu_limit < 0) return wrong(f, fmt::format("swiglu_limit is {}, must not be negative", c.moe.swiglu_limit));
  c.moe.shared_limit = c.moe.swiglu_limit;
  add_ropes(c);
  return {};
}

Result<void> parse_sparse(const ConfigSource& s, ModelConfig& c) {
  ISO_CHECK_OK(parse_hyper(s, c));
  switch (s.arch->sparse) {
    case Sparse::none: return {};
    case Sparse::latent: return parse_latent_index(s, c);
    case Sparse::blocks: return parse_block_index(s, c);
    case Sparse::compressed: return parse_compressed(s, c);
    case Sparse::pooled: return parse_pooled(s, c);
    case Sparse::shared: return parse_shared_keys(s, c);
  }
  return {};
}

}  // namespace isotope::models
