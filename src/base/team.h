// The compute team: a fixed set of threads that run one function together. The caller is member 0, so no core idles while the
// engine thread waits. Members spin briefly, then park; an idle team uses no CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace isotope::base {

class Team {
 public:
  /// `threads` members including the caller. `pin`: bind member i >= 1 to the i-th physical core of the process' cpuset (hwloc), unless there are more
  /// members than cores; if the system refuses the team goes on unpinned, and with fewer members when no more threads can be started. The caller is left alone: see bind_caller().
  /// `first_core`: the team keeps to the cores from this one on, so that teams can share a machine without sharing cores; then a lone caller is bound too.
  /// A team that reaches beyond the last core runs unpinned and hardly spins. -1: the whole machine is its own.
  explicit Team(int threads, bool pin = true, int first_core = -1);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  /// Calls f(member) on every member at the same time, so that f may use barrier(), and returns when all are done. One caller at a time, not
  /// reentrant; f must not throw.
  template <class F>
  void run(F&& f) {
    start(f, false);
  }

  /// Calls f(member) once for every member number. What a member has not begun when the caller is done with its own part the caller does itself: a thread
  /// that the system does not let run holds nobody up. No barrier() inside.
  template <class F>
  void share(F&& f) {
    start(f, true);
  }

  /// Cuts [0, n) into contiguous ranges of multiples of `grain` (but for the last) and calls f(begin, end) for each, at most one range a member.
  /// Which member gets which range never changes a result: kernels compute every output element in an order of its own.
  template <class F>
  void for_ranges(int64_t n, int64_t grain, F&& f) {
    if (n <= 0) return;
    const int64_t units = (n + grain - 1) / grain;
    if (size_ == 1 || units == 1) return void(f(int64_t{0}, n));
    share([&](int member) {
      const int64_t a = units * member / size_ * grain, b = units * (member + 1) / size_ * grain;
      if (a < n && a < b) f(a, b < n ? b : n);
    });
  }

  /// Inside run(): waits until every member has arrived. Less than 1 µs at 2 threads.
  void barrier() noexcept;

  /// Binds the calling thread, which will call run() from now on, to member 0's core. For a thread that does nothing else and starts no threads
  /// (they would inherit the binding). Does nothing when the team is not pinned.
  void bind_caller() noexcept;

 private:
  using Raw = void (*)(void*, int) noexcept;
  template <class F>
  void start(F& f, bool take_over) {
    start_raw([](void* p, int member) noexcept { (*static_cast<F*>(p))(member); }, const_cast<void*>(static_cast<const void*>(&f)), take_over);
  }
  void start_raw(Raw f, void* arg, bool take_over);
  struct Impl;
  int size_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isotope::base
