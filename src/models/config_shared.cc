// DeepSeek V4.1: compressed keys and choices that layers share, streams that are read late, and n-gram tables, as config.json spells them.
#include <fmt/format.h>

#include <algorithm>

#include "models/config_fields.h"

namespace isotope::models {
namespace {

using weights::Metadata;

constexpr int64_t kMaxOrder = 16, kMaxHashHeads = 256, kMaxTableRows = int64_t{1} << 40, kMaxPrime = int64_t{1} << 40, kMaxBlocks = 1 << 24;

/// Numbers of layers, ascending, each once.
Result<std::vector<int>> layer_list(const Metadata& f, std::string_view key, const ModelConfig& c) {
  std::vector<int> out;
  if (!f.has(key)) return out;
  ISO_TRY(const std::vector<int64_t> ids, f.integers(key));
  for (int64_t id : ids) {
    if (id < 0 || id >= c.layers) return wrong(f, fmt::format("{} names layer {} of {}", key, id, c.layers));
    if (!out.empty() && id <= out.back()) return wrong(f, fmt::format("{} is not ascending at layer {}", key, id));
    out.push_back(int(id));
  }
  return out;
}

bool has(const std::vector<int>& v, int64_t x) { return std::find(v.begin(), v.end(), int(x)) != v.end(); }

/// Whose compressed keys and whose choice a layer uses.
Result<void> parse_owners(const Metadata& f, ModelConfig& c) {
  ISO_TRY(const std::vector<int64_t> ratios, f.integers("compress_ratios"));
  if (int64_t(ratios.size()) < c.layers)
    return wrong(f, fmt::format("compress_ratios has {} entries for {} layers", ratios.size(), c.layers));  // drafters have theirs
  ISO_TRY(const std::vector<int> keys, layer_list(f, "kv_source_layer_ids", c));
  ISO_TRY(const std::vector<int> choices, layer_list(f, "index_source_layer_ids", c));
  int64_t owner = -1, chooser = -1;
  for (int64_t i = 0; i < c.layers; ++i) {
    LayerConfig& l = c.layer[size_t(i)];
    const int64_t ratio = ratios[size_t(i)];
    if (ratio < 0 || ratio > 2) return unknown(f, fmt::format("compress_ratios holds {}", ratio), "known: 0, 1, 2");
    l.ratio = int(ratio), l.rope_index = ratio ? 1 : 0;
    const bool makes = has(keys, i), chooses = has(choices, i);
    if (!ratio) {
      if (makes || chooses) return wrong(f, fmt::format("layer {} sees its window alone and is named among those that make or choose compressed keys", i));
      continue;
    }
    if (makes && !chooses) return wrong(f, fmt::format("layer {} is in kv_source_layer_ids and not in index_source_layer_ids", i));
    if (makes) owner = i;
    if (chooses) chooser = i;
    if (owner < 0 || c.layer[size_t(owner)].ratio != l.ratio) return wrong(f, fmt::format("no layer before layer {} makes keys of {} tokens each", i, ratio));
    if (chooser < owner) return wrong(f, fmt::format("no layer before layer {} chooses among the keys it uses", i));
    l.entries_of = makes ? -1 : int(owner);
    l.choosing = chooses ? Choosing::own : Choosing::last;
  }
  return {};
}

/// Later layers choose within the blocks that one layer found.
Result<void> parse_blocks(const Metadata& f, ModelConfig& c) {
  IndexConfig& x = c.index;
  ISO_TRY(const int64_t of, in_range_or(f, "candidate_source_layer_id", -1, c.layers - 1, -1));
  if (of < 0) return {};
  if (c.layer[size_t(of)].choosing != Choosing::own) return wrong(f, fmt::format("candidate_source_layer_id is {}, which is not in index_source_layer_ids", of));
  ISO_TRY(x.blocks, in_range(f, "candidate_topk_blocks", 1, kMaxBlocks));
  ISO_TRY(const int64_t keys, in_range(f, "candidate_block_size", 1, 1 << 16));
  x.blocks_of = int(of), x.block_keys = int(keys);
  // The newest block may hold one key alone.
  if ((x.blocks - 1) * keys + 1 < x.top) return wrong(f, fmt::format("{} blocks of {} keys do not hold index_topk {} keys", x.blocks, keys, x.top));
  const int entries = c.layer[size_t(of)].entries_of < 0 ? int(of) : c.layer[size_t(of)].entries_of;
  for (int64_t i = of + 1; i < c.layers; ++i)
    if (const LayerConfig& l = c.layer[size_t(i)]; l.ratio && l.entries_of != entries)
      return wrong(f, fmt::format("layer {} cannot choose within blocks of layer {}: its keys are others", i, of));
  return {};
}

Result<void> parse_engram(const Metadata& f, ModelConfig& c) {
  EngramConfig& x = c.engram;
  ISO_TRY(x.layers, layer_list(f, "engram_layer_ids", c));
  if (!x) return {};
  ISO_TRY(x.rows, f.integers("engram_num_embeddings"));
  if (x.rows.size() != x.layers.size()) return wrong(f, fmt::format("engram_num_embeddings has {} entries, engram_layer_ids {}", x.rows.size(), x.layers.size()));
  for (int64_t n : x.rows)
    if (n < 1 || n > kMaxTableRows) return wrong(f, fmt::format("engram_num_embeddings holds {}, must be 1 to {}", n, kMaxTableRows));
  ISO_TRY(const int64_t longest, in_range(f, "engram_max_ngram_size", 2, kMaxOrder));
  ISO_TRY(const int64_t heads, in_range(f, "engram_n_heads", 1, kMaxHashHeads));
  ISO_TRY(const int64_t dim, in_range(f, "engram_head_dim", 1, kMaxHeadDim));
  ISO_TRY(x.base, in_range(f, "engram_vocab_size", 2, kMaxPrime));
  ISO_TRY(x.vocab, in_range(f, "engram_compressed_vocab_size", 1, kMaxVocab));
  const std::string_view pad_key = spelled(f, {"engram_pad_token_id", "engram_pad_id"});
  ISO_TRY(const int64_t pad, in_range(f, pad_key, 0, c.vocab - 1));
  x.longest = int(longest), x.heads = int(heads), x.dim = int(dim), x.pad_id = int32_t(pad);
  if (x.width() > kMaxWidth) return wrong(f, fmt::format("rows of {} heads of {} numbers are {} wide, {} is the most", x.columns(), dim, x.width(), kMaxWidth));
  return {};
}

}  // namespace

Result<void> parse_shared_keys(const ConfigSource& s, ModelConfig& c) {
  const Metadata& f = s.fields;
  ISO_CHECK_OK(parse_owners(f, c));
  ISO_CHECK_OK(parse_compressed_sizes(f, c));
  ISO_CHECK_OK(parse_blocks(f, c));
  c.hyper.late = true;
  return parse_engram(f, c);
}

}  // namespace isotope::models
