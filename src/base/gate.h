// A word that threads wait on: first spinning, then giving way, then parked in the kernel. The building block of Team.
#pragma once

#include <atomic>
#include <cstdint>

namespace isotope::base {

/// How long a waiting thread burns its core before it parks. With more threads than cores the core belongs to somebody who has work.
struct Patience {
  int64_t spin_ns = 0;
  int yields = 0;  ///< sched_yield() calls between spinning and parking
};

class alignas(64) Gate {
 public:
  uint32_t value() const noexcept { return word_.load(std::memory_order_acquire); }

  /// Moves the word on and wakes whoever parked on the old value. What was written before is visible to those who see the new value.
  void open() noexcept {
    word_.fetch_add(1, std::memory_order_seq_cst);
    if (parked_.load(std::memory_order_seq_cst) != 0) wake();
  }

  /// Returns as soon as the word differs from `seen`.
  void wait(uint32_t seen, const Patience& patience) noexcept;

 private:
  void park(uint32_t seen) noexcept;
  void wake() noexcept;

  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> parked_{0};
};

}  // namespace isotope::base
