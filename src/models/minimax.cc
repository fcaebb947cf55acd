// MiniMax-Text-01 (arXiv:2501.08313): a block's result is added to its normed input, not to what came before the norm, and both have factors.
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor NormedResidual::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  const BlockScales& s = config_.scales;
  const auto joined = [&](Tensor x, float keep, Tensor y, float take) {
    o.scale(x, keep);
    o.add(x, y, take);
    return x;
  };
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  for (size_t l = 0; l < layers.size(); ++l) {
    o.next_layer();
    const Layer& w = layers[l];
    const bool attends = config_.layer[l].attends();
    if (tap) (*tap)(int(l), x);
    x = o.rms_norm(x, w.attn_norm, config_.norm_eps);
    Tensor a = mix(o, {.x = x}, l);
    if (l + 1 == layers.size() && !narrow(o, b, tap, x, a)) return {};
    x = joined(x, attends ? s.keep_attention : s.keep_mixer, o.linear(a, w.o), attends ? s.attention : s.mixer);
    x = o.rms_norm(x, w.ffn_norm, config_.norm_eps);
    x = joined(x, s.keep_feed_forward, feed_forward(o, {.x = x}, w), s.feed_forward);
  }
  const RowSource h = finish(o, b, tap, {.x = x, .norm = norm(globals.norm)}, layers.size());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

}  // namespace isotope::models
