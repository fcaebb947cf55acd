#include "sched/sim_rank.h"

#include <algorithm>
#include <array>

#include "sched/number_list.h"

namespace isotope::sched {

namespace {

constexpr int64_t kPatience = 100'000;  ///< passes in which a request may stand still before it counts as stuck

SimSeq& seq(Entry& e) {
  return static_cast<SimSeq&>(e);
}
const SimSeq& seq(const Entry& e) {
  return static_cast<const SimSeq&>(e);
}

int32_t id_of(uint64_t what, uint64_t block) {
  const std::array<uint64_t, 2> pair{what, block};
  return int32_t(base::xxh64(pair.data(), sizeof pair));
}

/// The identity of block b of a request: two requests with the same text up to there have the same ids up to there.
int32_t block_id(const SimSeq& s, int64_t b, int block_size) {
  const SimRequest& r = *s.request;
  const int64_t first = b * block_size, end = first + block_size;
  if (const size_t at = size_t(first / r.hash_block); at < r.hash_ids.size() && end <= r.prompt)
    return id_of(uint64_t(r.hash_ids[at]) + 1, uint64_t(first % r.hash_block));
  if (end <= r.prefix_tokens) return id_of(base::xxh64(r.prefix, 1), uint64_t(b));
  if (!r.session.empty()) return id_of(base::xxh64(r.session, 2), uint64_t(b));
  return id_of(s.index + 1000, uint64_t(b));
}

}  // namespace

Result<SimCost> parse_cost(std::string_view text) {
  SimCost c;
  const NamedNumber known[] = {{"step_us", &c.step_us, 0, 1e9},
                               {"prefill_step_us", &c.prefill_step_us, 0, 1e9},
                               {"token_us", &c.token_us, 0, 1e9},
                               {"context_ns", &c.context_ns, 0, 1e9},
                               {"pair_ns", &c.pair_ns, 0, 1e9}};
  ISO_CHECK_OK(parse_numbers(text, known, "--sim-cost"));
  return c;
}

SimRank::SimRank(const SimRankOptions& o)
    : block_size_(o.scheduler.limits.block_size),
      cost_(o.cost),
      kv_(1, std::array{kv::GroupConfig{.blocks = o.blocks}}, o.prefix_caching),
      sched_(o.scheduler, *this) {}

void SimRank::extend_ids(SimSeq& s, int64_t blocks) const {
  while (int64_t(s.ids.size()) < blocks) s.ids.push_back(block_id(s, int64_t(s.ids.size()), block_size_));
}

void SimRank::add(std::unique_ptr<SimSeq> s, int64_t now_ns) {
  const SimRequest& r = *s->request;
  s->priority = r.priority;
  s->share_key = r.key;
  s->prompt_size = r.prompt;
  s->output_limit = r.output;
  if (s->known == 0) s->known = r.prompt;
  s->fresh = true;
  s->progress = passes_;
  extend_ids(*s, s->known / block_size_);
  base::extend_chain(s->kv.links, s->ids, 1, {});
  meter_.arrival(now_ns);
  sched_.add(*s);
  seqs_[s->index] = std::move(s);
}

std::unique_ptr<SimSeq> SimRank::take(size_t index, bool own_end) {
  const auto it = seqs_.find(index);
  if (it == seqs_.end()) return nullptr;
  std::unique_ptr<SimSeq> s = std::move(it->second);
  seqs_.erase(it);
  sched_.remove(*s, s->started ? s->known : 0, own_end);
  kv_.release(s->kv);
  std::erase_if(work_, [&](const auto& w) { return w.first == s.get(); });
  return s;
}

std::vector<std::unique_ptr<SimSeq>> SimRank::take_all() {
  std::vector<size_t> all;
  for (const auto* list : {&sched_.running(), &sched_.waiting()})
    for (const Entry* e : *list) all.push_back(seq(*e).index);
  std::vector<std::unique_ptr<SimSeq>> out;
  for (const size_t i : all) {
    out.push_back(take(i, false));
    out.back()->computed = 0;
  }
  kv_.forget_prefixes();
  return out;
}

std::vector<std::unique_ptr<SimSeq>> SimRank::take_overdue(int64_t now_ns) {
  std::vector<std::unique_ptr<SimSeq>> out;
  while (Entry* e = sched_.overdue(now_ns)) out.push_back(take(seq(*e).index, false));
  return out;
}

// ---- what the scheduler asks --------------------------------------------------------------------------------------------------------

SeqState SimRank::running_state(const Entry& e) const {
  const SimSeq& s = seq(e);
  return {.computed = s.computed, .known = s.known, .blocks = s.kv.blocks(), .fresh = s.fresh};
}

kv::Counts SimRank::held(const Entry& e) const {
  return kv_.held(seq(e).kv);
}

SeqState SimRank::waiting_state(Entry& e) {
  SimSeq& s = seq(e);
  const kv::Hit hit = kv_.match(s.kv, s.ids, (s.known - 1) / block_size_);
  return {.computed = hit.blocks * block_size_, .known = s.known, .blocks = hit.blocks, .held = hit.evictable};
}

Pass SimRank::pass(int64_t now_ns) const {
  return {.available = kv_.available(), .total = {kv_.pool(0).total()}, .now_ns = now_ns, .force_preempt = force_preempt_};
}

Signals SimRank::observe(int64_t now_ns) {
  return sched_.observe(pass(now_ns));
}

void SimRank::plan(bool hold) {
  plan_ = &sched_.plan(hold);
}

void SimRank::plan(int64_t now_ns) {
  plan_ = &sched_.plan(pass(now_ns));
}

// ---- a step -------------------------------------------------------------------------------------------------------------------------

void SimRank::admit(SimSeq& s) {
  sched_.admit(s);
  s.fresh = true;
  const int64_t limit = (s.known - 1) / block_size_;
  s.computed = kv_.claim(s.kv, s.ids, kv_.match(s.kv, s.ids, limit).blocks) * block_size_;
  looked_up_ += s.known;
  hit_tokens_ += s.computed;
  if (s.made == 0 && s.preemptions == 0) s.cached = s.computed;
}

int64_t SimRank::begin() {
  force_preempt_ = false;
  for (const int32_t ref : plan_->preempt) {
    SimSeq& s = seq(sched_.at(ref));
    sched_.preempt(s);
    kv_.release(s.kv);
    s.computed = 0;
    ++s.preemptions;
    ++preemptions_;
  }
  for (const int32_t ref : plan_->admit) {
    SimSeq& s = seq(sched_.at(ref));
    if (s.place != (*sched_.waiting().begin())->place) broken_ = "a request was admitted before one that should go first";
    admit(s);
  }
  work_.clear();
  step_tokens_ = step_prefill_ = 0;
  double us = 0;
  for (const auto& w : plan_->work) {
    SimSeq& s = seq(sched_.at(w.ref));
    if (!kv_.grow(s.kv, blocks_for(s.computed + w.tokens))) {
      broken_ = "a plan asked for blocks that are not there";
      continue;
    }
    work_.emplace_back(&s, w.tokens);
    step_tokens_ += w.tokens;
    if (s.fresh) step_prefill_ += w.tokens;
    const double pairs = double(w.tokens) * (double(s.computed) + double(w.tokens) / 2);
    us += double(w.tokens) * cost_.token_us + pairs * (s.fresh ? cost_.pair_ns : cost_.context_ns) * 1e-3;
  }
  sched_.executed(step_prefill_ > 0);
  if (work_.empty()) return step_ns_ = 0;
  us += cost_.step_us + (step_prefill_ > 0 ? cost_.prefill_step_us : 0);
  return step_ns_ = std::max<int64_t>(1, int64_t(us * 1e3));
}

const std::vector<SimEvent>& SimRank::finish(int64_t now_ns) {
  events_.clear();
  ++passes_;
  for (const auto& [s, tokens] : work_) {
    s->progress = passes_;
    s->computed += tokens;
    extend_ids(*s, s->computed / block_size_);
    kv_.commit(s->kv, std::span(s->ids).first(size_t(s->computed / block_size_)), s->computed / block_size_);
    if (s->computed < s->known) continue;
    const bool first = s->made == 0;
    s->fresh = false;
    ++s->known;
    ++s->made;
    if (first) s->first_ns = now_ns;
    s->last_ns = now_ns;
    events_.push_back({s, first, s->made >= s->request->output});
  }
  if (step_ns_ > 0) meter_.step(step_prefill_ > 0, step_ns_);
  work_.clear();
  return events_;
}

const char* SimRank::check() {
  if (broken_) return broken_;
  const Limits& l = sched_.limits();
  if (l.chunked && step_tokens_ > l.token_budget) return "a step has more tokens than its budget";
  if (sched_.running().size() > size_t(l.max_seqs)) return "more sequences run than may";
  if (sched_.running().size() + sched_.waiting().size() != seqs_.size()) return "a request is neither waiting nor running";
  std::vector<const kv::SeqBlocks*> all;
  for (const auto& [id, s] : seqs_) {
    all.push_back(&s->kv);
    if (s->queued && s->kv.blocks() > 0) return "a waiting request holds blocks";
    if (s->computed >= s->known) return "a request has nothing left to compute and is still there";
    if (passes_ - s->progress > kPatience) return "a request is stuck";
  }
  return kv_.check_integrity(all);
}

}  // namespace isotope::sched
