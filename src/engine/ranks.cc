#include "engine/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/hash.h"

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

bool lockstep(const levers::Levers& levers) {
  return levers.find("ISOTOPE_DP_LOCKSTEP")->value == "true";
}

std::optional<Meeting> meeting_of(const EngineOptions& given_options, const levers::Levers& levers) {
  const levers::DataParallel& dp = levers.data_parallel();
  const int size = given_options.data_parallel_size ? given_options.data_parallel_size : dp.size;
  const bool told = given(levers, "ATOM_DP_RANK") || given(levers, "ATOM_DP_RANK_LOCAL");
  if (!lockstep(levers) || !told || size < 2) return std::nullopt;
  const levers::PrefillDelayer& d = levers.prefill_delayer();
  const std::string terms = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", d.enabled, d.target_fill, d.ttft_max_ticks, d.partial_max_ticks, d.stall_ticks,
                                        d.cost_gate, d.kv_high, d.kv_low.value_or(-1), d.max_queue_ms.value_or(-1), d.decode_interval, dp.balance_token_weight,
                                        dp.balance_slack, dp.balance_min_tokens, given_options.max_num_batched_tokens, given_options.chunked_prefill);
  const auto text = [&](const char* name) { return levers.find(name)->value; };
  return Meeting{.host = text("ATOM_DP_MASTER_IP"), .port = std::atoi(text("ATOM_DP_MASTER_PORT").c_str()), .rank = dp.rank, .size = size, .terms = int64_t(base::xxh64(terms))};
}

CoreShare core_share(const EngineOptions& o, int rank, int cores) {
  const int ranks = std::max(1, o.data_parallel_size), all = o.threads > 0 ? o.threads : cores;
  if (ranks == 1) return {o.threads, o.first_core};
  const int from = part(all, rank, ranks), to = part(all, rank + 1, ranks);
  return {.threads = std::max(1, to - from), .first_core = std::max(o.first_core, 0) + from, .pin = all >= ranks};
}

}  // namespace isotope::engine
