// What a simulation says at its end.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sched/simulator.h"

namespace isotope::sched {

namespace {

struct Line {
  const char* name;
  double value;
  const char* unit;
};

double share(int64_t part, int64_t whole) {
  return whole ? double(part) / double(whole) : 0;
}

std::vector<Line> lines(SimReport& r) {
  const auto [least, most] = std::minmax_element(r.routed.begin(), r.routed.end());
  return {{"requests", double(r.requests), ""},
          {"finished", double(r.finished), ""},
          {"cancelled", double(r.cancelled), ""},
          {"refused_at_deadline", double(r.refused), ""},
          {"requests_on_idlest_rank", r.routed.empty() ? 0 : double(*least), ""},
          {"requests_on_busiest_rank", r.routed.empty() ? 0 : double(*most), ""},
          {"simulated_s", r.simulated_s, "s"},
          {"steps", double(r.steps), ""},
          {"prefill_steps", double(r.prefill_steps), ""},
          {"tokens_per_prefill_step", r.tokens_per_prefill_step(), ""},
          {"output_tokens_per_s", r.output_per_s(), "1/s"},
          {"ttft_mean_s", r.ttft.mean(), "s"},
          {"ttft_p50_s", r.ttft.at(.5), "s"},
          {"ttft_p99_s", r.ttft.at(.99), "s"},
          {"tpot_mean_s", r.tpot.mean(), "s"},
          {"tpot_p99_s", r.tpot.at(.99), "s"},
          {"e2e_p50_s", r.e2e.at(.5), "s"},
          {"prefix_hit_share", share(r.hit_tokens, r.looked_up_tokens), ""},
          {"preemptions", double(r.preemptions), ""},
          {"lost_ranks", double(r.lost_ranks), ""},
          {"late_transfers", double(r.late_transfers), ""},
          {"balance_shrunk_tokens", double(r.shrunk_tokens), ""}};
}

}  // namespace

std::string report_text(SimReport& r) {
  std::string out;
  for (const Line& l : lines(r)) out += fmt::format("{:<26} {:.6g}{}{}\n", l.name, l.value, *l.unit ? " " : "", l.unit);
  if (!r.exits.empty()) {
    out += fmt::format("{:<26}", "prefill_delayer");
    for (size_t e = 0; e < r.exits.size(); ++e) out += fmt::format(" {}={}", exit_name(Exit(e)), r.exits[e]);
    out += '\n';
  }
  if (!r.broken.empty()) out += fmt::format("{:<26} {}\n", "BROKEN INVARIANT", r.broken);
  return out;
}

std::string report_json(SimReport& r) {
  nlohmann::ordered_json out;
  for (const Line& l : lines(r)) out[l.name] = l.value;
  out["requests_by_rank"] = r.routed;
  if (!r.exits.empty())
    for (size_t e = 0; e < r.exits.size(); ++e) out["prefill_delayer"][std::string(exit_name(Exit(e)))] = r.exits[e];
  if (!r.broken.empty()) out["broken"] = r.broken;
  return out.dump(2) + "\n";
}

}  // namespace isotope::sched
