#include "engine/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "base/log.h"
#include "engine/clock.h"
#include "kv/state_check.h"

namespace isotope::engine {

namespace {

static_assert(int(CacheReason::no_checkpoint) == int(kv::Miss::Cause::no_checkpoint) && int(CacheReason::window) == int(kv::Miss::Cause::window) && int(CacheReason::salt) == int(kv::Miss::Cause::salt));

constexpr int64_t kPromptLogitBytes = 64 << 20;  ///< prompt logits held at once, whatever the prompt's length

Sequence& sequence(sched::Entry& e) {
  return static_cast<Sequence&>(e);
}
const Sequence& sequence(const sched::Entry& e) {
  return static_cast<const Sequence&>(e);
}

/// For people: why a request's cached part ends where it ends.
std::string_view why_not_more(kv::Miss::Cause c) {
  constexpr std::string_view kWhy[] = {"",
                                       "nothing cached begins like it",
                                       "there it differs from what is cached",
                                       "there its salt begins, under which nothing is cached",
                                       "nothing is cached under its adapter",
                                       "the next block was given up to make room",
                                       "only whole blocks are kept, and the last token is always computed",
                                       "a sliding-window layer no longer has the last window before more",
                                       "cached blocks go further, but no state of the recurrent layers is stored there"};
  return kWhy[size_t(c)];
}

std::string_view ending(FinishReason r) {
  constexpr std::string_view kNames[] = {"", "stop", "length", "abort", "error"};
  return kNames[size_t(r)];
}

sched::Limits limits_of(const EngineOptions& o, const kv::Manager& kv, int64_t max_logit_rows) {
  sched::Limits l{.token_budget = o.max_num_batched_tokens,
                  .max_seqs = o.max_num_seqs,
                  .long_prefill = o.long_prefill_token_threshold,
                  .max_logit_rows = max_logit_rows,
                  .chunked = o.chunked_prefill,
                  .block_size = o.block_size,
                  .groups = kv.paged_groups()};
  for (int g = 0; g < kv.paged_groups(); ++g) l.window[size_t(g)] = kv.window(g);
  return l;
}

kv::CheckpointOptions checkpoints_of(const Parts& p, const kv::Manager& kv) {
  return kv.has_states() && p.options.prefix_caching ? p.checkpoints : kv::CheckpointOptions{.interval = 0};
}

kv::ManagerOptions with_states(kv::ManagerOptions o, Runner& runner) {
  o.copy_state = [&runner](int group, int32_t from, int32_t to) { runner.copy_state(group, from, to); };
  o.clear_block = [&runner](int group, int32_t block) { runner.clear_block(group, block); };
  return o;
}

}  // namespace

Core::Core(Parts& p, Board& board, Journals& journals, Metrics& metrics, std::atomic<int64_t>& queued)
    : options_(p.options),
      runner_(*p.runner),
      events_(p.events.get()),
      board_(board),
      journals_(journals),
      metrics_(metrics),
      queued_(queued),
      max_logit_rows_(std::max<int64_t>(1, kPromptLogitBytes / int64_t(sizeof(float)) / p.info.vocab)),
      check_every_step_(p.check_every_step),
      planned_(p.planned),
      kv_(p.options.block_size, p.groups, p.options.prefix_caching, with_states(p.kv_options, runner_)),
      checkpoints_(checkpoints_of(p, kv_)),
      sched_({.limits = limits_of(options_, kv_, max_logit_rows_),
              .delayer = p.delayer,
              .lockstep_group = p.group != nullptr,
              .fair_share = options_.fair_share,
              .wait_passes = checkpoints_.enabled() ? p.delayer.ttft_max_ticks : 0},
             *this),
      group_(p.group),
      seat_(p.seat),
      builder_(kv_, p.options.max_num_batched_tokens + p.options.max_num_seqs, p.options.max_num_seqs, runner_.lookback()) {
  if (p.housekeeping.device_timer) timer_.emplace();
  if (group_) {  // a prompt that may not be cut cannot give tokens back
    sched::BalanceOptions balancing = p.balancing;
    balancing.block_size = options_.block_size;
    lockstep_.emplace(sched::LockstepOptions{
        .delayer = p.delayer, .budget = options_.max_num_batched_tokens, .balancing = balancing, .balance = options_.chunked_prefill});
  }
  workers_.reserve(size_t(runner_.workers()));
  for (int i = 0; i < runner_.workers(); ++i) workers_.emplace_back(p.info.vocab);
  outbox_.reserve(size_t(options_.max_num_seqs));
  publish();
}

void Core::add(std::unique_ptr<Sequence>& s, base::HashChain* chain) {
  const size_t room = alive_.size() + 1;  // whatever may fail for want of memory fails here, and leaves s with the caller
  if (outbox_.capacity() < room) outbox_.reserve(2 * room);
  kv_.hash_prompt(s->kv, s->tokens, chain);
  const auto slot = alive_.try_emplace(s->request.id).first;
  try {
    sched_.add(*s);
  } catch (...) {
    alive_.erase(slot);
    throw;
  }
  if (group_) meter_.arrival(s->submitted_ns);
  slot->second = std::move(s);
}

void Core::end(uint64_t id, FinishReason reason, std::optional<Error> error) {
  const auto it = alive_.find(id);
  if (it == alive_.end() || it->second->stage == Stage::finished) return;
  retire(*it->second, reason == FinishReason::none ? FinishReason::abort : reason, std::move(error));
}

void Core::end_all(FinishReason reason, const Error& error) {
  for (const auto* list : {&sched_.running(), &sched_.waiting()})
    while (!list->empty()) retire(sequence(**list->rbegin()), reason, error);
}

void Core::forget_prefixes() {
  kv_.forget_prefixes();
  publish_events();
}

// ---- planning -----------------------------------------------------------------------------------------------------------------

sched::SeqState Core::running_state(const sched::Entry& e) const {
  const Sequence& s = sequence(e);
  return {.computed = s.computed,
          .known = s.known(),
          .blocks = s.kv.ready(),
          .all_rows = s.prompt_rows < s.prompt_rows_end(),
          .fresh = s.fresh};
}

kv::Counts Core::held(const sched::Entry& e) const {
  return kv_.held(sequence(e).kv);
}

sched::SeqState Core::waiting_state(sched::Entry& e) {
  Sequence& s = sequence(e);
  const kv::Hit hit = kv_.probe(s.kv, s.tokens, s.hit_limit());
  const int64_t computed = hit.blocks * kv_.block_size() - hit.again;
  return {.computed = computed,
          .known = s.known(),
          .blocks = hit.again ? computed / kv_.block_size() : hit.blocks,
          .held = hit.evictable,
          .all_rows = s.prompt_rows < s.prompt_rows_end(),
          .promised = promised(s)};
}

int64_t Core::promised(const Sequence& s) const {
  if (!checkpoints_.enabled() || !s.kv.cacheable) return 0;
  int64_t most = 0;
  for (const sched::Entry* e : sched_.running()) {
    const Sequence& r = sequence(*e);
    if (r.computed >= r.checkpoints.prompt || !kv_.feeds(r.kv)) continue;
    // Links are chained: where two are the same, so are all before them.
    const auto &a = s.kv.links, &b = r.kv.links;
    int64_t same = 0, differs = int64_t(std::min(a.size(), b.size())) + 1;
    while (differs - same > 1) {
      const int64_t mid = (same + differs) / 2;
      (a[size_t(mid) - 1] == b[size_t(mid) - 1] ? same : differs) = mid;
    }
    const int64_t shared = std::min(same * kv_.block_size(), s.hit_limit() / kv_.block_size() * kv_.block_size());
    most = std::max(most, r.checkpoints.last_within(checkpoints_, r.computed, shared));
  }
  return most;
}

void Core::refuse_overdue() {
  while (sched::Entry* e = sched_.overdue(now_ns_)) {
    Sequence& s = sequence(*e);
    metrics_.rejected("deadline");
    retire(s, FinishReason::error,
           Error{Code::unavailable,
                 fmt::format("the request has waited {:.0f} ms and was not started in time", seconds_between(s.submitted_ns, now_ns_) * 1e3),
                 s.request.deadline_ms > 0 ? "request field 'deadline_ms'" : "--queue-timeout-ms", "retry later, or allow more time"});
  }
}

bool Core::forced_preemption() const {
  return options_.preempt_every > 0 && (stats_.steps + 1) % options_.preempt_every == 0;
}

sched::Pass Core::pass() const {
  sched::Pass pass{.available = kv_.available(), .now_ns = now_ns_};
  for (int g = 0; g < kv_.paged_groups(); ++g) pass.total[size_t(g)] = kv_.pool(g).total();
  pass.force_preempt = forced_preemption();
  return pass;
}

void Core::make_plan() {
  if (group_) return plan_together();
  plan_ = &sched_.plan(pass());
  report_delayer(sched_.delayer(), sched_.last_exit(), sched_.last_signals());
}

/// Whatever fails in between, the other ranks get the messages that they wait for.
void Core::plan_together() {
  struct Second {
    StepGroup* group;  ///< null: nobody waits
    int seat;
    ~Second() {
      if (group) group->costs(seat, 0);
    }
  };
  const auto reports = group_->reports(seat_, {.work = !idle(), .signals = sched_.observe(pass()), .times = meter_.times(now_ns_)});
  now_ns_ = now_ns();  // others may have had a long step
  kv_.set_time(now_ns_);
  held_ = lockstep_->hold(reports);
  const bool balances = lockstep_->balances() && !held_;
  Second second{balances ? group_ : nullptr, seat_};
  if (seat_ == 0) report_delayer(lockstep_->delayer(), lockstep_->last_exit(), lockstep_->last_signals());
  plan_ = &sched_.plan(held_);
  if (!balances) return;
  second.group = nullptr;
  even_out();
}

void Core::even_out() {
  auto chunks = sched_.prefill_chunks();
  const auto costs = group_->costs(seat_, lockstep_->cost(chunks));
  if (seat_ == 0) metrics_.imbalance(sched::imbalance(costs));
  const auto before = chunks;
  const int64_t taken = lockstep_->even_out(chunks, costs);
  if (taken == 0) return;
  metrics_.gave_back(taken);
  sched_.set_prefill(chunks);
  for (size_t i = 0; i < chunks.size(); ++i)
    if (chunks[i].tokens < before[i].tokens) shortened_.push_back(chunks[i].ref);
}

/// In a group the first rank speaks for all: the verdict is one.
void Core::report_delayer(const sched::Delayer* d, std::optional<sched::Exit> exit, const sched::Signals& signals) {
  if (!exit) return;
  metrics_.delayer(*exit);
  if (d->settings().debug) base::log(base::LogLevel::info, "{}", d->debug_line(signals, *exit));
  if (d->summary_due()) base::log(base::LogLevel::info, "{}", d->summary());
}

void Core::apply_preemptions() {
  for (const int32_t ref : plan_->preempt) {
    Sequence& s = sequence(sched_.at(ref));
    sched_.preempt(s);
    s.note({.kind = Decision::Kind::preempted,
            .step = stats_.steps + 1,
            .tokens = s.computed,
            .reason = forced_preemption() ? "forced by --preempt-every" : "another request lacked a block"},
           now_ns_);
    kv_.release(s.kv);
    s.computed = 0;
    s.timed_chunks = 0;
    if (timer_) timer_->discard(s.request.id);
    s.stage = Stage::waiting;
    ++s.stats.preemptions;
    ++counts_.preempted;
    ++stats_.preemptions;
  }
}

void Core::admit(Sequence& s) {
  sched_.admit(s);
  s.stage = Stage::running;
  s.fresh = true;
  const int64_t looked_up = s.known();
  const int64_t hit = kv_.claim(s.kv, s.tokens, s.hit_limit() / kv_.block_size()) * kv_.block_size();
  s.computed = s.kv.start;
  counts_.replays += s.computed < hit;
  counts_.replayed_tokens += hit - s.computed;
  const bool queried = options_.prefix_caching && s.kv.cacheable;
  if (queried) {
    stats_.prefix_queries += looked_up;
    stats_.prefix_hits += s.computed;
  }
  if (checkpoints_.enabled() && s.kv.cacheable) {
    s.checkpoints = kv::plan_checkpoints(checkpoints_, kv_.block_size(), s.known(), s.computed, s.kv.reachable * kv_.block_size());
    counts_.states_demanded += s.checkpoints.demand > 0;
  }
  metrics_.admitted(s, s.computed, queried);
  if (sched_.holds() > s.holds_before && !s.admitted_ns)
    s.note({.kind = Decision::Kind::held, .step = stats_.steps + 1, .tokens = sched_.holds() - s.holds_before, .reason = "by the prefill delayer"}, now_ns_);
  if (s.waits && !s.admitted_ns)
    s.note({.kind = Decision::Kind::awaited, .step = stats_.steps + 1, .tokens = s.waits, .reason = "a running request was about to store a state of its prefix"}, now_ns_);
  s.note({.kind = Decision::Kind::admitted,
          .step = stats_.steps + 1,
          .tokens = s.computed,
          .position = looked_up,
          .reason = s.computed < hit ? "more was found; its last windows are computed once more" : queried ? why_not_more(s.kv.miss.cause) : "the prefix cache is off"},
         now_ns_);
  if (s.admitted_ns) return;
  s.admitted_ns = now_ns_;
  s.stats.queue_s = seconds_between(s.submitted_ns, now_ns_);
  s.stats.cached_tokens = s.computed;
  s.stats.cache_reason = CacheReason(s.kv.miss.cause);
  s.stats.cache_position = s.kv.miss.position;
  s.stats.replayed_tokens = hit - s.computed;
  s.stats.checkpoint_waits = int(s.waits);
  s.stats.delayer_holds = int(sched_.holds() - s.holds_before);
  queued_.fetch_sub(1, std::memory_order_relaxed);
  ++counts_.started;
}

/// All hits are claimed before anybody grows, so that growth never evicts a block that a hit counts on.
void Core::gather_work() {
  for (const int32_t ref : plan_->admit) admit(sequence(sched_.at(ref)));
  work_.clear();
  for (const auto& [ref, tokens] : plan_->work) {
    Sequence& s = sequence(sched_.at(ref));
    int64_t n = std::min(tokens, s.known() - s.computed);
    const int64_t stop = checkpoints_.midstep ? 0 : s.checkpoints.next(checkpoints_, s.computed);
    if (stop > 0 && stop < s.computed + n) {
      n = stop - s.computed;
      ++counts_.states_cut;
    }
    if (n <= 0 || !kv_.grow(s.kv, s.computed + n)) continue;
    if (checkpoints_.midstep) reserve_states(s, s.computed + n);
    s.shortened = std::binary_search(shortened_.begin(), shortened_.end(), ref);
    work_.push_back({&s, n});
    counts_.prefill |= s.fresh;
  }
  sched_.executed(counts_.prefill);
}

/// The last first: where slots are short, what covers most is stored.
void Core::reserve_states(Sequence& s, int64_t end) {
  const auto places = s.checkpoints.between(checkpoints_, s.computed, end);
  for (size_t i = places.size(); i-- > 0;) counts_.states_dropped += !kv_.reserve_image(s.kv, places[i]);
}

bool Core::check_states() {
  for (const WorkItem& w : work_) {
    if (planned_) planned_(w.seq->request.id, kv_, w.seq->kv);
    if (!checkpoints_.check) continue;
    const int64_t held = kv::state_blocks(w.seq->kv, w.seq->computed, w.seq->computed + w.tokens);
    counts_.most_states = std::max(counts_.most_states, held);
    if (held <= kv::kMostStateBlocks) continue;
    fail_work({Code::internal, fmt::format("request {} holds {} blocks of KV group {} (recurrent states), where {} are the most", w.seq->request.id, held,
                                           kv_.groups() - 1, kv::kMostStateBlocks),
               "ATOM_STATE_CHECKPOINT_CHECK_BLOCKS", "report this as a defect"});
    return false;
  }
  return true;
}

/// Nothing could be planned although somebody waits. Sizing rules it out; if it happens all the same, one request fails and the
/// rest go on.
void Core::unstick() {
  if (idle() || ++empty_steps_ < 3) return;
  empty_steps_ = 0;
  sched::Entry* e = !sched_.running().empty() ? *sched_.running().rbegin() : !sched_.waiting().empty() ? *sched_.waiting().begin() : nullptr;
  if (!e) return;
  Sequence* const s = &sequence(*e);
  base::log(base::LogLevel::error, "request {}: no KV blocks can be found for it", s->request.id);
  retire(*s, FinishReason::error,
         Error{Code::resource_exhausted, fmt::format("the KV cache cannot hold this sequence of {} tokens", s->known()),
               "KV cache", "raise --kv-cache-memory-bytes or lower --max-model-len"});
}

// ---- one step -----------------------------------------------------------------------------------------------------------------

void Core::step() {
  now_ns_ = now_ns();
  kv_.set_time(now_ns_);
  counts_ = {};
  held_ = false;
  shortened_.clear();
  refuse_overdue();
  make_plan();
  apply_preemptions();
  gather_work();
  starts_.pass(now_ns_, counts_.started, !sched_.waiting().empty());
  starts_per_s_.store(starts_.per_s(), std::memory_order_relaxed);
  ++stats_.steps;
  if (work_.empty()) {
    if (plan_->preempt.empty() && !held_) unstick();
  } else {
    empty_steps_ = 0;
    const int64_t start = now_ns_;
    if (check_states() && run_model()) {
      read_rows();
      now_ns_ = now_ns();
      if (group_) meter_.step(counts_.prefill, now_ns_ - start);
      for (const WorkItem& w : work_) commit(w);
    }
  }
  if (check_every_step_) check_integrity();
  publish();
}

Result<tensor::Tensor> Core::timed_forward() {
  const ops::Batch& batch = builder_.build(work_);
  std::vector<DeviceTimer::Chunk> chunks;
  for (const auto& [s, tokens] : work_)
    if (s->computed < s->prompt_tokens)
      chunks.push_back({.request = s->request.id, .number = ++s->timed_chunks, .last = s->computed + tokens >= s->prompt_tokens});
  timer_->begin(now_ns(), std::move(chunks));
  auto logits = runner_.forward(batch);
  logits ? timer_->end(now_ns()) : timer_->fail();
  timer_->poll({.forward = [this](double s) { metrics_.forward_time(s); }, .prefill = [this](double s) { metrics_.prompt_forward_time(s); }});
  return logits;
}

bool Core::run_model() {
  try {
    auto logits = timer_ ? timed_forward() : runner_.forward(builder_.build(work_));
    if (logits) {
      logits_ = *logits;
      return true;
    }
    fail_work(logits.error());
  } catch (const std::exception& e) {
    fail_work({Code::internal, fmt::format("the forward pass failed: {}", e.what()), "engine", "report this as a defect"});
  }
  return false;
}

void Core::fail_work(const Error& error) {
  base::log(base::LogLevel::error, "step {}: {}", stats_.steps, error.message());
  for (const WorkItem& w : work_) retire(*w.seq, FinishReason::error, error);
}

void Core::read_rows() {
  // A mask belongs to one row, so masks are made beside each other.
  runner_.parallel(int64_t(builder_.logit_rows().size()), [this](int64_t i, int worker) { read_row(size_t(i), worker); });
}

void Core::read_row(size_t index, int worker) {
  const LogitRow& r = builder_.logit_rows()[index];
  Sequence& s = *r.seq;
  try {
    const std::span<const float> logits(logits_.row(int64_t(index)), size_t(logits_.cols));
    if (!r.sample) return score_prompt(r, logits, worker);
    Worker& w = workers_[size_t(worker)];
    s.outcome.token = w.sampler.choose(s.row(logits));
    s.outcome.has_logprob = s.sampling().logprobs >= 0 && s.outcome.token >= 0;
    if (s.outcome.has_logprob)
      s.outcome.logprob = sample::logprobs_of(logits, s.outcome.token, s.sampling().logprobs, s.outcome.top[0], w.scratch);
  } catch (const std::exception& e) {
    s.outcome.error = Error{Code::internal, fmt::format("sampling failed: {}", e.what()), "engine", "report this as a defect"};
  }
}

void Core::score_prompt(const LogitRow& r, std::span<const float> logits, int worker) {
  Worker& w = workers_[size_t(worker)];
  Sequence& s = *r.seq;
  const size_t at = size_t(r.position) + 1;
  auto& out = s.prompt_logprobs[at];
  out.clear();
  const TokenLogprob own = sample::logprobs_of(logits, s.tokens[at], s.sampling().prompt_logprobs, w.top, w.scratch);
  out.push_back(own);
  out.insert(out.end(), w.top.begin(), w.top.end());
}

void Core::commit(const WorkItem& w) {
  Sequence& s = *w.seq;
  if (s.computed < s.prompt_tokens) ++s.stats.chunks;
  if (s.computed < s.prompt_tokens || w.tokens > 1)  // else a decoded token
    s.note({.kind = Decision::Kind::chunk,
            .step = stats_.steps,
            .tokens = w.tokens,
            .position = s.computed,
            .reason = s.shortened ? "shortened to even out the ranks" : ""},
           now_ns_);
  s.computed += w.tokens;
  counts_.tokens += w.tokens;
  s.prompt_rows = std::max(s.prompt_rows, std::min(s.computed, s.prompt_rows_end()));
  kv_.commit(s.kv, s.tokens, s.computed);
  publish_states(s);
  keep_state(s);
  if (s.computed >= s.prompt_tokens && !s.prompt_counted) {
    s.prompt_counted = true;
    stats_.prompt_tokens += s.prompt_tokens;
    metrics_.prompt_done(s);
  }
  if (s.outcome.error) return retire(s, FinishReason::error, std::move(s.outcome.error));
  if (s.computed < s.known()) return;
  if (s.max_output == 0) return retire(s, FinishReason::length);
  take_token(s);
}

void Core::keep_state(Sequence& s) {
  if (!s.checkpoints.wanted(checkpoints_, kv_.block_size(), s.computed)) return;
  const bool kept = kv_.checkpoint(s.kv, s.tokens, s.computed);
  ++(kept ? counts_.states_kept : counts_.states_dropped);
  if (kept) stored(s, s.computed, "");
}

void Core::publish_states(Sequence& s) {
  if (s.kv.images.empty()) return;
  for (const kv::StateImage& i : s.kv.images) stored(s, i.position, "in the middle of the step");
  const int64_t kept = kv_.publish_images(s.kv, s.tokens);
  counts_.states_kept += kept;
  counts_.states_midstep += kept;
}

void Core::stored(Sequence& s, int64_t tokens, std::string_view how) {
  s.checkpoints.last = tokens;
  s.note({.kind = Decision::Kind::stored, .step = stats_.steps, .tokens = tokens, .reason = how}, now_ns_);
}

void Core::first_or_next_token(Sequence& s) {
  metrics_.token(s, now_ns_, s.last_token_ns);
  if (!s.first_token_ns) {
    s.first_token_ns = now_ns_;
    s.stats.prefill_s = seconds_between(s.admitted_ns, now_ns_);
    s.stats.ttft_s = seconds_between(s.submitted_ns, now_ns_);
    s.note({.kind = Decision::Kind::first_token, .step = stats_.steps}, now_ns_);
  }
  s.last_token_ns = now_ns_;
  s.stats.decode_s = seconds_between(s.first_token_ns, now_ns_);
  ++s.stats.output_tokens;
  ++stats_.generation_tokens;
  if (s.outcome.has_logprob) s.stats.cumulative_logprob += double(s.outcome.logprob.logprob);
}

void Core::take_token(Sequence& s) {
  const int32_t token = s.outcome.token;
  s.fresh = false;
  if (token < 0 && s.request.mask && !s.request.mask->problem().empty())
    return retire(s, FinishReason::error,
                  Error{Code::invalid_argument, std::string(s.request.mask->problem()), "grammar", "make the grammar simpler"});
  if (token < 0)
    return retire(s, FinishReason::error,
                  Error{Code::invalid_argument, fmt::format("no token is allowed at output position {}", s.output_tokens()),
                        "allowed_token_ids, bad_words, min_tokens and the grammar together", "relax one of them"});
  first_or_next_token(s);
  if (std::binary_search(s.end_tokens.begin(), s.end_tokens.end(), token)) {
    s.outcome.token = -1;
    s.outcome.stop_token = token;
    return retire(s, FinishReason::stop);
  }
  s.tokens.push_back(token);
  if (sample::wants_counts(s.sampling())) s.counts.add_output(token);
  if (TokenMask* mask = s.request.mask.get()) {
    if (!mask->accept(token))
      return retire(s, FinishReason::error,
                    Error{Code::internal, fmt::format("the grammar refused token {} that it had allowed", token), "grammar",
                          "report this as a defect"});
    if (mask->finished()) return retire(s, FinishReason::stop);
  }
  if (s.output_tokens() >= s.max_output) return retire(s, FinishReason::length);
  tell(s);
}

// ---- endings and reports
// --------------------------------------------------------------------------------------------------------

void Core::retire(Sequence& s, FinishReason reason, std::optional<Error> error) {
  sched_.remove(s, s.admitted_ns ? s.known() : 0, reason == FinishReason::stop || reason == FinishReason::length);
  kv_.release(s.kv);
  s.stage = Stage::finished;
  if (timer_) timer_->discard(s.request.id);
  s.outcome.finish = reason;
  s.outcome.error = std::move(error);
  if (!s.admitted_ns) queued_.fetch_sub(1, std::memory_order_relaxed);
  const int64_t now = now_ns();
  s.tracked.retire();
  metrics_.finished(s, reason, now);
  s.note({.kind = Decision::Kind::finished, .step = stats_.steps, .tokens = s.stats.output_tokens, .reason = ending(reason)}, now);
  stale_ = true;
  tell(s);
}

void Core::tell(Sequence& s) {
  if (s.reporting) return;
  s.reporting = true;
  outbox_.push_back(&s);
}

void Core::publish() {
  const kv::BlockPool& pool = kv_.pool(0);
  stats_.running = int64_t(sched_.running().size());
  stats_.waiting = int64_t(sched_.waiting().size());
  stats_.blocks_total = pool.total();
  stats_.blocks_free = pool.free();
  stats_.blocks_evictable = pool.evictable();
  const auto partial =
      std::count_if(sched_.running().begin(), sched_.running().end(),
                    [](const sched::Entry* e) { return sequence(*e).computed < sequence(*e).prompt_tokens; });
  metrics_.step(counts_, stats_, partial);
  metrics_.prefix_cache(kv_.counters());
  metrics_.waits(sched_.waits());
  if (const auto tables = runner_.engram_stats()) metrics_.tables(*tables);
  publish_events();
  counts_ = {};
  stale_ = false;
  board_.publish(stats_);
  board_.progress();
}

/// Before any answer of the step is delivered, so that a router never hears of a request before it hears of its blocks.
void Core::publish_events() {
  if (!events_) return;
  if (auto list = kv_.take_events(); !list.empty()) events_->publish(std::move(list));
  metrics_.kv_events(events_->stats());
}

void Core::deliver() {
  if (stale_) publish();  // whoever sees a final event also sees its blocks back
  for (size_t i = 0; i < outbox_.size(); ++i) deliver_one(*outbox_[i]);
  outbox_.clear();
}

void Core::deliver_one(Sequence& s) {
  const Outcome& o = s.outcome;
  TokenEvent e{.id = s.request.id, .finish = o.finish, .stop_token = o.stop_token, .error = o.error};
  if (o.token >= 0 && !o.error) e.tokens = {&o.token, 1};
  if (o.has_logprob) {
    e.logprobs = {&o.logprob, 1};
    e.top_logprobs = o.top;
  }
  if (s.wants_prompt_logprobs() && !s.prompt_reported && s.prompt_counted) {
    s.prompt_reported = true;
    e.prompt_logprobs = s.prompt_logprobs;
  }
  const bool last = o.finish != FinishReason::none;
  if (last) {
    board_.close(s.request.id, s.stats);
    if (s.journal) s.journal->close(o.finish, s.stats);
    journals_.close(s.request.id);
  } else
    board_.update(s.request.id, s.stats);
  bool failed = false;
  try {
    s.request.sink(e);
  } catch (const std::exception& x) {
    failed = true;
    base::log(base::LogLevel::error, "request {}: its sink threw: {}", s.request.id, x.what());
  } catch (...) {
    failed = true;
    base::log(base::LogLevel::error, "request {}: its sink threw", s.request.id);
  }
  s.reporting = false;
  s.outcome.token = s.outcome.stop_token = -1;
  s.outcome.has_logprob = false;
  if (last) {
    alive_.erase(s.request.id);
  } else if (failed) {  // nobody listens any more
    s.request.sink = [](const TokenEvent&) {};
    retire(s, FinishReason::abort);
  }
}

void Core::check_integrity() {
  std::vector<const kv::SeqBlocks*> all;
  for (const auto& [id, s] : alive_) all.push_back(&s->kv);
  if (const char* wrong = kv_.check_integrity(all)) {
    metrics_.integrity_error();
    base::log(base::LogLevel::error, "KV bookkeeping is inconsistent: {}", wrong);
  }
}

}  // namespace isotope::engine
