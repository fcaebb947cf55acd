#include "bench_simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "flags.h"
#include "sched/number_list.h"

namespace isotope::app {

namespace {

Result<sched::SimFaults> parse_faults(std::string_view text) {
  sched::SimFaults f;
  double seed = 1;
  const sched::NamedNumber known[] = {
      {"cancel", &f.cancel}, {"preempt", &f.preempt}, {"rank_loss", &f.rank_loss}, {"late", &f.late}, {"seed", &seed, 0, 1e15}};
  ISO_CHECK_OK(sched::parse_numbers(text, known, "--sim-faults"));
  f.seed = uint64_t(seed);
  return f;
}

}  // namespace

void SimulateFlags::add(CLI::App& sub) {
  sched::Limits& limits = options.rank.scheduler.limits;
  const auto group = [](CLI::Option* o) { o->group("Simulation"); };
  group(sub.add_option("--simulate", trace,
                       "run the scheduler, router and delayer without a model: a JSON Lines file of requests, or synthetic[:requests=1000,rate=20,...]"));
  group(sub.add_option("--sim-ranks", options.ranks, "data-parallel ranks")->check(CLI::Range(1, 65536))->capture_default_str());
  group(sub.add_option("--sim-blocks", options.rank.blocks, "KV blocks of a rank")->check(CLI::Range(int64_t{1}, int64_t{1} << 30))->capture_default_str());
  group(sub.add_option("--sim-block-size", limits.block_size, "tokens of a block")->check(CLI::Range(1, 4096))->capture_default_str());
  group(sub.add_option("--sim-max-num-seqs", limits.max_seqs, "sequences that run at once on a rank")->check(CLI::Range(1, 1 << 20))->capture_default_str());
  group(sub.add_option("--sim-max-num-batched-tokens", limits.token_budget, "tokens of a step")
            ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))->capture_default_str());
  group(sub.add_option("--sim-long-prefill", limits.long_prefill, "most tokens of one prompt in a step; 0 = no cap")
            ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))->capture_default_str());
  group(sub.add_option("--sim-cost", cost, "what steps take: step_us=9000,prefill_step_us=6000,token_us=20,context_ns=40,pair_ns=1.5"));
  group(sub.add_option("--sim-policy", policy, "routing: round_robin, least_requests, least_tokens")
            ->check(CLI::IsMember(kRoutings))->capture_default_str());
  group(sub.add_flag("--sim-affinity", options.session_affinity, "turns of a session stay on its rank"));
  group(sub.add_flag("--sim-lockstep", options.lockstep, "all ranks step together; the delayer decides for all of them"));
  group(sub.add_flag("--sim-no-balance", no_balance, "in lockstep: leave the cost of prefill steps as it is"));
  group(sub.add_flag("--sim-no-prefix-caching", no_prefix_caching, "compute every prompt whole"));
  group(sub.add_flag("--sim-fair-share,!--sim-no-fair-share", options.rank.scheduler.fair_share, "turns between keys (on)"));
  group(sub.add_option("--sim-faults", faults, "chances in each step: cancel=0.01,preempt=0.01,rank_loss=0.001,late=0.1,seed=1"));
  group(sub.add_flag("--sim-check", options.check, "check every invariant after every step"));
  group(sub.add_option("--sim-max-steps", options.max_steps, "stop after so many steps; 0 = when all requests are done")
            ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))->capture_default_str());
}

Result<std::string> SimulateFlags::run(const levers::Levers& levers, bool json) const {
  sched::SimOptions o = options;
  o.rank.prefix_caching = !no_prefix_caching;
  o.balance = !no_balance;
  o.rank.scheduler.delayer = levers.prefill_delayer();
  const levers::DataParallel& dp = levers.data_parallel();
  o.request_equiv = dp.request_equiv;
  o.session_affinity |= dp.session_affinity;
  o.max_sessions = dp.max_sessions;
  o.balancing = {.token_weight = dp.balance_token_weight, .slack = dp.balance_slack, .min_tokens = dp.balance_min_tokens};
  ISO_TRY(o.rank.cost, sched::parse_cost(cost));
  ISO_TRY(o.policy, sched::parse_route_policy(policy));
  ISO_TRY(o.faults, parse_faults(faults));
  constexpr std::string_view kSynthetic = "synthetic";
  const bool drawn = trace == kSynthetic || trace.starts_with("synthetic:");
  ISO_TRY(const auto requests, drawn ? sched::synthetic_trace(std::string_view(trace).substr(std::min(trace.size(), kSynthetic.size() + 1)))
                                     : sched::read_trace(trace));
  const auto start = std::chrono::steady_clock::now();
  ISO_TRY(sched::SimReport report, sched::simulate(requests, o));
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!report.broken.empty())
    return fail(Code::internal, "an invariant broke at " + report.broken, "--simulate", "report this as a defect, with the command line");
  if (json) return sched::report_json(report);
  return sched::report_text(report) + fmt::format("{:<26} {:.3g} s for {} steps of ranks\n", "computed in", took, report.steps);
}

}  // namespace isotope::app
