#include "sched/route.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>

#include "base/hash.h"

namespace isotope::sched {

namespace {

struct PolicyName {
  std::string_view name;
  RoutePolicy policy;
};
constexpr PolicyName kPolicies[] = {{"round_robin", RoutePolicy::round_robin},
                                    {"least_requests", RoutePolicy::least_requests},
                                    {"least_tokens", RoutePolicy::least_tokens}};

int64_t weighed(const RankLoad& l, int64_t request_equiv) {
  return l.prefill_tokens + request_equiv * l.requests;
}

}  // namespace

Result<RoutePolicy> parse_route_policy(std::string_view text) {
  std::string name(text);
  std::replace(name.begin(), name.end(), '-', '_');
  for (const PolicyName& p : kPolicies)
    if (p.name == name) return p.policy;
  return fail(Code::invalid_argument, fmt::format("there is no routing policy '{}'", text), "--dp-load-balance",
              "use round_robin, least_requests or least_tokens");
}

std::string_view reason_name(RouteReason r) {
  constexpr std::string_view kNames[] = {"load", "explicit rank", "new session", "session owner"};
  return kNames[size_t(r)];
}

int least_loaded(std::span<const RankLoad> loads, RoutePolicy policy, int64_t request_equiv, uint64_t cursor) {
  const size_t n = loads.size(), start = size_t(cursor % n);
  if (policy == RoutePolicy::round_robin) return int(start);
  const auto score = [&](const RankLoad& l) {
    return policy == RoutePolicy::least_requests ? std::pair(l.requests, l.prefill_tokens)
                                                 : std::pair(weighed(l, request_equiv), int64_t{0});
  };
  size_t best = start;
  for (size_t i = 1; i < n; ++i) {
    const size_t rank = (start + i) % n;
    if (score(loads[rank]) < score(loads[best])) best = rank;
  }
  return int(best);
}

int place_session(std::span<const RankLoad> loads, int64_t request_equiv, std::string_view session) {
  const auto score = [&](size_t rank) {
    return std::tuple(-weighed(loads[rank], request_equiv), base::xxh64(session, uint64_t(rank)));
  };
  size_t best = 0;
  for (size_t rank = 1; rank < loads.size(); ++rank)
    if (score(rank) > score(best)) best = rank;
  return int(best);
}

Router::Router(const RouterOptions& o) : options_(o), loads_(size_t(std::max(o.ranks, 1))) {
  counts_.routed.resize(loads_.size());
  counts_.sessions.resize(loads_.size());
}

Result<RouteGrant> Router::route(const RouteAsk& ask) {
  if (ask.rank < -1 || ask.rank >= int(loads_.size()))
    return fail(Code::invalid_argument, fmt::format("there is no data-parallel rank {}", ask.rank), "request field 'data_parallel_rank'",
                fmt::format("name a rank from 0 to {}, or none", loads_.size() - 1));
  const auto [at, fresh] = flights_.try_emplace(ask.id);
  if (!fresh)
    return fail(Code::invalid_argument, fmt::format("a request with id {} is alive", ask.id), "request field 'id'",
                "choose another id");
  Flight& f = at->second;
  const RouteGrant grant = options_.session_affinity && !ask.session.empty() ? place_in_session(ask, f) : place(ask, f);
  f.rank = grant.rank;
  f.tokens = grant.charged_tokens;
  f.reason = grant.reason;
  ++loads_[size_t(f.rank)].requests;
  loads_[size_t(f.rank)].prefill_tokens += f.tokens;
  count(grant, 1);
  return grant;
}

RouteGrant Router::place(const RouteAsk& ask, Flight&) {
  const int64_t tokens = std::max<int64_t>(0, ask.prompt_tokens);
  if (ask.rank >= 0) return {ask.rank, tokens, RouteReason::explicit_rank};
  return {least_loaded(loads_, options_.policy, options_.request_equiv, cursor_++), tokens, RouteReason::load};
}

RouteGrant Router::place_in_session(const RouteAsk& ask, Flight& f) {
  Session now{.key = base::xxh64(ask.session), .prompt_tokens = std::max<int64_t>(0, ask.prompt_tokens)};
  f.has_session = true;
  f.before.key = now.key;
  const auto it = by_key_.find(now.key);
  f.known_before = it != by_key_.end();
  if (f.known_before) f.before = *it->second;
  RouteGrant grant{.charged_tokens = now.prompt_tokens};
  if (ask.rank >= 0) {
    grant.rank = ask.rank;
    grant.reason = RouteReason::explicit_rank;
  } else if (f.known_before) {
    grant.rank = f.before.owner;
    grant.reason = RouteReason::session_owner;
  } else {
    grant.rank = place_session(loads_, options_.request_equiv, ask.session);
    grant.reason = RouteReason::session_new;
    f.parent_counted = ask.has_parent;
    counts_.affinity_parent_ignored += ask.has_parent;
  }
  // What the last turn computed is cached on its owner, and only there.
  if (f.known_before && f.before.owner == grant.rank)
    grant.charged_tokens = std::max<int64_t>(0, now.prompt_tokens - f.before.prompt_tokens);
  now.owner = grant.rank;
  remember(now);
  return grant;
}

void Router::count(const RouteGrant& g, int64_t by) {
  counts_.routed[size_t(g.rank)] += by;
  int64_t* const kBy[] = {&counts_.load_balanced, &counts_.explicit_rank, &counts_.affinity_new, &counts_.affinity_owner_hit};
  *kBy[size_t(g.reason)] += by;
}

void Router::remember(const Session& s) {
  if (const auto it = by_key_.find(s.key); it != by_key_.end()) forget(it->second);
  sessions_.push_front(s);
  by_key_[s.key] = sessions_.begin();
  ++counts_.sessions[size_t(s.owner)];
  while (int64_t(sessions_.size()) > std::max<int64_t>(1, options_.max_sessions)) forget(std::prev(sessions_.end()));
}

void Router::forget(Sessions::iterator s) {
  --counts_.sessions[size_t(s->owner)];
  by_key_.erase(s->key);
  sessions_.erase(s);
}

void Router::roll_back(uint64_t id) {
  const auto it = flights_.find(id);
  if (it == flights_.end()) return;
  const Flight f = it->second;
  finished(id);
  count({f.rank, f.tokens, f.reason}, -1);
  if (!f.has_session) return;
  counts_.affinity_parent_ignored -= f.parent_counted;
  if (f.known_before)
    remember(f.before);
  else if (const auto s = by_key_.find(f.before.key); s != by_key_.end())
    forget(s->second);
}

void Router::first_output(uint64_t id) {
  const auto it = flights_.find(id);
  if (it == flights_.end()) return;
  loads_[size_t(it->second.rank)].prefill_tokens -= it->second.tokens;
  it->second.tokens = 0;
}

void Router::finished(uint64_t id) {
  first_output(id);
  const auto it = flights_.find(id);
  if (it == flights_.end()) return;
  --loads_[size_t(it->second.rank)].requests;
  flights_.erase(it);
}

int Router::rank_of(uint64_t id) const {
  const auto it = flights_.find(id);
  return it == flights_.end() ? -1 : it->second.rank;
}

}  // namespace isotope::sched
