#include "ops/cpu/limits.h"

#include <algorithm>
#include <chrono>
#include <vector>

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

MachineLimits measure_limits(base::Team& team, const kernels::cpu::KernelTable& kernels, double seconds) {
  MachineLimits m;
  const int n = team.size();
  constexpr int64_t kRounds = 200'000;
  constexpr int64_t kOpsPerRound = 10 * 64 * 2;
  m.int8_ops = best_rate(seconds / 2, double(n) * kRounds * kOpsPerRound, [&] {
    team.run([&](int) {
      int32_t sink[16];
      kernels.limits.int8_dots(kRounds, sink);
    });
  });
  constexpr size_t kBytes = size_t{256} << 20;
  std::vector<uint8_t> data(kBytes, 1);
  const size_t share = kBytes / size_t(n) / 256 * 256;
  m.read_bytes = best_rate(seconds / 2, double(share) * n, [&] {
    team.run([&](int member) {
      volatile uint64_t keep = kernels.limits.read(data.data() + share * size_t(member), share);
      (void)keep;
    });
  });
  return m;
}

}  // namespace isotope::ops
