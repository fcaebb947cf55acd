// Whether holding prefill back still pays while some ranks have none, from measured step times and arrival rates. Pure but for
// StepMeter, which keeps one rank's averages; what ranks tell each other is RankTimes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace isotope::sched {

/// One rank's measurements as integers, so that every rank combines them to the same numbers.
struct RankTimes {
  int64_t prefill_ns = 0, decode_ns = 0;  ///< average duration of a step with and without prefill; 0 = none measured yet
  int64_t arrivals_milli = 0;             ///< requests per 1000 seconds
};

class StepMeter {
 public:
  static constexpr double kAlpha = 0.1;                ///< weight of the newest step in an average
  static constexpr int64_t kWindowNs = 5'000'000'000;  ///< over which arrivals are counted
  void step(bool prefill, int64_t ns);                 ///< an executed step
  void arrival(int64_t now_ns);
  RankTimes times(int64_t now_ns);

 private:
  static constexpr int64_t kSlots = 50;
  void advance(int64_t now_ns);
  double prefill_ns_ = 0, decode_ns_ = 0;
  std::array<int32_t, kSlots> arrivals_{};  ///< by slot of the window, a ring
  int64_t slot_ = -1;                       ///< number of the newest slot
};

struct GateRank {
  RankTimes times;
  bool has_prefill = false;
};
struct GateInput {
  std::span<const GateRank> ranks;
  int64_t waiting = 0;     ///< requests that wait in the group
  int64_t hold_ticks = 0;  ///< steps for which prefill has been held
};

/// True: let the held prefill go. λ is what arrives at the ranks without prefill, S the decode time that one misaligned prefill
/// step costs (its duration less a decode step's), d the duration of a decode step. Another held step costs waiting * d and saves
/// λ * d * S, so it pays while λ * S >= waiting; and it stops paying when as much time has been held as it could save. Never
/// before every rank has measured both steps, nor when all or no ranks have prefill.
bool gate_releases(const GateInput&);

}  // namespace isotope::sched
