// How ops with a state are cut: by sequence, head and sixteen channels, never by token.
#pragma once

#include <algorithm>
#include <cstring>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/share.h"

namespace isotope::ops {

constexpr int64_t kLanes = 16;

inline int64_t panels(int64_t n) { return (n + kLanes - 1) / kLanes; }
inline int lanes_at(int64_t first, int64_t n) { return int(std::min(kLanes, n - first)); }

/// f(row) for each row; on this thread alone when all together visit few elements.
template <class F>
void each_row(base::Team& team, int64_t rows, int64_t cost, F&& f) {
  for_rows(team, rows, cost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) f(r);
  });
}

struct SequenceRows {
  int64_t first, n;
  bool begins;  ///< the sequence's first token is among them: its state is zeros, whatever the slot holds
};
inline SequenceRows rows_of(const Batch& b, int64_t s) {
  const int32_t first = b.query_start[size_t(s)];
  return {first, b.query_start[size_t(s) + 1] - first, b.positions[size_t(first)] == 0};
}

inline void clear_if(bool begins, float* state, int64_t floats) {
  if (begins) std::memset(state, 0, size_t(floats) * sizeof(float));
}

inline std::span<const Batch::Capture> captures_of(const Batch& b, int64_t s) {
  const auto [first, last] = std::equal_range(b.captures.begin(), b.captures.end(), Batch::Capture{.seq = int32_t(s)},
                                              [](const Batch::Capture& x, const Batch::Capture& y) { return x.seq < y.seq; });
  return {first, last};
}

/// Tokens [begin, end) of the step's part of sequence s: walk(first, n) for each run of them up to a place where the state is captured, then keep(slot).
template <class Walk, class Keep>
void walk_captured(const Batch& b, int64_t s, int64_t begin, int64_t end, Walk&& walk, Keep&& keep) {
  int64_t done = begin;
  for (const Batch::Capture& c : captures_of(b, s)) {
    if (c.tokens <= begin || c.tokens > end) continue;
    walk(done, c.tokens - done);
    keep(c.slot);
    done = c.tokens;
  }
  if (done < end) walk(done, end - done);
}

/// Tokens of which keys and queries of one head (a KiB a token) stay in the second-level cache; whole chunks.
constexpr int64_t kSpan = 64;
static_assert(kSpan % kStateChunk == 0);

inline int rows_open(const Batch& b, int64_t row) { return b.positions[size_t(row)] % kStateChunk; }

/// How many spans the longest sequence of the step has at most.
inline int64_t spans_of(const Batch& b) {
  int64_t longest = 0;
  for (int64_t s = 0; s < b.S(); ++s) longest = std::max<int64_t>(longest, b.query_start[size_t(s) + 1] - b.query_start[size_t(s)]);
  return (longest + kStateChunk - 1 + kSpan - 1) / kSpan;
}

/// Tokens of a span of sequence s: those with positions in [span * kSpan, (span + 1) * kSpan), counted from the first token's chunk.
struct CpuOps::Span {
  int64_t first, n;  ///< rows of the batch
  int64_t begin;     ///< the same counted from the sequence's first row
  int at;            ///< rows of the open chunk before them
  bool begins;       ///< the sequence's first token is among them
  Span(const Batch& b, int64_t s, int64_t span) {
    const SequenceRows r = rows_of(b, s);
    const int before = rows_open(b, r.first);
    begin = span ? span * kSpan - before : 0;
    first = r.first + begin;
    n = std::min(r.n, (span + 1) * kSpan - before) - begin;
    at = span ? 0 : before;
    begins = r.begins && span == 0;
  }
};

template <class F>
void CpuOps::for_pieces(int64_t pieces, int64_t cost, F&& f) {
  const int64_t all = batch_.S() * pieces;
  const auto range = [&](int64_t i0, int64_t i1) {
    for (int64_t i = i0; i < i1; ++i) {
      const int64_t s = i / pieces;
      if (batch_.query_start[size_t(s)] < batch_.query_start[size_t(s) + 1]) f(s, i % pieces);
    }
  };
  if (batch_.T() * pieces * cost <= kAloneVisits) range(0, all);
  else team_.for_ranges(all, 1, range);
}

}  // namespace isotope::ops
