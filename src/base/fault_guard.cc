#include "base/fault_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <mutex>

namespace isotope::base {

namespace {

// Read by the handler on the thread that faulted; a thread-local pointer of the program itself needs no allocation there.
thread_local FaultGuard* t_guards = nullptr;

// The handler and what it replaced. Counted under a mutex, because the disposition of a signal belongs to the whole process.
std::mutex g_mutex;
int g_guards = 0;
struct sigaction g_before {};

uintptr_t page_size() noexcept {
  static const auto size = uintptr_t(::sysconf(_SC_PAGESIZE));
  return size;
}

// Only async-signal-safe calls: mmap and sigaction are plain system calls.
void on_fault(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const bool guarded = FaultGuard::replace(info->si_addr);
  errno = saved;
  if (guarded) return;
  if (g_before.sa_flags & SA_SIGINFO) return g_before.sa_sigaction(signal, info, context);
  if (g_before.sa_handler != SIG_DFL && g_before.sa_handler != SIG_IGN) return g_before.sa_handler(signal);
  // Back in the program, the same access faults again and ends it as it would have without us.
  ::signal(signal, SIG_DFL);
}

void install() noexcept {
  const std::lock_guard lock(g_mutex);
  if (g_guards++ > 0) return;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  ::sigaction(SIGBUS, &ours, &g_before);
}

void remove() noexcept {
  const std::lock_guard lock(g_mutex);
  if (--g_guards > 0) return;
  struct sigaction now {};
  ::sigaction(SIGBUS, nullptr, &now);
  // Somebody else's handler that came meanwhile stays.
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault) ::sigaction(SIGBUS, &g_before, nullptr);
}

}  // namespace

FaultGuard::FaultGuard(std::span<const std::byte> mapped) noexcept : next_(t_guards) {
  const uintptr_t page = page_size(), first = uintptr_t(mapped.data()), last = first + mapped.size();
  begin_ = reinterpret_cast<std::byte*>(first / page * page);
  end_ = mapped.empty() ? begin_ : reinterpret_cast<std::byte*>((last + page - 1) / page * page);
  install();
  t_guards = this;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

FaultGuard::~FaultGuard() {
  FaultGuard** link = &t_guards;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  remove();
}

bool FaultGuard::replace(const void* address) noexcept {
  for (FaultGuard* g = t_guards; g; g = g->next_) {
    const auto* at = static_cast<const std::byte*>(address);
    if (at < g->begin_ || at >= g->end_) continue;
    // The flag comes first: whoever sees a zero of ours can also see the flag.
    g->faulted_.store(true, std::memory_order_release);
    std::byte* page = g->begin_ + (at - g->begin_) / ptrdiff_t(page_size()) * ptrdiff_t(page_size());
    return ::mmap(page, size_t(g->end_ - page), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

}  // namespace isotope::base
