// An engine put together from parts; Engine::open makes them from files, tests make them by hand.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/runner.h"
#include "engine/step_group.h"
#include "isotope/engine.h"
#include "kv/checkpoints.h"
#include "kv/event_publisher.h"
#include "kv/manager.h"
#include "levers/groups.h"
#include "sched/balance.h"
#include "sched/route.h"

namespace isotope::engine {

struct Parts {
  EngineOptions options;
  ModelInfo info;  ///< vocab and max_model_len are what requests are validated against
  VocabSource vocab;
  std::vector<kv::GroupConfig> groups;  ///< sized so that one sequence of max_model_len fits
  std::unique_ptr<Runner> runner;
  kv::ManagerOptions kv_options;
  kv::CheckpointOptions checkpoints = {};
  std::unique_ptr<kv::EventPublisher> events;  ///< null: kv_options.events must be false
  bool frontend_hash = true;    ///< the thread that submits computes the block hashes
  levers::PrefillDelayer delayer;
  levers::Housekeeping housekeeping = {};
  std::unique_ptr<StepGroup> own_group = {};  ///< where the group's other ranks are other processes
  bool lockstep = false;       ///< make_data_parallel_engine, of the first: all of them step together
  StepGroup* group = nullptr;  ///< of ranks that step together; null: this one steps by itself. Outlives the engine.
  int seat = 0;                ///< in the group
  sched::BalanceOptions balancing = {};
  bool check_every_step = false;  ///< tests: kv::Manager::check_integrity after each step
  std::function<void(uint64_t request, kv::Manager&, kv::SeqBlocks&)> planned = {};  ///< tests: sees each sequence of a step before it is computed
};

/// Starts the loop thread.
std::unique_ptr<Engine> make_engine(Parts);
/// Several engines as one, requests routed among them; with `lockstep` they step together. REQUIRES: at least one; `options.first_rank` of each
/// is its rank.
std::unique_ptr<Engine> make_data_parallel_engine(std::vector<Parts>, const sched::RouterOptions&);

}  // namespace isotope::engine
