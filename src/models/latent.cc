// Multi-head latent attention (DeepSeek V2, arXiv:2405.04434), absorbed: the cache holds one vector a token, [what turns | what all heads' keys and values
// are made of], which is the key of a single kv head and, but for what turns, its value. A query is taken to it by its head's part of W_UK, the sum over
// values from it by W_UV. Prompts are computed in the same way as answers, so that a token's bits do not depend on which step it falls into.
#include <array>
#include <span>

#include "models/layer.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor Transformer::mix_latent(ops::Ops& o, const RowSource& h, size_t layer) const {
  const LatentConfig& c = config_.latent;
  const LatentWeights& w = layers[layer].latent;
  const Indexer* const index = layers[layer].indexer.get();                           // reads compressed queries as well
  std::array<const ops::Linear*, 6> first = {w.q_a ? &w.q_a : &w.q, &w.kv};
  size_t n = 2;
  if (index) first[n++] = &index->k, first[n++] = &index->weights;
  if (w.gate) first[n++] = &w.gate;
  if (index && index->pool_gate) first[n++] = &index->pool_gate;
  std::array<Tensor, 6> out;
  o.project(h, std::span(first).first(n), std::span(out).first(n));
  Tensor q = out[0];
  const Tensor kv = out[1], gate = w.gate ? out[index ? 4 : 2] : Tensor{};
  if (w.q_a) {
    const std::array<const ops::Linear*, 2> next = {&w.q, index ? &index->q : nullptr};
    std::array<Tensor, 2> queries;
    o.project({.x = q, .norm = ops::Norm{w.q_norm, c.norm_eps}}, std::span(next).first(index ? 2 : 1), std::span(queries).first(index ? 2 : 1));
    q = queries[0];                                                                   // [T, H * plain + H * turning]
    if (index) choose_keys(o, {queries[1], out[2], out[3], index->pool_gate ? out[n - 1] : Tensor{}}, layer);
  }
  o.head_norm(kv.columns(c.turning, c.kv_rank), c.kv_rank, w.kv_norm, c.norm_eps);          // [T, turning + kv_rank]
  if (config_.layer[layer].grows) o.scale_by_position(q, config_.growth);
  const int64_t plain = int64_t{config_.heads} * c.plain, turning = int64_t{config_.heads} * c.turning;
  q = o.linear_heads({.x = q, .step = c.plain, .ws = w.k_up, .lead = turning ? q.columns(plain, turning) : Tensor{}});
  const Tensor mixed = attend(o, {q, kv, {}}, layer, nullptr);                        // [T, H * kv_rank]
  const Tensor y = o.linear_heads({.x = mixed, .step = c.kv_rank, .ws = w.v_up});
  if (gate) o.sigmoid_mul(y, gate);
  return y;
}

}  // namespace isotope::models
