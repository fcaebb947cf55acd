// What the kernel ladders measure time with.
#pragma once

#include <time.h>

namespace isotope::bench {

/// Seconds; of the process' own CPU time if `own_time`, which is what one thread's work takes however busy the machine is.
inline double now(bool own_time) {
  timespec t;
  clock_gettime(own_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

}  // namespace isotope::bench
