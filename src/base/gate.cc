#include "base/gate.h"

#include <sched.h>

#include <chrono>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace isotope::base {
namespace {

void relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr int kSpinsPerLookAtTheClock = 32;

int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void Gate::wait(uint32_t seen, const Patience& patience) noexcept {
  int64_t deadline = 0;
  for (;;) {
    for (int i = 0; i < kSpinsPerLookAtTheClock; ++i) {
      if (value() != seen) return;
      relax();
    }
    const int64_t now = now_ns();
    if (deadline == 0) deadline = now + patience.spin_ns;
    if (now >= deadline) break;
  }
  for (int i = 0; i < patience.yields; ++i) {
    if (value() != seen) return;
    sched_yield();
  }
  park(seen);
}

#if defined(__linux__)
void Gate::park(uint32_t seen) noexcept {
  parked_.fetch_add(1, std::memory_order_seq_cst);
  while (word_.load(std::memory_order_seq_cst) == seen) syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  parked_.fetch_sub(1, std::memory_order_relaxed);
}
void Gate::wake() noexcept { syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0); }
#else
void Gate::park(uint32_t seen) noexcept {
  parked_.fetch_add(1, std::memory_order_seq_cst);
  while (word_.load(std::memory_order_seq_cst) == seen) word_.wait(seen, std::memory_order_seq_cst);
  parked_.fetch_sub(1, std::memory_order_relaxed);
}
void Gate::wake() noexcept { word_.notify_all(); }
#endif

}  // namespace isotope::base
