#include "engine/data_parallel.h"

#include <algorithm>
#include <utility>

namespace isotope::engine {

namespace {

using telemetry::Kind;
using telemetry::Row;

enum RowId : size_t {
  kNew,
  kOwnerHit,
  kSpill,
  kParentIgnored,
  kExplicit,
  kLoadBalanced,
  kRouted,
  kInflight,
  kQueuedPrefill,
  kSessions
};

std::vector<Row> rows_for(std::span<const std::string_view> ranks) {
  const auto plain = [](std::string_view name, std::string_view help) {
    return Row{name, Kind::counter, help, {}, {}, {}, false};
  };
  const auto by_rank = [&](std::string_view name, Kind kind, std::string_view help) {
    return Row{name, kind, help, "rank", ranks, {}, false};
  };
  return {plain("atom:dp_affinity_new", "Sessions that were placed."),
          plain("atom:dp_affinity_owner_hit", "Turns that went to the rank that holds their session."),
          plain("atom:dp_affinity_spill", "Turns that left their owner because of its load; always 0."),
          plain("atom:dp_affinity_parent_ignored", "New sessions with a parent, which does not influence their place."),
          plain("atom:dp_route_explicit", "Requests that named their rank."),
          plain("atom:dp_route_load_balanced", "Requests that were placed by load."),
          by_rank("atom:dp_requests_routed", Kind::counter, "Requests sent to the rank."),
          by_rank("atom:dp_inflight_requests", Kind::gauge, "Requests sent to the rank and not finished."),
          by_rank("atom:dp_queued_prefill_tokens", Kind::gauge, "Prompt tokens of the rank's requests without a first output."),
          by_rank("isotope:dp_sessions", Kind::gauge, "Sessions that the rank owns.")};
}

}  // namespace

DataParallelEngine::DataParallelEngine(std::vector<Parts> ranks, const sched::RouterOptions& options) : router_(options) {
  if (ranks.size() > 1 && ranks[0].lockstep) group_.emplace(int(ranks.size()));
  for (Parts& p : ranks) {
    p.seat = int(engines_.size());
    if (group_) p.group = &*group_;
    rank_names_.push_back(std::to_string(p.options.first_rank));
    engines_.push_back(std::make_unique<EngineImpl>(std::move(p)));
  }
}

Result<void> DataParallelEngine::submit(Request r) try {
  const uint64_t id = r.id;
  sched::RouteGrant grant;
  {
    const std::lock_guard lock(lock_);
    ISO_TRY(grant, router_.route({.id = id,
                                  .prompt_tokens = int64_t(r.prompt.size()),
                                  .session = r.session,
                                  .has_parent = r.session_has_parent,
                                  .rank = r.rank}));
  }
  r.rank = -1;
  if (r.sink) r.sink = watched(id, std::move(r.sink));
  const Decision why{.kind = Decision::Kind::routed,
                     .tokens = grant.charged_tokens,
                     .position = grant.rank,
                     .reason = sched::reason_name(grant.reason)};
  auto accepted = engines_[size_t(grant.rank)]->submit_routed(std::move(r), &why);
  if (!accepted) {
    const std::lock_guard lock(lock_);
    router_.roll_back(id);
  }
  return accepted;
} catch (const std::bad_alloc&) {
  return fail(Code::resource_exhausted, "there is no memory for the request", "engine", "retry in a moment");
}

/// Tells the router before the caller hears of it, so that whoever sees an end may send the next request by loads that know of
/// it.
TokenSink DataParallelEngine::watched(uint64_t id, TokenSink inner) {
  return [this, id, begun = false, inner = std::move(inner)](const TokenEvent& e) mutable {
    const bool ended = e.finish != FinishReason::none;
    if (ended || !std::exchange(begun, true)) {
      const std::lock_guard lock(lock_);
      ended ? router_.finished(id) : router_.first_output(id);
    }
    try {
      inner(e);
    } catch (...) {  // the engine ends the request without telling this sink again
      const std::lock_guard lock(lock_);
      router_.finished(id);
      throw;
    }
  };
}

void DataParallelEngine::finish(uint64_t id, FinishReason reason) {
  int rank = -1;
  {
    const std::lock_guard lock(lock_);
    rank = router_.rank_of(id);
  }
  if (rank >= 0) engines_[size_t(rank)]->finish(id, reason);
}

std::optional<RequestStats> DataParallelEngine::stats(uint64_t id) const {
  for (const auto& e : engines_)
    if (auto s = e->stats(id)) return s;
  return std::nullopt;
}

std::vector<RequestRecord> DataParallelEngine::records(std::string_view name, size_t most) const {
  std::vector<RequestRecord> out;
  for (const auto& e : engines_)
    for (RequestRecord& r : e->records(name, most)) out.push_back(std::move(r));
  std::stable_sort(out.begin(), out.end(), [](const RequestRecord& a, const RequestRecord& b) { return a.submitted_ns > b.submitted_ns; });
  if (out.size() > most) out.resize(most);
  return out;
}

EngineStats DataParallelEngine::stats() const {
  constexpr int64_t EngineStats::*kSums[] = {
      &EngineStats::running,           &EngineStats::waiting,        &EngineStats::blocks_total, &EngineStats::blocks_free,
      &EngineStats::blocks_evictable,  &EngineStats::steps,          &EngineStats::preemptions,  &EngineStats::prompt_tokens,
      &EngineStats::generation_tokens, &EngineStats::prefix_queries, &EngineStats::prefix_hits};
  EngineStats sum{.engines = int(engines_.size()), .retry_after_s = engines_[0]->stats().retry_after_s};
  for (const auto& e : engines_) {
    const EngineStats s = e->stats();
    for (const auto field : kSums) sum.*field += s.*field;
    sum.last_step_age_s = std::max(sum.last_step_age_s, s.last_step_age_s);
    sum.retry_after_s = std::min(sum.retry_after_s, s.retry_after_s);
  }
  return sum;
}

Result<void> DataParallelEngine::reset_prefix_cache() {
  for (const auto& e : engines_) ISO_CHECK_OK(e->reset_prefix_cache());
  return {};
}

void DataParallelEngine::shutdown(double drain_s) {
  for (const auto& e : engines_) e->begin_shutdown(drain_s);
  // From a sink: waiting for the others would hold up the rank that calls, and two ranks might wait for each other.
  if (std::any_of(engines_.begin(), engines_.end(), [](const auto& e) { return e->on_own_thread(); })) return;
  for (const auto& e : engines_) e->join();
}

std::vector<KvEventSource> DataParallelEngine::kv_event_sources() const {
  std::vector<KvEventSource> all;
  for (const auto& e : engines_)
    for (KvEventSource& source : e->kv_event_sources()) all.push_back(std::move(source));
  return all;
}

std::string DataParallelEngine::metrics() const {
  std::vector<const Metrics*> numbers;
  for (const auto& e : engines_) numbers.push_back(&e->numbers());
  return prometheus(numbers) + router_metrics();
}

std::string DataParallelEngine::router_metrics() const {
  const std::vector<std::string_view> names(rank_names_.begin(), rank_names_.end());
  const std::vector<Row> rows = rows_for(names);
  telemetry::Registry r(rows, {});
  const std::lock_guard lock(lock_);
  const sched::RouteCounts& c = router_.counts();
  r.set(kNew, double(c.affinity_new));
  r.set(kOwnerHit, double(c.affinity_owner_hit));
  r.set(kParentIgnored, double(c.affinity_parent_ignored));
  r.set(kExplicit, double(c.explicit_rank));
  r.set(kLoadBalanced, double(c.load_balanced));
  for (size_t rank = 0; rank < names.size(); ++rank) {
    r.set(kRouted, double(c.routed[rank]), rank);
    r.set(kInflight, double(router_.loads()[rank].requests), rank);
    r.set(kQueuedPrefill, double(router_.loads()[rank].prefill_tokens), rank);
    r.set(kSessions, double(c.sessions[rank]), rank);
  }
  return r.prometheus();
}

std::unique_ptr<Engine> make_data_parallel_engine(std::vector<Parts> ranks, const sched::RouterOptions& options) {
  return std::make_unique<DataParallelEngine>(std::move(ranks), options);
}

}  // namespace isotope::engine
