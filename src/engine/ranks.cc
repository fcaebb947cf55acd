#include "engine/ranks.h"

#include <fmt/format.h>

#include <algorithm>

namespace isotope::engine {

namespace {

int part(int64_t all, int i, int of) {
  return int(all * i / of);
}

bool given(const levers::Levers& l, const char* name) {
  return l.find(name)->source != levers::Source::default_value;
}

Result<void> check_rank(int rank, int size, const char* name) {
  if (rank < size) return {};
  return fail(Code::invalid_argument, fmt::format("rank {} of {} data-parallel ranks", rank, size), name,
              fmt::format("count ranks from 0, or raise ATOM_DP_SIZE (--data-parallel-size) above {}", rank));
}

}  // namespace

Result<EngineOptions> resolve_ranks(EngineOptions o, const levers::Levers& levers, int cores) {
  const levers::DataParallel& dp = levers.data_parallel();
  if (o.threads == 0) o.threads = levers.cpu().threads;
  if (o.data_parallel_size == 0) o.data_parallel_size = dp.size;
  const bool local = given(levers, "ATOM_DP_RANK_LOCAL");
  if (!local && !given(levers, "ATOM_DP_RANK")) return o;
  const int size = o.data_parallel_size;
  ISO_CHECK_OK(check_rank(dp.rank, size, "ATOM_DP_RANK"));
  ISO_CHECK_OK(check_rank(dp.rank_local, size, "ATOM_DP_RANK_LOCAL"));
  o.first_rank = dp.rank;
  o.data_parallel_size = 1;
  if (!local || size == 1) return o;
  const int from = part(cores, dp.rank_local, size), to = part(cores, dp.rank_local + 1, size);
  if (o.threads == 0) o.threads = std::max(1, to - from);
  if (cores >= size) o.first_core = from;
  return o;
}

CoreShare core_share(const EngineOptions& o, int rank, int cores) {
  const int ranks = std::max(1, o.data_parallel_size), all = o.threads > 0 ? o.threads : cores;
  if (ranks == 1) return {o.threads, o.first_core};
  const int from = part(all, rank, ranks), to = part(all, rank + 1, ranks);
  return {.threads = std::max(1, to - from), .first_core = std::max(o.first_core, 0) + from, .pin = all >= ranks};
}

}  // namespace isotope::engine
