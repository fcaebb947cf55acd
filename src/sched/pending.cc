#include "sched/pending.h"

#include <algorithm>

namespace isotope::sched {

PendingPrefill pending_prefill(std::span<const SeqState> running, std::span<const SeqState> waiting, const Limits& l,
                               const kv::Counts& available) {
  PendingPrefill out;
  int64_t budget = l.token_budget, rows = l.max_logit_rows;
  kv::Counts room = available;
  const auto take = [&](const SeqState& s, int64_t n) {
    budget -= n;
    if (s.all_rows) rows -= n;
    out.tokens += n;
    out.requests += n > 0;
    out.able |= n > 0;
  };
  for (const SeqState& s : running) {
    if (decoding(s)) continue;
    out.partial = true;
    take(s, std::max<int64_t>(0, chunk_limit(s, l, budget, rows, out.able)));
    const int64_t more = (s.known + l.block_size - 1) / l.block_size - s.blocks;
    for (int g = 0; g < l.groups; ++g) room[size_t(g)] -= window_cap(l, g, more, 0);
  }
  size_t active = running.size();
  for (const SeqState& s : waiting) {
    const int64_t n = chunk_limit(s, l, budget, rows, out.able);
    if (n <= 0 || active >= size_t(l.max_seqs)) break;
    if (!admissible(s, l, n, room) && active > 0) break;
    const int64_t more = (s.known + l.block_size - 1) / l.block_size - s.blocks;
    for (int g = 0; g < l.groups; ++g) room[size_t(g)] -= s.held[size_t(g)] + window_cap(l, g, more, n);
    take(s, n);
    ++active;
  }
  out.tokens = std::min(out.tokens, l.token_budget);
  return out;
}

double kv_usage(const kv::Counts& available, const kv::Counts& total, int groups) {
  double usage = 0;
  for (int g = 0; g < groups; ++g)
    if (total[size_t(g)] > 0) usage = std::max(usage, 1.0 - double(available[size_t(g)]) / double(total[size_t(g)]));
  return usage;
}

}  // namespace isotope::sched
