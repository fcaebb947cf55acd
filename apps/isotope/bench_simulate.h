// isotope bench --simulate: the scheduler at scale, without a model.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "isotope/result.h"
#include "levers/levers.h"
#include "sched/simulator.h"

namespace isotope::app {

struct SimulateFlags {
  std::string trace;  ///< file, or synthetic[:spec]; empty: no simulation
  std::string cost, policy = "least_requests", faults;
  sched::SimOptions options;
  bool no_prefix_caching = false, no_balance = false;

  void add(CLI::App&);
  /// The report as text or JSON; fails also when an invariant broke. The prefill delayer follows its levers.
  Result<std::string> run(const levers::Levers&, bool json) const;
};

}  // namespace isotope::app
