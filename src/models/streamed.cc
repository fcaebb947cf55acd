// The residual is several streams, from which each block reads a mixture and to which it gives its result, by weights that come from the streams themselves
// (hyper-connections): DeepSeek V4, GLM-5-Next, HY-V4, Qwen4-Exp. DeepSeek V4's attention sees the last tokens as they are and everything before them
// compressed, a few tokens to one key; one vector is key and value of all heads.
#include <array>

#include "models/orders.h"

namespace isotope::models {

using ops::Linear;
using ops::RowSource;
using ops::Tensor;

bool Streamed::run_layer(ops::Ops& o, Tensor& x, size_t l, const ops::Batch* narrow_to) const {
  ops::SparseOps& sparse = *o.sparse();
  const Layer& w = layers[l];
  if (w.ngrams) o.add(x, take_ngrams(o, x, l));
  ops::StreamStep step = sparse.enter(x, w.streams->attn);
  const RowSource h = normed(step.x, w.attn_norm);
  Tensor y = o.linear(w.compressed ? mix_compressed(o, h, l) : mix(o, h, l), w.o);
  if (narrow_to) {
    if (!narrow(o, *narrow_to, nullptr, x, y)) return false;
    if (step.weights.rows != x.rows) step.weights = o.gather(step.weights, narrow_to->logit_rows);
  }
  sparse.leave(x, step, y);
  step = sparse.enter(x, w.streams->ffn);
  sparse.leave(x, step, feed_forward(o, normed(step.x, w.ffn_norm), w));
  return true;
}

Tensor Streamed::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  Tensor x = o.sparse()->spread(o.embed(globals.table(), config_.embed_scale), config_.hyper.streams);  // [T, N * D]
  for (size_t l = 0; l < depth(); ++l) {
    o.next_layer();
    if (tap) (*tap)(int(l), x);
    if (!run_layer(o, x, l, l + 1 == depth() && !tap ? &b : nullptr)) return {};
  }
  const RowSource h = finish(o, b, tap, normed(o.sparse()->join(x, *globals.streams), globals.norm), depth());
  return h ? logits(o, h) : Tensor{};                                                                        // [R, V]
}

Tensor Streamed::forward_for_drafts(ops::Ops& o, const ops::Batch& b, Tensor& hidden) const {
  hidden = o.sparse()->spread(o.embed(globals.table(), config_.embed_scale), config_.hyper.streams);
  for (size_t l = 0; l < depth(); ++l) {
    o.next_layer();
    run_layer(o, hidden, l, nullptr);
  }
  if (b.R() == 0) return {};
  const Tensor x = b.R() == b.T() ? hidden : o.gather(hidden, b.logit_rows);
  return logits(o, normed(o.sparse()->join(x, *globals.streams), globals.norm));
}

DraftResult Streamed::draft(ops::Ops& o, const ops::Batch& b, const DraftStep& step) const {
  const DraftHead& d = drafts[size_t(step.head)];
  Tensor x = draft_input(o, step);                                                                           // [T, N * D]
  o.next_layer();
  if (!run_layer(o, x, depth() + size_t(step.head), step.all_rows ? nullptr : &b)) return {};
  DraftResult r{.logits = {}, .hidden = x};
  if (b.R() == 0) return r;
  if (b.R() != x.rows) x = o.gather(x, b.logit_rows);
  r.logits = logits(o, {.x = o.sparse()->join(x, *d.streams), .norm = draft_norm(d)}, draft_matrix(d));
  return r;
}

/// Streams of low rank norm what they mix, and leave nothing for a norm to do.
RowSource Streamed::normed(Tensor x, const std::vector<float>& weight) const {
  return weight.empty() ? RowSource{.x = x} : RowSource{.x = x, .norm = norm(weight)};
}

void Streamed::compress(ops::Ops& o, const Compressor& c, Made made, size_t layer) const {
  const int dim = int(c.norm.size());
  o.sparse()->compress({.inputs = made.inputs,
                        .gates = made.gates,
                        .bias = c.bias,
                        .norm = norm(c.norm),
                        .rope = made.rope,
                        .ratio = config_.layer[layer].ratio,
                        .series = int(made.inputs.cols / dim),
                        .dim = dim,
                        .kept = inputs_at_[layer],
                        .offset = made.offset,
                        .entries = made.entries});
}

Tensor Streamed::mix_compressed(ops::Ops& o, const RowSource& h, size_t layer) const {
  const ModelConfig& c = config_;
  const LayerConfig& l = c.layer[layer];
  const Layer& w = layers[layer];
  const CompressedWeights& a = *w.compressed;
  const bool chooses = w.indexer != nullptr;
  const ops::Rope &rope = c.ropes[size_t(l.rope_index)], &back = c.ropes[size_t(l.rope_index + kRopesBack)];
  const std::array<const Linear*, 7> first = {&a.q_a, &a.kv, &a.entries.inputs, &a.entries.gates, &a.index.inputs, &a.index.gates,
                                              chooses ? &w.indexer->weights : nullptr};
  std::array<Tensor, 7> t;
  const size_t used = chooses ? 7 : l.ratio ? 4 : 2;
  o.project(h, std::span(first).first(used), std::span(t).first(used));
  const std::array<const Linear*, 2> next = {&a.q_b, chooses ? &w.indexer->q : nullptr};
  std::array<Tensor, 2> queries;
  o.project({.x = t[0], .norm = norm(a.q_norm)}, std::span(next).first(chooses ? 2 : 1), std::span(queries).first(chooses ? 2 : 1));
  const Tensor q = queries[0], kv = t[1];                                                               // [T, H * d], [T, d]
  o.head_norm(q, c.head_dim, {}, c.norm_eps);
  o.rope(q, c.head_dim, rope);
  o.head_norm(kv, c.head_dim, a.kv_norm, c.norm_eps);
  o.rope(kv, c.head_dim, rope);
  if (l.ratio) compress(o, a.entries, {t[2], t[3], &rope, 0, entries_at_[layer]}, layer);
  if (chooses) {
    compress(o, a.index, {t[4], t[5], &c.ropes[size_t(c.index.rope_index)], 2 * t[2].cols, index_at_[layer]}, layer);
    choose_keys(o, {queries[1], {}, t[6], {}}, layer);
  }
  const Tensor y = o.sparse()->attend_compressed({.q = q, .kv = kv, .heads = c.heads, .dim = c.head_dim, .scale = c.attn_scale, .sinks = w.sinks,
                                                  .recent = kv_at_[layer], .window = l.window, .entries = entries_at_[layer], .chosen = chooses});
  o.rope(y, c.head_dim, back);  // values turned with their keys: turning back leaves how far they are from the query
  return o.linear_heads({.x = y, .step = int64_t{c.heads} / c.compressed.groups * c.head_dim, .ws = a.o_a});
}

}  // namespace isotope::models
