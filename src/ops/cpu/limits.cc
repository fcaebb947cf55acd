#include "ops/cpu/limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "ops/cpu/pages.h"

namespace isotope::ops {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Best rate of `amount` per call over `seconds`.
template <class F>
double best_rate(double seconds, double amount, F&& f) {
  double best = 0;
  const auto begin = Clock::now();
  do {
    const auto t = Clock::now();
    f();
    best = std::max(best, amount / since(t));
  } while (since(begin) < seconds);
  return best;
}

}  // namespace

Result<ReadTest> ReadTest::make() {
  constexpr size_t kBytes = size_t{512} << 20;
  ReadTest t;
  ISO_TRY(t.memory_, Pages::reserve(kBytes, "bandwidth test"));
  madvise(t.memory_.data(), kBytes, MADV_HUGEPAGE);  // as the weights' memory; a hint, so its failure changes nothing
  std::memset(t.memory_.data(), 1, kBytes);
  return t;
}

double ReadTest::seconds(base::Team& team, const kernels::cpu::KernelTable& kernels, int64_t bytes) const {
  const size_t share = memory_.size() / size_t(team.size()) / 256 * 256;
  const auto start = Clock::now();
  team.run([&](int member) {
    for (size_t left = size_t(std::max<int64_t>(bytes, 0)) / size_t(team.size()), n; left >= 256; left -= n) {
      n = std::min(left, share) / 256 * 256;
      volatile uint64_t keep = kernels.limits.read(memory_.data() + share * size_t(member), n);
      (void)keep;
    }
  });
  return since(start);
}

MachineLimits measure_limits(base::Team& team, const kernels::cpu::KernelTable& kernels, double seconds) {
  MachineLimits m;
  const int n = team.size();
  constexpr int64_t kRounds = 40'000;
  alignas(64) uint8_t codes[128];
  std::memset(codes, 5, sizeof codes);
  const int8_t a[12] = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12};
  int32_t sink[16];
  const int64_t ops = kernels.limits.int8_dots(1, codes, a, sink) * kRounds * n;
  m.int8_ops = best_rate(seconds / 4, double(ops), [&] {
    team.run([&](int) {
      int32_t out[16];
      kernels.limits.int8_dots(kRounds, codes, a, out);
    });
  });
  const float factors[2] = {0.999f, 0.001f};
  float float_sink[16];
  const int64_t fmas = kernels.limits.float_fmas(1, factors, float_sink) * 10 * kRounds * n;
  m.float_ops = best_rate(seconds / 4, double(fmas), [&] {
    team.run([&](int) {
      float out[16];
      kernels.limits.float_fmas(10 * kRounds, factors, out);
    });
  });
  const uint16_t ones[2] = {0x3f80, 0x3f80};
  const int64_t dots = kernels.limits.bf16_dots(1, ones, float_sink) * 10 * kRounds * n;
  m.bf16_ops = best_rate(seconds / 4, double(dots), [&] {
    team.run([&](int) {
      float out[16];
      kernels.limits.bf16_dots(10 * kRounds, ones, out);
    });
  });
  if (const auto memory = ReadTest::make()) {
    const auto begin = Clock::now();
    do m.read_bytes = std::max(m.read_bytes, double(memory->size()) / memory->seconds(team, kernels, memory->size()));
    while (since(begin) < seconds / 4);
  }
  return m;
}

}  // namespace isotope::ops
