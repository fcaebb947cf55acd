#include "kv/walk.h"

#include <algorithm>

namespace isotope::kv {

namespace {

constexpr int64_t kRounds[] = {1, 16, 64};

int64_t slow_run(const BlockPool& pool, const Chain& c, int64_t limit, std::span<int32_t> ids, CacheCounters& n) {
  for (int64_t b = 0; b < limit; ++b) {
    ++n.slow_lookups;
    ++n.token_compares;
    if ((ids[size_t(b)] = pool.find(c.links[size_t(b)], c.block(b))) < 0) return b;
  }
  return limit;
}

/// Cuts a run that was found by hash at the first block that is not what its hash says.
int64_t verified(const BlockPool& pool, const Chain& c, int64_t run, std::span<const int32_t> ids, CacheCounters& n) {
  const auto holds = [&](int64_t b) {
    ++n.token_compares;
    return pool.holds(ids[size_t(b)], c.links[size_t(b)], c.block(b));
  };
  if (run == 0 || holds(run - 1)) return run;
  for (int64_t b = 0; b < run; ++b)
    if (!holds(b)) return b;
  return run;
}

}  // namespace

int64_t walk_run(const BlockPool& pool, const Chain& c, int64_t limit, bool fast, std::span<int32_t> ids, CacheCounters& n) {
  if (!fast) return slow_run(pool, c, limit, ids, n);
  int64_t run = 0;
  for (size_t round = 0; run < limit; ++round) {
    const size_t size = size_t(std::min(kRounds[std::min(round, std::size(kRounds) - 1)], limit - run));
    const int64_t found = pool.find_run(c.links.subspan(size_t(run), size), ids.subspan(size_t(run), size));
    run += found;
    n.fast_lookups += std::min(int64_t(size), found + 1);
    if (found < int64_t(size)) break;
  }
  return verified(pool, c, run, ids, n);
}

int64_t walk_window(const BlockPool& pool, const Chain& c, int64_t blocks, int64_t window, std::span<int32_t> ids,
                    CacheCounters& n) {
  int64_t end = blocks, run = 0;  // [end - run, end) is cached
  for (int64_t b = blocks - 1; b >= 0 && run < window; --b) {
    ++n.slow_lookups;
    ++n.token_compares;
    if ((ids[size_t(b)] = pool.find(c.links[size_t(b)], c.block(b))) >= 0) {
      ++run;
    } else {
      end = b;
      run = 0;
    }
  }
  return end;  // a run that reaches block 0 needs nothing before it
}

}  // namespace isotope::kv
