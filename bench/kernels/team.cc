// What it costs to go from one op to the next on a compute team: ns from the end of one piece of work to the begin of the next on all members, the least
// of many rounds. Each member's work is a chain of multiplications of about a microsecond; what one member alone needs for it is taken off.
// Zen 4, 2 cores: share 140 ns, barrier 78 ns.
//   share    one parallel region an op (Team::share): the caller opens a gate, members claim their part, the last one opens another gate
//   barrier  all ops in one region (Team::run), a Team::barrier() after each
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/team.h"

namespace {

using isotope::base::Team;

int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

constexpr int kOps = 200, kRounds = 300;

/// Least ns an op over all rounds of kOps ops.
template <class F>
double least(F round) {
  int64_t best = INT64_MAX;
  for (int i = 0; i < kRounds; ++i) {
    const int64_t start = now_ns();
    round();
    best = std::min(best, now_ns() - start);
  }
  return double(best) / kOps;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  Team team(threads);
  team.bind_caller();
  const auto work = [](int) {
    uint64_t v = 1;
    for (int i = 0; i < 1200; ++i) asm volatile("imul %0, %0" : "+r"(v));
  };
  const double alone = least([&] {
    for (int i = 0; i < kOps; ++i) work(0);
  });
  fmt::print("{} threads, ns an op, least of {} rounds of {} ops\n", team.size(), kRounds, kOps);
  fmt::print("work     {:7.1f}\n", alone);
  fmt::print("share    {:7.1f}\n", -alone + least([&] {
               for (int i = 0; i < kOps; ++i) team.share(work);
             }));
  fmt::print("barrier  {:7.1f}\n", -alone + least([&] {
               team.run([&](int member) {
                 for (int i = 0; i < kOps; ++i) work(member), team.barrier();
               });
             }));
}
