// DeepSeek V4.1: residual streams as in V4, but a block reads them by the weights that the block before it left (mHC in a single pass); compressed keys are
// made by a few layers and used by those after them; rows of n-gram tables are added to the streams before some layers.
#include <array>
#include <optional>

#include "models/engram_tables.h"
#include "models/orders.h"

namespace isotope::models {

using ops::Linear;
using ops::RowSource;
using ops::Tensor;

Tensor Late::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  ops::SparseOps& sparse = *o.sparse();
  std::optional<EngramStep> memory;
  if (engram) memory.emplace(*engram, sparse, b);
  Tensor x = sparse.spread(o.embed(globals.table(), config_.embed_scale), config_.hyper.streams);  // [T, N * D]
  Tensor read;                                                                                          // [T, N]
  int table = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    if (tap) (*tap)(int(l), x);
    if (w.engram) {
      const Tensor kv = o.linear(memory->take(table++), w.engram->kv);
      sparse.add_memory(x, {.kv = kv, .q_weight = w.engram->q_weight, .k_weight = w.engram->k_weight, .streams = config_.hyper.streams,
                            .eps = config_.norm_eps});
    }
    ops::StreamStep step = sparse.enter_late(x, w.streams->attn, read);
    Tensor y = o.linear(mix_shared(o, {.x = step.x, .norm = norm(w.attn_norm)}, l), w.o);
    if (l + 1 == layers.size()) {
      if (!narrow(o, b, tap, x, y)) return {};
      if (step.weights.rows != x.rows) step.weights = o.gather(step.weights, b.logit_rows), read = o.gather(read, b.logit_rows);
    }
    sparse.leave(x, step, y);
    step = sparse.enter_late(x, w.streams->ffn, read);
    sparse.leave(x, step, feed_forward(o, {.x = step.x, .norm = norm(w.ffn_norm)}, w));
  }
  const RowSource h = finish(o, b, tap, {.x = sparse.blend(x, read), .norm = norm(globals.norm)}, layers.size());
  return h ? logits(o, h) : Tensor{};                                                                   // [R, V]
}

/// New compressed keys and the indexer's keys that come from them.
void Late::make_entries(ops::Ops& o, Tensor inputs, Tensor gates, size_t layer) const {
  const ModelConfig& c = config_;
  const LayerConfig& l = c.layer[layer];
  const Layer& w = layers[layer];
  const Compressor& made = w.compressed->entries;
  const ops::CompressArgs args{.inputs = inputs, .gates = gates, .bias = made.bias, .norm = norm(made.norm), .ratio = l.ratio, .dim = c.head_dim,
                               .kept = inputs_at_[layer]};
  const Tensor entries = l.ratio == 1 ? o.rms_norm(inputs, made.norm, c.norm_eps) : o.sparse()->pool(args);  // [W, d]
  if (!entries) return;
  const Tensor keys = o.linear(entries, w.indexer->k);
  o.head_norm(keys, c.index.dim, w.indexer->k_norm, c.norm_eps);
  o.sparse()->store_entries({.x = keys, .rope = &c.ropes[size_t(c.index.rope_index)], .layer = index_at_[layer]});
  o.sparse()->store_entries({.x = entries, .rope = &c.ropes[size_t(l.rope_index)], .layer = entries_at_[layer]});
}

Tensor Late::mix_shared(ops::Ops& o, const RowSource& h, size_t layer) const {
  const ModelConfig& c = config_;
  const LayerConfig& l = c.layer[layer];
  const Layer& w = layers[layer];
  const CompressedWeights& a = *w.compressed;
  const bool chooses = l.choosing == Choosing::own, makes = bool(a.entries);
  const ops::Rope &rope = c.ropes[size_t(l.rope_index)], &back = c.ropes[size_t(l.rope_index + Streamed::kRopesBack)];
  std::array<const Linear*, 5> first = {&a.q_a, &a.kv};
  size_t used = 2;
  if (chooses) first[used++] = &w.indexer->weights;
  if (makes) first[used++] = &a.entries.inputs;
  if (a.entries.gates) first[used++] = &a.entries.gates;
  std::array<Tensor, 5> t;
  o.project(h, std::span(first).first(used), std::span(t).first(used));
  const std::array<const Linear*, 2> next = {&a.q_b, chooses ? &w.indexer->q : nullptr};
  std::array<Tensor, 2> queries;
  o.project({.x = t[0], .norm = norm(a.q_norm)}, std::span(next).first(chooses ? 2 : 1), std::span(queries).first(chooses ? 2 : 1));
  const Tensor q = queries[0], kv = t[1];                                                               // [T, H * d], [T, d]
  o.rope(q, c.head_dim, rope);
  o.head_norm(kv, c.head_dim, a.kv_norm, c.norm_eps);
  o.rope(kv, c.head_dim, rope);
  if (makes) make_entries(o, t[3], t[4], layer);
  if (chooses) choose_keys(o, {.q = queries[1], .weights = t[2]}, layer);
  const Tensor y = o.sparse()->attend_compressed({.q = q, .kv = kv, .heads = c.heads, .dim = c.head_dim, .scale = c.attn_scale, .sinks = w.sinks,
                                                  .recent = kv_at_[layer], .window = l.window, .entries = entries_at_[layer], .chosen = l.ratio != 0});
  o.rope(y, c.head_dim, back);
  return o.linear_heads({.x = y, .step = int64_t{c.heads} / c.compressed.groups * c.head_dim, .ws = a.o_a});
}

Result<void> Late::intact() const { return engram ? engram->intact() : Result<void>(); }
std::optional<EngramStats> Late::engram_stats() const { return engram ? std::optional(engram->stats()) : std::nullopt; }

}  // namespace isotope::models
