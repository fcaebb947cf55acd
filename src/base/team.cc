#include "base/team.h"

#include <immintrin.h>

#include <atomic>
#include <thread>
#include <vector>

namespace isotope::base {

namespace {
constexpr int kSpins = 4000;
void relax() noexcept { _mm_pause(); }
}  // namespace

struct Team::Impl {
  alignas(64) std::atomic<uint32_t> epoch{0};
  alignas(64) std::atomic<int> pending{0};
  alignas(64) std::atomic<int> arrived{0};
  std::atomic<uint32_t> generation{0};
  std::atomic<bool> stop{false};
  Raw f = nullptr;
  void* arg = nullptr;
  std::vector<std::thread> threads;

  void loop(int member) noexcept {
    uint32_t seen = 0;
    for (;;) {
      int spins = 0;
      uint32_t e;
      while ((e = epoch.load(std::memory_order_acquire)) == seen) {
        if (++spins < kSpins) relax();
        else epoch.wait(seen, std::memory_order_acquire);
      }
      seen = e;
      if (stop.load(std::memory_order_relaxed)) return;
      f(arg, member);
      pending.fetch_sub(1, std::memory_order_release);
    }
  }
};

Team::Team(int threads, bool /*pin*/) : size_(threads < 1 ? 1 : threads), impl_(std::make_unique<Impl>()) {
  for (int i = 1; i < size_; ++i) impl_->threads.emplace_back([this, i] { impl_->loop(i); });
}

Team::~Team() {
  impl_->stop = true;
  impl_->epoch.fetch_add(1, std::memory_order_release);
  impl_->epoch.notify_all();
  for (auto& t : impl_->threads) t.join();
}

void Team::run_raw(Raw f, void* arg) {
  if (size_ == 1) return f(arg, 0);
  Impl& s = *impl_;
  s.f = f;
  s.arg = arg;
  s.pending.store(size_ - 1, std::memory_order_relaxed);
  s.epoch.fetch_add(1, std::memory_order_release);
  s.epoch.notify_all();
  f(arg, 0);
  while (s.pending.load(std::memory_order_acquire) != 0) relax();
}

void Team::barrier() noexcept {
  if (size_ == 1) return;
  Impl& s = *impl_;
  const uint32_t g = s.generation.load(std::memory_order_acquire);
  if (s.arrived.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
    s.arrived.store(0, std::memory_order_relaxed);
    s.generation.fetch_add(1, std::memory_order_release);
    return;
  }
  while (s.generation.load(std::memory_order_acquire) == g) relax();
}

}  // namespace isotope::base
