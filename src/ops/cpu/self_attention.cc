#include "ops/cpu/self_attention.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"

namespace isotope::ops {
namespace {

using namespace kernels::cpu;

constexpr int kTilesOfChunk = kChunk / kTile;
constexpr int64_t kSegmentChunks = kSegment / kChunk;

/// Below so many multiply-adds in all, waking the team costs more than it saves.
constexpr int64_t kAlone = 100'000;

/// What one member works with: a sequence's keys and values of one head as tiles, and a block of queries.
struct Scratch {
  std::span<KvTile> tiles;
  float* q = nullptr;
  Partial run, segment;
};

class SelfAttention {
 public:
  SelfAttention(const SelfAttentionArgs& a, std::span<const int32_t> start, KvFormat format, const AttentionKernels& k, Tensor out)
      : a_(a), start_(start), k_(k), out_(out), format_(int(format)), dp_(padded_dim(a.head_dim)) {}

  void run(base::Team& team, base::Arena& arena) {
    for (size_t s = 0; s + 1 < start_.size(); ++s) {
      const int64_t n = start_[s + 1] - start_[s];
      longest_ = std::max(longest_, n);
      work_ += n * n * a_.heads * a_.head_dim * 2;
    }
    const int members = work_ <= kAlone ? 1 : team.size();
    const auto scratch = arena.take<Scratch>(size_t(members));
    for (Scratch& s : scratch) s = make_scratch(arena);
    if (members == 1) return take_heads(scratch[0]);
    team.share([&](int member) { take_heads(scratch[size_t(member)]); });
  }

 private:
  Scratch make_scratch(base::Arena& arena) const {
    const size_t tiles = size_t((longest_ + kChunk - 1) / kChunk) * kTilesOfChunk, element = size_t(kKvBytes[format_]);
    Scratch s;
    s.tiles = arena.take<KvTile>(tiles);
    const size_t k_bytes = size_t(a_.head_dim) * kTile * element, v_bytes = size_t(dp_) * kTile * element;
    const auto k = arena.take<std::byte>(tiles * k_bytes), v = arena.take<std::byte>(tiles * v_bytes);
    for (size_t t = 0; t < tiles; ++t) s.tiles[t] = {.k = k.data() + t * k_bytes, .v = v.data() + t * v_bytes};
    s.q = arena.take<float>(kQueryBytes / sizeof(float)).data();
    s.run.o = arena.take<float>(size_t(kMaxRows * dp_)).data();
    s.segment.o = arena.take<float>(size_t(kMaxRows * dp_)).data();
    return s;
  }

  /// Heads of sequences are handed out as members come for them.
  void take_heads(Scratch& s) {
    const unsigned state = k_.enter[format_]();
    const int64_t all = int64_t(start_.size() - 1) * a_.heads;
    for (int64_t n; (n = next_.fetch_add(1, std::memory_order_relaxed)) < all;) attend(size_t(n / a_.heads), n % a_.heads, s);
    k_.leave[format_](state);
  }

  void attend(size_t sequence, int64_t head, Scratch& s) const {
    const int64_t begin = start_[sequence], n = start_[sequence + 1] - begin, column = head * a_.head_dim;
    for (int64_t t = 0; t < n; ++t)
      k_.write[format_](s.tiles[size_t(t / kTile)], int(t % kTile), a_.k.row(begin + t) + column, a_.v.row(begin + t) + column, a_.head_dim);
    for (int64_t first = 0; first < n; first += kMaxRows) attend_rows(begin, first, int(std::min<int64_t>(kMaxRows, n - first)), n, column, s);
  }

  void attend_rows(int64_t begin, int64_t first, int rows, int64_t n, int64_t column, Scratch& s) const {
    const float* from[kMaxRows];
    float* to[kMaxRows];
    for (int r = 0; r < rows; ++r) {
      from[r] = a_.q.row(begin + first + r) + column;
      to[r] = out_.row(begin + first + r) + column;
    }
    k_.pack_q[format_](s.q, from, rows, a_.head_dim);
    k_.clear(s.run, rows, a_.head_dim);
    const int zeros[kMaxRows] = {};
    int ends[kMaxRows];
    for (int64_t c = 0; c * kChunk < n; ++c) {
      std::fill_n(ends, rows, int(std::min<int64_t>(kChunk, n - c * kChunk)));
      const KvTile* tiles = s.tiles.data() + c * kTilesOfChunk;
      if (c % kSegmentChunks == 0) k_.clear(s.segment, rows, a_.head_dim);
      k_.chunk[format_]({.q = s.q, .rows = rows, .d = a_.head_dim, .tiles = tiles, .next = tiles, .lo = zeros, .hi = ends, .scale = a_.scale}, s.segment);
      if ((c + 1) % kSegmentChunks == 0 || (c + 1) * kChunk >= n) k_.merge(s.run, s.segment, rows, a_.head_dim);
    }
    k_.finish(s.run, nullptr, to, rows, a_.head_dim);
  }

  const SelfAttentionArgs& a_;
  std::span<const int32_t> start_;
  const AttentionKernels& k_;
  Tensor out_;
  int format_, dp_;
  int64_t longest_ = 0, work_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
};

}  // namespace

void self_attention(const SelfAttentionArgs& args, std::span<const int32_t> query_start, KvFormat format, const SelfAttentionContext& c,
                    Tensor out) {
  SelfAttention(args, query_start, format, c.kernels, out).run(c.team, c.arena);
}

}  // namespace isotope::ops
