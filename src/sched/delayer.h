// The prefill delayer: holds prompts back while others decode, until a batch worth the interruption has gathered. One verdict
// for each pass of the scheduler. All that it knows is a handful of sums, so ranks that run in lockstep add theirs up and all
// come to the same verdict.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "levers/groups.h"

namespace isotope::sched {

/// What a rank reports in a pass, and what a group of ranks adds up to. All are sums.
struct Signals {
  int64_t ranks = 1;
  int64_t executed = 0;  ///< ranks that computed prompt tokens since the last verdict
  int64_t able = 0;      ///< ranks that could compute prompt tokens now
  int64_t pending = 0;   ///< prompt tokens that they could compute, one budget at most for each rank
  int64_t held = 0;      ///< requests whose tokens those are: who waits longer if they are held
  int64_t decoding = 0;  ///< running requests that are past their prompt
  int64_t partial = 0;   ///< ranks with a prompt part-way through
  int64_t kv_high = 0;   ///< able ranks at or above the high mark of KV usage
  int64_t kv_low = 0;    ///< able ranks below the low mark
  int64_t aged = 0;      ///< ranks whose oldest waiting prompt has reached the age bound
};

/// Adds up a group's signals; the order does not matter.
Signals combine(std::span<const Signals>);

/// How a pass ended. All before hold_decode_interval let prompts through.
enum class Exit : uint8_t { fill, stall, ttft, kv, partial, nodecode, queue_ms, cost, vacuous, hold_decode_interval, hold };
inline constexpr size_t kExits = 11;
std::string_view exit_name(Exit);
inline constexpr bool fires(Exit e) { return e < Exit::hold_decode_interval; }

/// Asked during a hold in which some rank has nothing to prefill: whether one more held decode step no longer pays off
/// (cost_gate.h). Empty where the cost of prefill steps is not balanced.
using CostGate = std::function<bool(int64_t hold_ticks)>;

/// Whether a scheduler has a delayer at all: in a lockstep group by the master switch alone, else the interval must be set too.
bool delayer_active(const levers::PrefillDelayer&, bool lockstep_group);

class Delayer {
 public:
  /// `budget` = max_num_batched_tokens.
  Delayer(const levers::PrefillDelayer& settings, int64_t budget) : settings_(settings), budget_(budget) {}

  const levers::PrefillDelayer& settings() const { return settings_; }
  /// Whether the next verdict falls into decode protection, where only the existence of work matters and nothing need be probed.
  bool protects(bool executed) const { return (executed ? settings_.decode_interval : protect_) > 0; }
  Exit decide(const Signals&, const CostGate& gate = {});

  int64_t count(Exit e) const { return counts_[size_t(e)]; }
  int64_t verdicts() const { return verdicts_; }
  int64_t holds() const { return count(Exit::hold) + count(Exit::hold_decode_interval); }
  /// A line for the last verdict with its inputs.
  std::string debug_line(const Signals&, Exit) const;
  /// A summary is due after every log_every verdicts.
  bool summary_due() const { return settings_.log_every > 0 && verdicts_ > 0 && verdicts_ % settings_.log_every == 0; }
  std::string summary() const;

 private:
  Exit judge(const Signals&, const CostGate&);
  Exit gather(const Signals&, const CostGate&);
  Exit hold();

  levers::PrefillDelayer settings_;
  int64_t budget_;
  bool first_ = true;
  int64_t protect_ = 0;           ///< passes of decode protection left
  int64_t hold_ticks_ = 0;        ///< passes held since the last release
  int64_t stall_ = 0;             ///< passes in which nothing was added
  int64_t previous_pending_ = -1;
  int64_t verdicts_ = 0;
  std::array<int64_t, kExits> counts_{};
};

}  // namespace isotope::sched
