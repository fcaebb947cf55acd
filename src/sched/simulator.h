// A deterministic simulator: many ranks under recorded or drawn arrivals, with the router, schedulers, delayer and block bookkeeping of the engine and
// a cost in place of a model. For studying scale without the machines, and for breaking the scheduler with faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sched/lockstep.h"
#include "sched/route.h"
#include "sched/sim_rank.h"

namespace isotope::sched {

/// Things that go wrong, each with a chance in every step.
struct SimFaults {
  double cancel = 0;    ///< a client leaves
  double preempt = 0;   ///< a rank preempts although it need not
  double rank_loss = 0; ///< a rank loses everything; its requests go to others and are computed again
  double late = 0;      ///< a transfer that should have ended takes as long again
  uint64_t seed = 1;
  bool any() const { return cancel + preempt + rank_loss + late > 0; }
};

struct SimOptions {
  SimRankOptions rank;
  int ranks = 1;
  RoutePolicy policy = RoutePolicy::least_requests;
  int64_t request_equiv = 512;
  bool session_affinity = false;
  int64_t max_sessions = 1'000'000;
  bool lockstep = false;  ///< all ranks step together, each step as long as its slowest rank's
  bool balance = true;    ///< in lockstep with a delayer: even out the cost of prefill steps, and its gate on holds
  BalanceOptions balancing;
  SimFaults faults;
  bool check = false;      ///< check every invariant after every step
  int64_t max_steps = 0;   ///< stop after so many steps of ranks; 0 = when all is done
};

/// Times of a kind in seconds, from the smallest to the largest.
struct SimTimes {
  std::vector<double> values;
  double mean() const;
  double at(double share);  ///< quantile; sorts
};

struct SimReport {
  int64_t requests = 0, finished = 0, cancelled = 0, refused = 0;  ///< refused: not started by their deadline
  int64_t steps = 0, prefill_steps = 0, prompt_tokens = 0, output_tokens = 0;  ///< computed and generated
  int64_t preemptions = 0, hit_tokens = 0, looked_up_tokens = 0, lost_ranks = 0, late_transfers = 0;
  double simulated_s = 0;
  SimTimes ttft, tpot, e2e;
  std::vector<int64_t> routed;         ///< requests by rank
  std::vector<int64_t> exits;          ///< verdicts of the delayers by Exit; empty without
  int64_t shrunk_tokens = 0;           ///< taken out of steps by balancing
  std::string broken;                  ///< the first invariant that did not hold, with the step; empty = none
  double output_per_s() const { return simulated_s > 0 ? double(output_tokens) / simulated_s : 0; }
  double tokens_per_prefill_step() const { return prefill_steps ? double(prompt_tokens) / double(prefill_steps) : 0; }
};

/// Fails for requests that no rank can ever hold, or that name a rank that is not there.
Result<SimReport> simulate(const std::vector<SimRequest>&, const SimOptions&);

/// The report as a table in words, or as a JSON object.
std::string report_text(SimReport&);
std::string report_json(SimReport&);

}  // namespace isotope::sched
