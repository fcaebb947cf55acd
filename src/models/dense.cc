// Pre-norm decoder: Llama (arXiv:2302.13971) and its kin. Differences of the families are data: a bias or a head norm that is there or not, a window,
// a layer without rotation, a multiplier that is 1 in most.
#include "models/orders.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

RowSource Dense::after_mixing(ops::Ops& o, Tensor x, Tensor mixed, size_t l, const ops::Norm& next) const {
  const float s = config_.residual_scale;
  const Tensor a = o.linear(mixed, layers[l].o);
  const Tensor f = feed_forward(o, {.x = x, .add = a, .add_scale = s, .norm = ffn_norm(l)}, layers[l]);
  return {.x = x, .add = f, .add_scale = s, .norm = next};
}

Tensor Dense::forward(ops::Ops& o, const ops::Batch& b, const HiddenTap* tap) const {
  Tensor x = o.embed(globals.table(), config_.embed_scale);                // [T, D]
  RowSource h{.x = x, .norm = attn_norm(0)};
  for (size_t l = 0; l < depth(); ++l) {
    o.next_layer();
    show(o, tap, l, h);
    Tensor a = mix(o, h, l);
    if (l + 1 == depth() && !narrow(o, b, tap, x, a)) return {};
    h = after_mixing(o, x, a, l, norm_after(l));
  }
  h = finish(o, b, tap, h, depth());
  return h ? logits(o, h) : Tensor{};                                      // [R, V]
}

Tensor Dense::forward_for_drafts(ops::Ops& o, const ops::Batch& b, Tensor& hidden) const {
  const Tensor x = o.embed(globals.table(), config_.embed_scale);
  RowSource h{.x = x, .norm = attn_norm(0)};
  for (size_t l = 0; l < depth(); ++l) {
    o.next_layer();
    h = after_mixing(o, x, mix(o, h, l), l, norm_after(l));
  }
  return logits_and_state(o, h, &b, globals.head, hidden);
}

DraftResult Dense::draft(ops::Ops& o, const ops::Batch& b, const DraftStep& step) const {
  const DraftHead& d = drafts[size_t(step.head)];
  const size_t l = depth() + size_t(step.head);
  Tensor x = draft_input(o, step);                                         // [T, D]
  o.next_layer();
  Tensor a = mix(o, {.x = x, .norm = attn_norm(l)}, l);
  if (!step.all_rows && !narrow(o, b, nullptr, x, a)) return {};
  const RowSource h = after_mixing(o, x, a, l, draft_norm(d));
  DraftResult r;
  r.logits = logits_and_state(o, h, step.all_rows ? &b : nullptr, draft_matrix(d), r.hidden);
  return r;
}

}  // namespace isotope::models
