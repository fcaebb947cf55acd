// What heads of all families have in common: the way from embedding and hidden state into their layer, and the logits.
#include "models/draft.h"

#include "models/layer.h"

namespace isotope::models {

using ops::RowSource;
using ops::Tensor;

Tensor Transformer::draft_input(ops::Ops& o, const DraftStep& step) const {
  const DraftHead& d = drafts[size_t(step.head)];
  const int64_t D = config_.hidden;
  const Tensor e = o.rms_norm(o.embed(d.embed ? *d.embed.w : globals.table(), config_.embed_scale), d.embed_norm, config_.norm_eps);
  if (d.join) {
    const Tensor both = o.resize_heads(e, int(D), int(2 * D));                          // [T, 2 D], its second half zeros
    o.add(both.columns(D, D), o.rms_norm(step.hidden, d.hidden_norm, config_.norm_eps));
    return o.linear(both, d.join);
  }
  const int streams = config_.hyper.streams;
  const Tensor h = o.copy(step.hidden);
  o.head_norm(h, int(D), d.hidden_norm, config_.norm_eps);
  const Tensor x = o.sparse()->spread(o.linear(e, d.from_embed), streams);              // [T, N D]
  for (int n = 0; n < streams; ++n) o.add(x.columns(n * D, D), o.linear(h.columns(n * D, D), d.from_hidden));
  return x;
}

Tensor Transformer::logits_and_state(ops::Ops& o, RowSource h, const ops::Batch* pick, const ops::Linear& head, Tensor& hidden) const {
  const std::optional<ops::Norm> last = h.norm;
  if (config_.raw_drafts) h.norm.reset();
  hidden = o.rows(h);
  if (pick && pick->R() == 0) return {};
  const bool all = !pick || pick->R() == hidden.rows;
  h = {.x = all ? hidden : o.gather(hidden, pick->logit_rows)};
  if (config_.raw_drafts) h.norm = last;
  return logits(o, h, head);
}

}  // namespace isotope::models
