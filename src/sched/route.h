// Which data-parallel rank gets a request. The router lives in the front end and knows nothing of a rank but what it has sent
// there and what came back (first output, end), so the ranks may be threads of this process or other processes. One thread at a
// time; the owner holds the lock.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isotope/result.h"

namespace isotope::sched {

enum class RoutePolicy : uint8_t { round_robin, least_requests, least_tokens };
/// "round_robin", "least_requests", "least_tokens"; also with hyphens.
Result<RoutePolicy> parse_route_policy(std::string_view);

/// What a rank has to do, as far as the router has sent it there.
struct RankLoad {
  int64_t requests = 0;        ///< sent and not finished
  int64_t prefill_tokens = 0;  ///< prompt tokens of requests without a first output
};

/// The rank of least load: least_requests compares (requests, prefill tokens), least_tokens compares prefill tokens +
/// request_equiv * requests, round_robin takes `cursor` modulo the number of ranks. The scan starts at `cursor`, so that whole
/// ties rotate with it. REQUIRES: at least one rank.
int least_loaded(std::span<const RankLoad>, RoutePolicy, int64_t request_equiv, uint64_t cursor);

/// The owner of a new session: least prefill tokens + request_equiv * requests whatever the policy; ties go to the highest hash
/// of session and rank, which every process computes alike.
int place_session(std::span<const RankLoad>, int64_t request_equiv, std::string_view session);

struct RouterOptions {
  int ranks = 1;
  RoutePolicy policy = RoutePolicy::least_requests;
  int64_t request_equiv = 512;  ///< tokens that one request in flight weighs
  bool session_affinity = false;
  int64_t max_sessions = 1'000'000;  ///< the least recently used one is forgotten: its next turn is that of a new session
};

/// One request that wants a rank.
struct RouteAsk {
  uint64_t id = 0;
  int64_t prompt_tokens = 0;
  std::string_view session = {};  ///< empty: no session
  bool has_parent = false;        ///< the session names a parent, which never influences its place
  int rank = -1;                  ///< explicit wish, or -1
};

enum class RouteReason : uint8_t { load, explicit_rank, session_new, session_owner };
std::string_view reason_name(RouteReason);

struct RouteGrant {
  int rank = 0;
  int64_t charged_tokens = 0;  ///< of a session's later turn only what its prompt grew by
  RouteReason reason = RouteReason::load;
};

struct RouteCounts {
  int64_t load_balanced = 0, explicit_rank = 0;
  int64_t affinity_new = 0, affinity_owner_hit = 0, affinity_parent_ignored = 0;
  std::vector<int64_t> routed;    ///< by rank
  std::vector<int64_t> sessions;  ///< by rank: sessions it owns now
};

class Router {
 public:
  explicit Router(const RouterOptions&);

  /// Chooses a rank and charges it at once, so that a burst spreads. An explicit rank beats everything and, out of range, is an
  /// error that charges nothing. Fails for an id that is in flight.
  Result<RouteGrant> route(const RouteAsk&);
  /// The rank did not take it: as if it had never been asked for.
  void roll_back(uint64_t id);
  void first_output(uint64_t id);  ///< its prompt is computed; unknown ids and repetitions are ignored
  void finished(uint64_t id);      ///< likewise

  int rank_of(uint64_t id) const;  ///< -1: not in flight
  std::span<const RankLoad> loads() const { return loads_; }
  const RouteCounts& counts() const { return counts_; }
  const RouterOptions& options() const { return options_; }

 private:
  struct Session {
    uint64_t key = 0;
    int owner = 0;
    int64_t prompt_tokens = 0;  ///< of its last turn
  };
  using Sessions = std::list<Session>;  // the most recently used one first
  struct Flight {
    int rank = 0;
    int64_t tokens = 0;
    RouteReason reason = RouteReason::load;
    bool has_session = false, known_before = false, parent_counted = false;
    Session before;  ///< for roll_back(); its key also when the session is new
  };

  RouteGrant place(const RouteAsk&, Flight&);
  RouteGrant place_in_session(const RouteAsk&, Flight&);
  void count(const RouteGrant&, int64_t by);
  void remember(const Session&);
  void forget(Sessions::iterator);

  RouterOptions options_;
  uint64_t cursor_ = 0;
  std::vector<RankLoad> loads_;
  RouteCounts counts_;
  std::unordered_map<uint64_t, Flight> flights_;
  Sessions sessions_;
  std::unordered_map<uint64_t, Sessions::iterator> by_key_;
};

}  // namespace isotope::sched
