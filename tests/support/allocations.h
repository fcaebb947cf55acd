// Counts what operator new is asked for (nothing under sanitizers, which bring their own). Include it in exactly one file of a
// test program.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace isotope::test {
inline std::atomic<size_t> largest_allocation{0};
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Not inlined: the compiler would see malloc behind new and warn of mismatched pairs.
[[gnu::noinline]] void* operator new(size_t n) {
  size_t seen = isotope::test::largest_allocation;
  while (n > seen && !isotope::test::largest_allocation.compare_exchange_weak(seen, n)) {}
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif
