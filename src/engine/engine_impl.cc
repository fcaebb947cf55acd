#include "engine/engine_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/hash.h"
#include "base/log.h"
#include "engine/clock.h"
#include "engine/events.h"
#include "engine/validate.h"

namespace isotope::engine {

namespace {

constexpr int64_t kLongestWaitMs = 1'000'000'000;  ///< eleven days; keeps the sum of times in range
constexpr int64_t kCheckEveryNs = 60'000'000'000;  ///< an idle engine recounts its blocks, but not after every request

uint64_t draw_seed() {
  std::random_device d;
  return (uint64_t(d()) << 32 | d()) >> 1;  // fits a signed integer of any client
}

/// What its blocks are hashed under. A salt that begins later than the prompt leaves the blocks before it to everybody.
void identify(Sequence& s, int block_size) {
  const Request& r = s.request;
  const auto salt = base::cache_seed({.salt = r.cache_salt});
  if (r.salt_from >= block_size) {
    s.kv.key.salt = salt;
    s.kv.key.salted_from = r.salt_from;
  } else {
    s.kv.key.seed = salt;
  }
  s.kv.labels.salt = r.cache_salt;
  s.kv.pin_blocks = r.pin_s > 0 ? std::min(r.pin_tokens, s.prompt_tokens) / block_size : 0;
  s.kv.pin_ns = int64_t(std::min(r.pin_s, 1e9) * 1e9);
}

std::unique_ptr<Sequence> make_sequence(Request r, const ModelInfo& info, const EngineOptions& options) {
  auto s = std::make_unique<Sequence>(std::move(r));
  const SamplingParams& p = s->sampling();
  s->submitted_ns = now_ns();
  s->max_output = p.max_tokens;
  s->tokens.reserve(size_t(s->prompt_tokens + s->max_output));
  s->seed = p.seed ? *p.seed : draw_seed();
  s->end_tokens = p.stop_token_ids;
  if (!p.ignore_eos) s->end_tokens.insert(s->end_tokens.end(), info.eos_ids.begin(), info.eos_ids.end());
  std::erase_if(s->end_tokens, [&](int32_t id) { return id < 0 || id >= info.vocab; });
  std::sort(s->end_tokens.begin(), s->end_tokens.end());
  if (sample::wants_counts(p))
    for (const int32_t t : s->tokens) s->counts.add_prompt(t);
  if (s->wants_prompt_logprobs()) s->prompt_logprobs.resize(size_t(s->prompt_tokens));
  s->kv.expected_blocks = (s->prompt_tokens + s->max_output) / options.block_size + 1;
  s->kv.cacheable = s->request.use_prefix_cache;
  identify(*s, options.block_size);
  s->priority = s->request.priority;
  s->share_key = s->request.share_key;
  s->prompt_size = s->prompt_tokens;
  s->output_limit = s->max_output;
  s->arrived_ns = s->submitted_ns;
  const int64_t patience = s->request.deadline_ms > 0 ? s->request.deadline_ms : options.queue_timeout_ms;
  if (patience > 0) s->start_by_ns = s->submitted_ns + std::min(patience, kLongestWaitMs) * 1'000'000;
  s->stats = {.prompt_tokens = s->prompt_tokens, .seed = s->seed};
  return s;
}

}  // namespace

EngineImpl::EngineImpl(Parts parts)
    : parts_(std::move(parts)),
      metrics_(parts_.info, parts_.options, parts_.groups.front().blocks, parts_.housekeeping),
      core_(parts_, board_, journals_, metrics_, queued_) {
  if (parts_.group) parts_.group->join(parts_.seat, [this](uint64_t) { inbox_.poke(); });
  thread_ = std::thread([this] { loop(); });
}

EngineImpl::~EngineImpl() {
  shutdown(0);
}

Result<void> EngineImpl::submit_routed(Request r, const Decision* why) try {
  if (closing_) {
    metrics_.rejected("shutting_down");
    return fail(Code::unavailable, "the engine is shutting down", "engine", "send the request to another server");
  }
  if (auto ok = validate(r, parts_.info); !ok) {
    metrics_.rejected("invalid");
    return ok;
  }
  if (r.rank != -1 && r.rank != 0) {
    metrics_.rejected("invalid");
    return fail(Code::invalid_argument, fmt::format("there is no data-parallel rank {}", r.rank), "request field 'data_parallel_rank'", "name rank 0, or none");
  }
  Arrival a{.seq = make_sequence(std::move(r), parts_.info, parts_.options)};
  const kv::SeqBlocks& kv = a.seq->kv;
  if (parts_.frontend_hash && parts_.options.prefix_caching && kv.cacheable)
    a.chain = base::hash_prompt(a.seq->tokens, parts_.options.block_size, kv.key, kv.expected_blocks);
  return enqueue(std::move(a), why);
} catch (const std::bad_alloc&) {
  return fail(Code::resource_exhausted, "there is no memory for the request", "engine", "retry in a moment");
}

Result<void> EngineImpl::enqueue(Arrival a, const Decision* why) {
  Sequence& s = *a.seq;
  const uint64_t id = s.request.id;
  const std::lock_guard lock(door_);
  if (closed_) {
    metrics_.rejected("shutting_down");
    return fail(Code::unavailable, "the engine is shutting down", "engine", "send the request to another server");
  }
  // Only what cannot run at once counts as waiting: a burst that the engine is about to admit is no queue.
  if (board_.alive() >= int64_t(parts_.options.max_num_seqs) + parts_.options.max_queue) {
    metrics_.rejected("queue_full");
    return fail(Code::resource_exhausted,
                fmt::format("{} requests run at most, and {} are waiting already", parts_.options.max_num_seqs, parts_.options.max_queue), "--max-queue",
                "retry in a moment, or raise --max-queue");
  }
  if (!board_.open(id, a.seq->stats)) {
    metrics_.rejected("duplicate_id");
    return fail(Code::invalid_argument, fmt::format("a request with id {} is alive", id), "request field 'id'",
                "choose another id");
  }
  queued_.fetch_add(1, std::memory_order_relaxed);
  try {
    s.journal = journals_.open(id, s.request.label, parts_.options.first_rank, s.submitted_ns);
    if (why) s.note(*why, now_ns());
    inbox_.put(std::move(a));
  } catch (...) {
    queued_.fetch_sub(1, std::memory_order_relaxed);
    board_.drop(id);
    journals_.drop(id);
    throw;
  }
  return {};
}

std::vector<RequestRecord> EngineImpl::records(std::string_view name, size_t most) const {
  auto out = journals_.find(name, most);
  for (RequestRecord& r : out)
    if (r.finish == FinishReason::none) r.stats = board_.find(r.id).value_or(r.stats);
  return out;
}

void EngineImpl::finish(uint64_t id, FinishReason reason) {
  inbox_.put(End{id, reason});
}

std::vector<KvEventSource> EngineImpl::kv_event_sources() const {
  if (!parts_.events) return {};
  return {describe(*parts_.events)};
}

Result<void> EngineImpl::reset_prefix_cache() {
  inbox_.put(ForgetPrefixes{});
  return {};
}

EngineStats EngineImpl::stats() const {
  EngineStats s = board_.stats();
  s.retry_after_s = core_.retry_after_s(queued_.load(std::memory_order_relaxed));
  return s;
}

void EngineImpl::shutdown(double drain_s) {
  begin_shutdown(drain_s);
  join();
}

void EngineImpl::begin_shutdown(double drain_s) {
  {
    const std::lock_guard lock(door_);
    closed_ = true;
    closing_ = true;
  }
  const int64_t wait_ns = int64_t(std::clamp(drain_s, 0.0, 1e9) * 1e9), deadline = now_ns() + wait_ns;
  int64_t before = deadline_ns_.load();
  while (deadline < before && !deadline_ns_.compare_exchange_weak(before, deadline)) {
  }
  inbox_.poke();
}

void EngineImpl::join() {
  if (on_own_thread()) return;  // called from a sink: the loop ends by itself
  const std::lock_guard lock(join_);
  if (thread_.joinable()) thread_.join();
}

void EngineImpl::handle(Message&& m) {
  if (auto* a = std::get_if<Arrival>(&m))
    take(*a);
  else if (auto* e = std::get_if<End>(&m))
    core_.end(e->id, e->reason);
  else
    core_.forget_prefixes();
}

void EngineImpl::take(Arrival& a) {
  auto& s = a.seq;
  try {
    core_.add(s, a.chain ? &*a.chain : nullptr);
  } catch (const std::exception& e) {
    queued_.fetch_sub(1, std::memory_order_relaxed);
    board_.close(s->request.id, s->stats);
    journals_.close(s->request.id);
    try {
      s->request.sink(
          {.id = s->request.id,
           .finish = FinishReason::error,
           .error = Error{Code::resource_exhausted, "there is no memory for the request", "engine", "retry in a moment"}});
    } catch (...) {
      base::log(base::LogLevel::error, "request {}: its sink threw after {}", s->request.id, e.what());
    }
  }
}

void EngineImpl::guarded_step() {
  try {
    core_.step();
  } catch (const std::exception& e) {
    base::log(base::LogLevel::error, "a step failed: {}", e.what());
    core_.end_all(FinishReason::error, {Code::internal, fmt::format("a step of the engine failed: {}", e.what()), "engine",
                                        "report this as a defect"});
  }
}

void EngineImpl::on_idle() {
  core_.publish();
  if (now_ns() < next_check_ns_) return;
  next_check_ns_ = now_ns() + kCheckEveryNs;
  try {
    core_.check_integrity();
  } catch (const std::bad_alloc&) {  // not now, then
  }
}

void EngineImpl::loop() noexcept {
  parts_.runner->adopt_caller();
  for (;;) {
    const bool closing = closing_;  // read before the drain: what was accepted before closing is in the box by now
    inbox_.drain([this](Message&& m) { handle(std::move(m)); });
    core_.deliver();
    if (core_.idle()) {
      on_idle();
      if (closing) break;
      if (!called()) {
        inbox_.wait();
        continue;
      }
    }
    if (closing && now_ns() >= deadline_ns_) {
      core_.end_all(FinishReason::abort,
                    {Code::unavailable, "the engine is shutting down", "engine", "send the request to another server"});
      core_.deliver();
      continue;
    }
    guarded_step();
    core_.deliver();
  }
  if (parts_.group) parts_.group->leave(parts_.seat);
}

std::unique_ptr<Engine> make_engine(Parts parts) {
  return std::make_unique<EngineImpl>(std::move(parts));
}

}  // namespace isotope::engine
