// How many engines a process runs and which ranks and cores they are, from options and settings. Pure but for the machine's number of cores, which is passed.
#pragma once

#include <optional>

#include "engine/tcp_group.h"
#include "isotope/options.h"
#include "levers/levers.h"

namespace isotope::engine {

/// Fills data_parallel_size (0 = ATOM_DP_SIZE), first_rank, threads and first_core. A process that is told its own rank (ATOM_DP_RANK or ATOM_DP_RANK_LOCAL)
/// is one of several under somebody else's router: it runs that rank alone and, with ATOM_DP_RANK_LOCAL = k, keeps to the k-th equal share of the cores.
/// Fails for a rank outside the group.
Result<EngineOptions> resolve_ranks(EngineOptions, const levers::Levers&, int cores);

bool lockstep(const levers::Levers&);  ///< ISOTOPE_DP_LOCKSTEP

/// Where a process that is told its own rank meets the others to step together with them; none when it steps by itself, or has all ranks. From options as
/// they were given, before resolve_ranks.
std::optional<Meeting> meeting_of(const EngineOptions& given, const levers::Levers&);

/// The cores of one of the engines of a process.
struct CoreShare {
  int threads = 0;      ///< 0 = all there are
  int first_core = -1;  ///< -1 = the whole machine is its own
  bool pin = true;
};
/// `rank` counts from 0 within the process. Shares are disjoint while there are cores for all; with more engines than threads each gets one, bound nowhere.
CoreShare core_share(const EngineOptions&, int rank, int cores);

}  // namespace isotope::engine
