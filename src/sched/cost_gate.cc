#include "sched/cost_gate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace isotope::sched {

void StepMeter::step(bool prefill, int64_t ns) {
  double& average = prefill ? prefill_ns_ : decode_ns_;
  const double now = double(std::max<int64_t>(ns, 1));
  average = average > 0 ? average + kAlpha * (now - average) : now;
}

void StepMeter::advance(int64_t now_ns) {
  const int64_t slot = now_ns / (kWindowNs / kSlots);
  if (slot_ < 0 || slot - slot_ >= kSlots)
    arrivals_.fill(0);
  else
    for (int64_t s = slot_ + 1; s <= slot; ++s) arrivals_[size_t(s % kSlots)] = 0;
  slot_ = std::max(slot_, slot);
}

void StepMeter::arrival(int64_t now_ns) {
  advance(now_ns);
  ++arrivals_[size_t(slot_ % kSlots)];
}

RankTimes StepMeter::times(int64_t now_ns) {
  advance(now_ns);
  const int64_t n = std::accumulate(arrivals_.begin(), arrivals_.end(), int64_t{0});
  return {std::llround(prefill_ns_), std::llround(decode_ns_), n * 1'000'000'000'000 / kWindowNs};
}

bool gate_releases(const GateInput& in) {
  int64_t prefill_ns = 0, decode_ns = 0, arrivals_milli = 0;
  size_t prefilling = 0;
  for (const GateRank& r : in.ranks) {
    if (r.times.prefill_ns <= 0 || r.times.decode_ns <= 0) return false;
    prefill_ns = std::max(prefill_ns, r.times.prefill_ns);
    decode_ns = std::max(decode_ns, r.times.decode_ns);
    prefilling += r.has_prefill;
    arrivals_milli += r.has_prefill ? 0 : r.times.arrivals_milli;
  }
  if (prefilling == 0 || prefilling == in.ranks.size()) return false;
  const double lost_s = double(std::max<int64_t>(0, prefill_ns - decode_ns)) * 1e-9;
  const double rate = double(arrivals_milli) * 1e-3;
  return rate * lost_s < double(in.waiting) || double(in.hold_ticks) * double(decode_ns) * 1e-9 >= lost_s;
}

}  // namespace isotope::sched
