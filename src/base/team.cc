#include "base/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <thread>
#include <vector>

#include "base/gate.h"
#include "base/log.h"
#include "base/topology.h"

namespace isotope::base {
namespace {
// Between two regions of a step lie a few µs of the caller's own work, between two steps sampling and delivery; parking costs tens of µs to undo.
constexpr Patience kOwnCore{.spin_ns = 100'000, .yields = 0};
constexpr Patience kSharedCore{.spin_ns = 1'000, .yields = 4};
// How often (in rounds, a power of two) a caller that is bound nowhere looks whether the system has put it on a member's core.
constexpr uint32_t kLookEvery = 16;

/// Moves the calling thread to `cpu` once, without binding it there.
void move_to(int cpu) noexcept {
  cpu_set_t before;
  const pthread_t self = pthread_self();
  if (pthread_getaffinity_np(self, sizeof before, &before) != 0 || !CPU_ISSET(cpu, &before)) return;
  if (bind_thread(cpu)) pthread_setaffinity_np(self, sizeof before, &before);
}
}  // namespace

/// Every member number is claimed once in each round, by its member or by the caller: last_round moves on to the round.
struct alignas(64) Claim {
  std::atomic<uint32_t> last_round{0};
  bool take(uint32_t round) noexcept {
    uint32_t before = round - 1;
    return last_round.load(std::memory_order_relaxed) == before &&
           last_round.compare_exchange_strong(before, round, std::memory_order_acq_rel, std::memory_order_relaxed);
  }
};

struct Team::Impl {
  Gate start;  ///< its value is the number of the round
  Gate finish;
  Gate arrive;
  alignas(64) std::atomic<int> running{0};
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) Raw f = nullptr;  ///< of the current round; read only by who holds a claim of it
  void* arg = nullptr;
  std::atomic<bool> stop{false};
  Patience patience = kSharedCore;
  int caller_cpu = -1;          ///< -1: the team is not pinned
  std::vector<int> member_cpus; ///< of the members that are
  std::vector<Claim> claims;
  std::vector<std::thread> threads;

  /// A member cannot leave its core for a caller that happens to sit on it, and while both wait by spinning the system sees no reason to part them.
  void step_aside() noexcept {
    if (std::find(member_cpus.begin(), member_cpus.end(), sched_getcpu()) != member_cpus.end()) move_to(caller_cpu);
  }

  /// True if nobody is left running.
  bool done() noexcept { return running.fetch_sub(1, std::memory_order_acq_rel) == 1; }

  void loop(int member) noexcept {
    for (uint32_t seen = 0;;) {
      start.wait(seen, patience);
      // In this order: the destructor says stop before it opens the gate for the last time, so who reads that value sees the stop, and nobody takes it for a round.
      seen = start.value();
      if (stop.load(std::memory_order_acquire)) return;
      if (!claims[size_t(member)].take(seen)) continue;
      f(arg, member);
      if (done()) finish.open();
    }
  }
};

Team::Team(int threads, bool pin, int first_core) : size_(std::max(threads, 1)), impl_(std::make_unique<Impl>()) {
  const Topology& m = machine();
  const int first = std::max(first_core, 0);
  const bool fits = size_ <= m.default_threads() - first;
  if (fits) impl_->patience = kOwnCore;
  pin = pin && fits;
  if (pin && (size_ > 1 || first_core >= 0)) {
    impl_->caller_cpu = m.cores[size_t(first)];
    impl_->member_cpus.assign(m.cores.begin() + first + 1, m.cores.begin() + first + size_);
  }
  if (size_ == 1) return;
  impl_->claims = std::vector<Claim>(size_t(size_));
  const auto body = [s = impl_.get()](int member, int cpu) {
    char name[16];
    std::snprintf(name, sizeof name, "iso-team-%d", member);
    pthread_setname_np(pthread_self(), name);
    bind_thread(cpu);
    s->loop(member);
  };
  for (int i = 1; i < size_; ++i) {
    try {
      impl_->threads.emplace_back(body, i, pin ? m.cores[size_t(first + i)] : -1);
    } catch (const std::system_error& e) {  // a limit of the user or the container; the number of threads never changes a result
      log(LogLevel::warning, "{} of {} threads could be started ({}); going on with these", i, size_, e.what());
      size_ = i;
    }
  }
}

Team::~Team() {
  impl_->stop.store(true, std::memory_order_release);
  impl_->start.open();
  for (auto& t : impl_->threads) t.join();
}

void Team::start_raw(Raw f, void* arg, bool take_over) {
  if (size_ == 1) return f(arg, 0);
  Impl& s = *impl_;
  s.f = f;
  s.arg = arg;
  s.running.store(size_ - 1, std::memory_order_relaxed);
  const uint32_t finished = s.finish.value(), round = s.start.value() + 1;
  if (s.caller_cpu >= 0 && round % kLookEvery == 0) s.step_aside();
  s.start.open();
  f(arg, 0);
  bool all_done = false;
  for (int m = 1; take_over && m < size_; ++m) {
    if (!s.claims[size_t(m)].take(round)) continue;
    f(arg, m);
    all_done = s.done();
  }
  if (!all_done) s.finish.wait(finished, s.patience);
}

void Team::barrier() noexcept {
  if (size_ == 1) return;
  Impl& s = *impl_;
  const uint32_t round = s.arrive.value();
  if (s.arrived.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
    s.arrived.store(0, std::memory_order_relaxed);
    s.arrive.open();
  } else {
    s.arrive.wait(round, s.patience);
  }
}

void Team::bind_caller() noexcept {
  if (impl_->caller_cpu >= 0) bind_thread(impl_->caller_cpu);
}

}  // namespace isotope::base
