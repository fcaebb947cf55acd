#include "base/team.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <vector>

#include "base/gate.h"
#include "base/topology.h"

namespace isotope::base {
namespace {
// Between two regions of a step lie a few µs of the caller's own work, between two steps sampling and delivery; parking costs tens of µs to undo.
constexpr Patience kOwnCore{.spin_ns = 100'000, .yields = 0};
constexpr Patience kSharedCore{.spin_ns = 1'000, .yields = 4};
}  // namespace

struct Team::Impl {
  Gate start;
  Gate finish;
  Gate arrive;
  alignas(64) std::atomic<int> running{0};
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) Raw f = nullptr;
  void* arg = nullptr;
  bool stop = false;
  Patience patience = kSharedCore;
  int caller_cpu = -1;
  std::vector<std::thread> threads;

  void loop(int member) noexcept {
    for (uint32_t seen = 0;;) {
      start.wait(seen, patience);
      ++seen;  // a member that has not finished holds the next start back, so no value is ever missed
      if (stop) return;
      f(arg, member);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) finish.open();
    }
  }
};

Team::Team(int threads, bool pin) : size_(std::max(threads, 1)), impl_(std::make_unique<Impl>()) {
  if (size_ == 1) return;
  const Topology& m = machine();
  const bool fits = size_ <= m.default_threads();
  if (fits) impl_->patience = kOwnCore;
  pin = pin && fits;
  if (pin) impl_->caller_cpu = m.cores[0];
  for (int i = 1; i < size_; ++i) {
    impl_->threads.emplace_back([s = impl_.get(), i, cpu = pin ? m.cores[size_t(i)] : -1] {
      char name[16];
      std::snprintf(name, sizeof name, "iso-team-%d", i);
      pthread_setname_np(pthread_self(), name);
      bind_thread(cpu);
      s->loop(i);
    });
  }
}

Team::~Team() {
  impl_->stop = true;
  impl_->start.open();
  for (auto& t : impl_->threads) t.join();
}

void Team::run_raw(Raw f, void* arg) {
  if (size_ == 1) return f(arg, 0);
  Impl& s = *impl_;
  s.f = f;
  s.arg = arg;
  s.running.store(size_ - 1, std::memory_order_relaxed);
  const uint32_t round = s.finish.value();
  s.start.open();
  f(arg, 0);
  s.finish.wait(round, s.patience);
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
