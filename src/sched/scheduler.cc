#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "sched/pending.h"

namespace isotope::sched {

namespace {
constexpr int64_t kLookPast = 16;  ///< requests behind one that waits for a state that a pass looks at
}

Scheduler::Scheduler(const SchedulerOptions& o, Owner& owner) : owner_(owner), group_(o.lockstep_group), share_(o.fair_share), wait_passes_(o.wait_passes) {
  input_.limits = o.limits;
  if (delayer_active(o.delayer, o.lockstep_group)) delayer_.emplace(o.delayer, o.limits.token_budget);
  next_waiting_ = waiting_.end();
}

// ---- requests come and go ---------------------------------------------------------------------------------------------------------

void Scheduler::add(Entry& e) {
  // A pass looks at no more than max_seqs requests; what it needs for them is there before it begins.
  const size_t n = std::min(running_.size() + waiting_.size() + 1, size_t(input_.limits.max_seqs));
  if (by_ref_.capacity() < n) {
    by_ref_.reserve(2 * n);
    running_states_.reserve(2 * n);
    waiting_states_.reserve(2 * n);
  }
  e.charged = share_.expected_cost(e.prompt_size, e.output_limit);
  e.place = {e.priority, share_.arrive(e.priority, e.share_key, e.charged), arrivals_};
  try {
    if (e.start_by_ns != INT64_MAX) deadlines_.insert({e.start_by_ns, &e});
    waiting_.insert(&e);
  } catch (...) {
    deadlines_.erase({e.start_by_ns, &e});
    share_.finished(e.priority, e.share_key, e.charged, 0);
    throw;
  }
  ++arrivals_;
  e.queued = true;
  e.started = false;
  e.holds_before = holds_;
  e.waits = 0;
  e.first_wait = e.wait_computed = -1;
}

void Scheduler::remove(Entry& e, int64_t used, bool own_end) {
  (e.queued ? waiting_ : running_).erase(&e);
  if (!e.started && e.start_by_ns != INT64_MAX) deadlines_.erase({e.start_by_ns, &e});
  e.queued = false;
  share_.finished(e.priority, e.share_key, e.charged, used);
  if (own_end) share_.observe_output(used - e.prompt_size);
}

void Scheduler::admit(Entry& e) {
  running_.insert(waiting_.extract(&e));
  e.queued = false;
  if (!e.started && e.start_by_ns != INT64_MAX) deadlines_.erase({e.start_by_ns, &e});
  e.started = true;
  share_.admitted(e.priority, e.place.share);
}

void Scheduler::preempt(Entry& e) {
  waiting_.insert(running_.extract(&e));
  e.queued = true;
}

Entry* Scheduler::overdue(int64_t now_ns) {
  return !deadlines_.empty() && deadlines_.begin()->first <= now_ns ? deadlines_.begin()->second : nullptr;
}

// ---- a pass -----------------------------------------------------------------------------------------------------------------------

/// Whether this step might lack blocks; only then is it worth counting what preemption would free.
bool Scheduler::tight() const {
  const Limits& l = input_.limits;
  int64_t need = 0;
  for (const SeqState& s : running_states_) need += (s.known + l.block_size - 1) / l.block_size - s.blocks;
  for (int g = 0; g < l.groups; ++g)
    if (input_.available[size_t(g)] < need) return true;
  return false;
}

void Scheduler::collect_running() {
  by_ref_.clear();
  running_states_.clear();
  for (Entry* e : running_) {
    running_states_.push_back(owner_.running_state(*e));
    running_states_.back().ref = int32_t(by_ref_.size());
    by_ref_.push_back(e);
  }
  if (!input_.force_preempt && !tight()) return;
  for (size_t i = 0; i < running_states_.size(); ++i) running_states_[i].held = owner_.held(*by_ref_[i]);
}

/// Whether a request is better off when it lets this pass go by: the one that computes its prefix is about to store a state, from which it can go on.
bool Scheduler::waits_for_state(Entry& e, const SeqState& s) {
  if (wait_passes_ <= 0) return false;
  const bool worth = s.promised - s.computed >= input_.limits.token_budget;
  const bool expired = e.first_wait >= 0 && passes_ - e.first_wait >= wait_passes_;
  if (worth && !expired) {
    if (e.wait_computed < 0) {
      ++wait_counts_.started;
      e.wait_computed = s.computed;
      if (e.first_wait < 0) e.first_wait = passes_;
    }
    ++e.waits;
    return true;
  }
  if (e.wait_computed < 0) return false;
  const int64_t more = s.computed - std::exchange(e.wait_computed, -1);
  ++(worth ? wait_counts_.expired : more > 0 ? wait_counts_.satisfied : wait_counts_.ended);
  if (!worth) wait_counts_.tokens += std::max<int64_t>(0, more);
  return false;
}

/// The i-th waiting request as planning sees it, looked up on demand; null at the end of the queue.
const SeqState* Scheduler::probe(size_t i) {
  while (waiting_states_.size() <= i) {
    if (next_waiting_ == waiting_.end()) return nullptr;
    if (passed_over_ && ++looked_past_ > kLookPast) {
      next_waiting_ = waiting_.end();
      return nullptr;
    }
    Entry* e = *next_waiting_++;
    const SeqState state = owner_.waiting_state(*e);
    if (waits_for_state(*e, state)) {
      passed_over_ = true;
      continue;
    }
    waiting_states_.push_back(state);
    waiting_states_.back().ref = int32_t(by_ref_.size());
    by_ref_.push_back(e);
  }
  return &waiting_states_[i];
}

/// Fresh requests are looked at until their prompts add up to one budget, whatever part of them is cached: a deep queue of hits must not cost a pass more.
void Scheduler::probe_for_delayer() {
  const Limits& l = input_.limits;
  int64_t seen = 0;
  for (size_t i = 0; seen < l.token_budget && running_.size() + i < size_t(l.max_seqs); ++i) {
    const SeqState* s = probe(i);
    if (!s) return;
    seen += s->known;
  }
}

/// Only as much of the queue's head as this step could admit.
void Scheduler::collect_waiting() {
  const Limits& l = input_.limits;
  int64_t budget = l.token_budget;
  for (size_t i = 0; budget > 0 && running_.size() + i < size_t(l.max_seqs); ++i) {
    const SeqState* s = probe(i);
    if (!s) return;
    budget -= s->known - s->computed;
  }
}

Signals Scheduler::observe(const Pass& pass) {
  input_.available = pass.available;
  input_.force_preempt = pass.force_preempt;
  now_ns_ = pass.now_ns;
  collect_running();
  waiting_states_.clear();
  next_waiting_ = waiting_.begin();
  ++passes_;
  passed_over_ = false;
  looked_past_ = 0;
  last_exit_.reset();
  signals_ = {};
  if (!delayer_) return signals_;

  const bool executed = std::exchange(prefilled_, false);
  signals_.executed = executed;
  signals_.decoding = std::count_if(running_states_.begin(), running_states_.end(), [](const SeqState& s) { return decoding(s); });
  const bool partial = signals_.decoding < int64_t(running_states_.size());
  if (!group_ && delayer_->protects(executed)) {
    signals_.able = partial || !waiting_.empty();
    signals_.partial = partial;
    return signals_;
  }
  probe_for_delayer();
  const PendingPrefill p = pending_prefill(running_states_, waiting_states_, input_.limits, input_.available);
  const auto& set = delayer_->settings();
  const double usage = kv_usage(pass.available, pass.total, input_.limits.groups);
  signals_.able = p.able;
  signals_.pending = p.tokens;
  signals_.held = p.requests;
  signals_.partial = p.partial;
  signals_.kv_high = p.able && usage >= set.kv_high;
  signals_.kv_low = p.able && set.kv_low && usage < *set.kv_low;
  if (set.max_queue_ms && p.able)
    for (const SeqState& s : waiting_states_)
      signals_.aged |= double(now_ns_ - by_ref_[size_t(s.ref)]->arrived_ns) >= *set.max_queue_ms * 1e6;
  return signals_;
}

const StepPlan& Scheduler::plan(bool hold) {
  input_.hold_prefill = hold;
  holds_ += hold;
  if (!hold) collect_waiting();
  input_.running = running_states_;
  input_.waiting = waiting_states_;
  planner_.plan(input_, plan_);
  return plan_;
}

/// Refs count what runs first, then the queue as far as it was looked at.
const SeqState& Scheduler::state(int32_t ref) const {
  const size_t i = size_t(ref), running = running_states_.size();
  return i < running ? running_states_[i] : waiting_states_[i - running];
}

std::vector<PrefillChunk> Scheduler::prefill_chunks() const {
  std::vector<PrefillChunk> out;
  for (const auto& [ref, tokens] : plan_.work) {
    const SeqState& s = state(ref);
    if (size_t(ref) >= running_states_.size() || !decoding(s)) out.push_back({.ref = ref, .tokens = tokens, .context = s.computed});
  }
  return out;
}

void Scheduler::set_prefill(const std::vector<PrefillChunk>& kept) {
  for (const PrefillChunk& c : prefill_chunks()) {
    const auto same = [&](const auto& x) { return x.ref == c.ref; };
    const auto work = std::find_if(plan_.work.begin(), plan_.work.end(), same);
    if (const auto k = std::find_if(kept.begin(), kept.end(), same); k != kept.end()) {
      work->tokens = k->tokens;
      continue;
    }
    plan_.work.erase(work);
    std::erase(plan_.admit, c.ref);
  }
}

const StepPlan& Scheduler::plan(const Pass& pass) {
  observe(pass);
  if (delayer_) last_exit_ = delayer_->decide(signals_);
  return plan(last_exit_ && !fires(*last_exit_));
}

}  // namespace isotope::sched
