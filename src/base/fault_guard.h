// Reading a mapped file whose pages may vanish: another process truncated it, or the storage failed. The kernel answers such a read
// with SIGBUS, which would end the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace isotope::base {

/// While it lives, this thread reads zeros instead of faulting where a page of `mapped` cannot be read, and faulted() tells so afterwards. From the
/// page that faulted to the end of `mapped` the mapping is then zeros for good, for every thread: give it up.
///
/// The handler is installed with the first guard of the process and removed with the last; faults elsewhere go to the handler that was there before.
/// A thread may have several; each is destroyed by the thread that made it.
class FaultGuard {
 public:
  explicit FaultGuard(std::span<const std::byte> mapped) noexcept;
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  bool faulted() const noexcept { return faulted_.load(std::memory_order_acquire); }

  /// For the signal handler: replaces the pages from `address` on. False if `address` is not guarded on this thread.
  static bool replace(const void* address) noexcept;

 private:
  std::byte *begin_, *end_;  ///< whole pages
  FaultGuard* next_;  ///< of this thread
  std::atomic<bool> faulted_{false};
};

}  // namespace isotope::base
