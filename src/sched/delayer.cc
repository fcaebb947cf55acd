#include "sched/delayer.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace isotope::sched {

namespace {

constexpr std::string_view kNames[kExits] = {"fill",     "stall", "ttft",    "kv",                   "partial", "nodecode",
                                             "queue_ms", "cost",  "vacuous", "hold_decode_interval", "hold"};

constexpr int64_t Signals::*kSums[] = {&Signals::ranks,    &Signals::executed, &Signals::able,    &Signals::pending, &Signals::held,    &Signals::decoding,
                                       &Signals::partial, &Signals::kv_high,  &Signals::kv_low, &Signals::aged};

}  // namespace

std::string_view exit_name(Exit e) {
  return kNames[size_t(e)];
}

Signals combine(std::span<const Signals> ranks) {
  Signals all{.ranks = 0};
  for (const Signals& s : ranks)
    for (const auto field : kSums) all.*field += s.*field;
  return all;
}

bool delayer_active(const levers::PrefillDelayer& d, bool lockstep_group) {
  return d.enabled && (lockstep_group || d.decode_interval > 0);
}

Exit Delayer::decide(const Signals& s, const CostGate& gate) {
  const Exit e = judge(s, gate);
  if (fires(e)) {
    hold_ticks_ = stall_ = 0;
    previous_pending_ = -1;
  }
  ++counts_[size_t(e)];
  ++verdicts_;
  return e;
}

/// The order is part of the contract: protection comes before every bound, and the bounds that need no gathering before those
/// that do.
Exit Delayer::judge(const Signals& s, const CostGate& gate) {
  if (s.executed > 0) protect_ = settings_.decode_interval;
  if (std::exchange(first_, false)) return Exit::vacuous;
  if (protect_ > 0) {
    --protect_;
    if (s.able > 0 && s.decoding > 0) return Exit::hold_decode_interval;
  }
  if (s.able == 0) return Exit::vacuous;
  if (s.decoding == 0) return Exit::nodecode;
  if (s.kv_high > 0 || s.kv_low > 0) return Exit::kv;
  if (s.aged > 0) return Exit::queue_ms;
  if (hold_ticks_ >= settings_.ttft_max_ticks) return Exit::ttft;
  if (s.partial > 0 && hold_ticks_ >= settings_.partial_max_ticks) return Exit::partial;
  return gather(s, gate);
}

Exit Delayer::gather(const Signals& s, const CostGate& gate) {
  stall_ = s.pending <= previous_pending_ ? stall_ + 1 : 0;
  previous_pending_ = s.pending;
  const bool stalled = stall_ >= settings_.stall_ticks;
  if (s.able < s.ranks) {
    if (stalled) return Exit::stall;
    return settings_.cost_gate && gate && gate(hold_ticks_) ? Exit::cost : hold();
  }
  // Rounded to an integer first, so that all ranks compare the same numbers.
  if (s.pending >= int64_t(std::ceil(settings_.target_fill * double(s.able) * double(budget_)))) return Exit::fill;
  return stalled ? Exit::stall : hold();
}

Exit Delayer::hold() {
  ++hold_ticks_;
  return Exit::hold;
}

std::string Delayer::debug_line(const Signals& s, Exit e) const {
  return fmt::format("prefill delayer: {} {} pending={} able={}/{} decoding={} partial={} hold_ticks={} stall={} protect={}",
                     fires(e) ? "FIRE" : "HOLD", exit_name(e), s.pending, s.able, s.ranks, s.decoding, s.partial, hold_ticks_,
                     stall_, protect_);
}

std::string Delayer::summary() const {
  std::string text = fmt::format("prefill delayer: {} verdicts:", verdicts_);
  for (size_t i = 0; i < kExits; ++i) text += fmt::format(" {}={}", kNames[i], counts_[i]);
  return text + fmt::format(" hold_rate={:.3f}", verdicts_ ? double(holds()) / double(verdicts_) : 0.0);
}

}  // namespace isotope::sched
