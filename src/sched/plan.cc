#include "sched/plan.h"

#include <algorithm>

namespace isotope::sched {

namespace {
int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
}  // namespace

int64_t chunk_limit(const SeqState& s, const Limits& l, int64_t budget, int64_t rows, bool others) {
  const int64_t rest = s.known - s.computed;
  int64_t n = std::min(rest, budget);
  if (l.long_prefill > 0 && l.chunked) n = std::min(n, l.long_prefill);
  if (!l.chunked && n < rest) n = others ? 0 : rest;
  if (s.all_rows) n = std::min(n, rows);
  return n;
}

int64_t window_cap(const Limits& l, int group, int64_t blocks, int64_t tokens) {
  const int64_t window = l.window[size_t(group)];
  return window ? std::min(blocks, ceil_div(window, l.block_size) + ceil_div(tokens, l.block_size) + 2) : blocks;
}

bool admissible(const SeqState& s, const Limits& l, int64_t tokens, const kv::Counts& room) {
  const int64_t need = ceil_div(s.known, l.block_size) - s.blocks;
  for (int g = 0; g < l.groups; ++g)
    if (room[size_t(g)] < s.held[size_t(g)] + window_cap(l, g, need, tokens)) return false;
  return true;
}

bool Planner::fits(int64_t blocks) const {
  for (int g = 0; g < in_->limits.groups; ++g)
    if (free_[size_t(g)] < blocks) return false;
  return true;
}

int64_t Planner::new_blocks(const SeqState& s, int64_t tokens) const {
  return std::max<int64_t>(0, ceil_div(s.computed + tokens, in_->limits.block_size) - s.blocks);
}

/// The largest chunk <= tokens whose blocks are available.
int64_t Planner::shrink_to_fit(const SeqState& s, int64_t tokens) const {
  if (fits(new_blocks(s, tokens))) return tokens;
  int64_t least = free_[0];
  for (int g = 1; g < in_->limits.groups; ++g) least = std::min(least, free_[size_t(g)]);
  return std::max<int64_t>(0, (s.blocks + least) * in_->limits.block_size - s.computed);
}

void Planner::schedule(size_t i, int64_t tokens) {
  const SeqState& s = in_->running[i];
  const int64_t blocks = new_blocks(s, tokens);
  for (int g = 0; g < in_->limits.groups; ++g) free_[size_t(g)] -= blocks;
  budget_ -= tokens;
  if (s.all_rows) rows_ -= tokens;
  state_[i].tokens = tokens;
}

void Planner::preempt(size_t i) {
  const SeqState& s = in_->running[i];
  if (const int64_t planned = state_[i].tokens; planned > 0) {  // takes back what it was given in this step
    const int64_t blocks = new_blocks(s, planned);
    for (int g = 0; g < in_->limits.groups; ++g) free_[size_t(g)] += blocks;
    budget_ += planned;
    if (s.all_rows) rows_ += planned;
  }
  for (int g = 0; g < in_->limits.groups; ++g) free_[size_t(g)] += s.held[size_t(g)];
  state_[i] = {.tokens = 0, .preempted = true};
  preempted_any_ = true;
}

/// Preempts the least deserving sequence behind i; false if i is the last itself.
bool Planner::preempt_last_before_giving_up(size_t i) {
  for (size_t v = in_->running.size(); v-- > i + 1;) {
    if (state_[v].preempted) continue;
    preempt(v);
    return true;
  }
  return false;
}

void Planner::decode(size_t i) {
  while (!fits(new_blocks(in_->running[i], 1)))
    if (!preempt_last_before_giving_up(i)) return preempt(i);
  schedule(i, 1);
}

void Planner::continue_prefill(size_t i) {
  const SeqState& s = in_->running[i];
  const int64_t want = chunk(s);
  if (want <= 0) return;
  int64_t n = shrink_to_fit(s, want);
  const auto too_little = [&] { return in_->limits.chunked ? n == 0 : n < want; };
  // The last in line keeps its blocks and waits: those before it will finish or take them.
  while (too_little() && preempt_last_before_giving_up(i)) n = shrink_to_fit(s, want);
  if (too_little()) return;
  schedule(i, n);
  prefill_planned_ = true;
}

/// Blocks that prompts in progress will still ask for after this step.
kv::Counts Planner::reserve_for_running() const {
  kv::Counts reserved{};
  for (size_t i = 0; i < in_->running.size(); ++i) {
    const SeqState& s = in_->running[i];
    const int64_t rest = new_blocks(s, s.known - s.computed) - new_blocks(s, state_[i].tokens);
    if (rest <= 0) continue;
    for (int g = 0; g < in_->limits.groups; ++g) reserved[size_t(g)] += window_cap(in_->limits, g, rest, 0);
  }
  return reserved;
}

void Planner::admit(StepPlan& out) {
  size_t active = in_->running.size();
  kv::Counts reserved = reserve_for_running();
  for (const SeqState& s : in_->waiting) {
    if (active >= size_t(in_->limits.max_seqs)) return;
    int64_t n = chunk(s);
    if (n <= 0) return;
    kv::Counts room{};
    for (int g = 0; g < in_->limits.groups; ++g) room[size_t(g)] = free_[size_t(g)] - reserved[size_t(g)];
    if (!admissible(s, in_->limits, n, room)) {
      if (active > 0) return;
      for (int g = 0; g < in_->limits.groups; ++g)
        if (free_[size_t(g)] < s.held[size_t(g)]) return;
    }
    for (int g = 0; g < in_->limits.groups; ++g) free_[size_t(g)] -= s.held[size_t(g)];
    n = shrink_to_fit(s, n);
    if (n <= 0) return;
    const int64_t blocks = new_blocks(s, n), rest = new_blocks(s, s.known - s.computed) - blocks;
    for (int g = 0; g < in_->limits.groups; ++g) {
      free_[size_t(g)] -= blocks;
      reserved[size_t(g)] += window_cap(in_->limits, g, rest, 0);
    }
    budget_ -= n;
    if (s.all_rows) rows_ -= n;
    out.admit.push_back(s.ref);
    out.work.push_back({s.ref, n});
    prefill_planned_ = true;
    ++active;
  }
}

void Planner::plan(const Input& in, StepPlan& out) {
  in_ = &in;
  out.clear();
  state_.assign(in.running.size(), {});
  free_ = in.available;
  budget_ = in.limits.token_budget;
  rows_ = in.limits.max_logit_rows;
  preempted_any_ = prefill_planned_ = false;

  const auto decoding = [&](size_t i) { return sched::decoding(in.running[i]); };
  if (in.force_preempt)
    for (size_t i = in.running.size(); i-- > 0;)
      if (decoding(i) && !in.running[i].fresh) {
        preempt(i);
        break;
      }
  for (size_t i = 0; i < in.running.size(); ++i)
    if (decoding(i) && !state_[i].preempted && budget_ > 0) decode(i);
  for (size_t i = 0; i < in.running.size(); ++i)
    if (!in.hold_prefill && !decoding(i) && !state_[i].preempted) continue_prefill(i);

  for (const bool decodes : {true, false})
    for (size_t i = 0; i < in.running.size(); ++i)
      if (state_[i].tokens > 0 && decoding(i) == decodes) out.work.push_back({in.running[i].ref, state_[i].tokens});
  for (size_t i = in.running.size(); i-- > 0;)
    if (state_[i].preempted) out.preempt.push_back(in.running[i].ref);
  if (!preempted_any_ && !in.hold_prefill) admit(out);
}

}  // namespace isotope::sched
