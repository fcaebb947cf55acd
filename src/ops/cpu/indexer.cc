#include "ops/cpu/indexer.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"

namespace isotope::ops {
namespace {

using namespace kernels::cpu;

// Scores of so many keys are computed by one member at a time, and about so many are kept before tokens choose by them.
constexpr int64_t kRangeTiles = 64, kScoresKept = 1 << 20;

/// A token's tiles [first, last).
struct Range {
  int32_t token = 0, seq = 0;
  int64_t first = 0, last = 0;
};

struct Scratch {
  std::byte* q = nullptr;
  std::byte* tile = nullptr;  ///< for keys that are kept as rows
  float* scales = nullptr;    ///< [16]
  float* best = nullptr;      ///< of blocks
  float* picked = nullptr;    ///< of keys within blocks
  int32_t* blocks = nullptr;
};

class IndexRun {
 public:
  IndexRun(const IndexArgs& a, const SparseContext& c, BlockMemory& found)
      : a_(a), c_(c), found_(found), spec_(c.kv.spec(a.layer)), format_(int(c.kv.format())), rows_(spec_.form == KvForm::rows), lists_(a.weights || a.summed ? 1 : a.heads) {}

  Chosen run(base::Arena& memory) {
    memory.reset();
    Chosen out{.made = true, .lists = lists_};
    int64_t longest = 0, work = 0;
    out.all = true;
    for (int32_t position : c_.batch.positions) {
      const int64_t n = seen(position);
      longest = std::max(longest, n);
      work += n * a_.heads * a_.dim;
      out.all = out.all && (n + a_.block - 1) / a_.block <= a_.top;
    }
    const int64_t T = c_.batch.T();
    if (a_.blocks) find_room(longest, out.all);
    if (out.all) return out;
    ISO_CHECK(!a_.within || found_.found.made);
    // Chosen are keys, keys of blocks, or the tokens that keys stand for and those after the last whole key.
    out.most = a_.tokens ? a_.top * spec_.every + spec_.every - 1 : std::min(longest, a_.top * a_.block);
    out.keys = memory.take<int32_t>(size_t(T * lists_ * out.most));
    out.counts = memory.take<int32_t>(size_t(T * lists_));
    width_ = (longest + kTile - 1) / kTile * kTile;
    alone_ = c_.team.size() == 1 || work <= c_.alone;
    make_scratch();
    seq_of_ = c_.arena.take<int32_t>(size_t(T));
    for (int64_t s = 0; s < c_.batch.S(); ++s)
      for (int32_t t = c_.batch.query_start[size_t(s)]; t < c_.batch.query_start[size_t(s) + 1]; ++t) seq_of_[size_t(t)] = int32_t(s);
    const int64_t kept = c_.score_bytes > 0 ? std::min(kScoresKept, c_.score_bytes / int64_t(sizeof(float))) : kScoresKept;
    const int64_t at_once = std::clamp<int64_t>(kept / (lists_ * width_), 1, T);
    scores_ = c_.arena.take<float>(size_t(at_once * lists_ * width_));
    ranges_ = c_.arena.take<Range>(size_t(at_once * ((width_ / kTile + kRangeTiles - 1) / kRangeTiles)));
    for (int64_t t = 0; t < T; t += at_once) choose_some(t, std::min(T, t + at_once), out);
    return out;
  }

 private:
  int64_t seen(int32_t position) const { return (int64_t{position} + 1) / spec_.every; }

  /// For the blocks that this choice finds. Where every token gets all of its keys later layers do so as well.
  void find_room(int64_t longest, bool all_keys) {
    found_.memory.reset();
    FoundBlocks& f = found_.found;
    f = {.made = true, .all = all_keys || longest <= a_.blocks * a_.block_keys, .keys = a_.block_keys};
    if (f.all) return;
    f.most = a_.blocks;
    f.blocks = found_.memory.take<int32_t>(size_t(c_.batch.T() * f.most));
    f.counts = found_.memory.take<int32_t>(size_t(c_.batch.T()));
  }
  bool finds() const { return a_.blocks && !found_.found.all; }
  bool within() const { return a_.within && !found_.found.all; }

  void make_scratch() {
    if (a_.summed) {
      ones_ = c_.arena.take<float>(size_t(a_.heads));
      std::fill(ones_.begin(), ones_.end(), 1.0f);
    }
    scratch_ = c_.arena.take<Scratch>(size_t(c_.team.size()));
    for (Scratch& s : scratch_) {
      s = {};
      s.q = c_.arena.take<std::byte>(size_t(index_query_bytes(a_.heads, a_.dim))).data();
      if (rows_)
        s.tile = c_.arena.take<std::byte>(size_t(kTile * padded_dim(a_.dim) * kKvBytes[format_])).data(),
        s.scales = c_.arena.take<float>(kTile).data();
      if (a_.tokens) s.blocks = c_.arena.take<int32_t>(size_t(a_.top)).data();
      if (finds()) s.best = c_.arena.take<float>(size_t(width_ / a_.block_keys + 1)).data();
      if (within()) s.picked = c_.arena.take<float>(size_t(width_)).data();
      if (a_.block > 1) s.best = c_.arena.take<float>(size_t(width_ / a_.block + 1)).data(), s.blocks = c_.arena.take<int32_t>(size_t(a_.top)).data();
    }
  }

  /// f(n, scratch) for each n below `count`, by whoever comes for it.
  template <class F>
  void each(int64_t count, F f) {
    if (alone_ || count == 1) {
      for (int64_t n = 0; n < count; ++n) f(n, scratch_[0]);
      return;
    }
    std::atomic<int64_t> next{0};
    c_.team.share([&](int member) {
      for (int64_t n; (n = next.fetch_add(1, std::memory_order_relaxed)) < count;) f(n, scratch_[size_t(member)]);
    });
  }

  /// Tokens [t0, t1): all scores, then all choices.
  void choose_some(int64_t t0, int64_t t1, Chosen& out) {
    size_t ranges = 0;
    for (int64_t t = t0; t < t1; ++t) {
      const int64_t tiles = (seen(c_.batch.positions[size_t(t)]) + kTile - 1) / kTile;
      for (int64_t first = 0; first < tiles; first += kRangeTiles)
        ranges_[ranges++] = {int32_t(t), seq_of_[size_t(t)], first, std::min(tiles, first + kRangeTiles)};
    }
    each(int64_t(ranges), [&](int64_t n, Scratch& s) {
      const unsigned state = c_.kernels.attention.enter[format_]();
      score(ranges_[size_t(n)], t0, s);
      c_.kernels.attention.leave[format_](state);
    });
    each((t1 - t0) * lists_, [&](int64_t n, Scratch& s) {
      const int64_t t = t0 + n / lists_, list = t * lists_ + n % lists_, position = c_.batch.positions[size_t(t)];
      const std::span<const float> scores(scores_of(t - t0, int(n % lists_)), size_t(seen(int32_t(position))));
      int32_t* const keys = out.keys.data() + list * out.most;
      FoundBlocks& f = found_.found;
      if (finds()) f.counts[size_t(t)] = int32_t(best_blocks(scores, f.keys, 1, f.most, s.best, &f.blocks[size_t(t * f.most)]));
      out.counts[size_t(list)] = int32_t(within()         ? choose_within(scores, f.of(t), f.keys, a_.top, s.picked, keys)
                                         : a_.tokens     ? choose_tokens(scores, {a_.top, spec_.every, position + 1}, s.blocks, keys)
                                         : a_.block == 1 ? choose_top(scores, a_.top, keys)
                                                         : choose_blocks(scores, a_.block, a_.local, a_.top, s.best, s.blocks, keys));
    });
  }

  float* scores_of(int64_t token, int list) const { return scores_.data() + (token * lists_ + list) * width_; }

  void score(const Range& r, int64_t t0, Scratch& s) const {
    pack(r.token, s.q);
    if (!rows_) {
      KvTile tiles[kRangeTiles];
      for (int64_t i = r.first; i < r.last; ++i) tiles[i - r.first] = tile_at(r, i);
      return score_tiles(r, t0, s, tiles, r.first, int(r.last - r.first));
    }
    for (int64_t i = r.first; i < r.last; ++i) {
      const KvTile tile = gather(r, i, s);
      score_tiles(r, t0, s, &tile, i, 1);
    }
  }

  void pack(int32_t token, std::byte* to) const {
    const auto pack_index = c_.kernels.sparse.pack_index[format_];
    if (a_.weights || a_.summed) return pack_index(to, a_.q.row(token), a_.heads, a_.dim);
    for (int h = 0; h < a_.heads; ++h) pack_index(to + index_query_bytes(h, a_.dim), a_.q.row(token) + int64_t{h} * a_.dim, 1, a_.dim);
  }

  void score_tiles(const Range& r, int64_t t0, const Scratch& s, const KvTile* tiles, int64_t first, int count) const {
    IndexJob job{.q = s.q, .heads = a_.heads, .d = a_.dim, .scale = a_.scale, .tiles = tiles, .count = count};
    if (a_.weights || a_.summed) {
      job.weights = a_.weights ? a_.weights.row(r.token) : ones_.data();
      job.out = scores_of(r.token - t0, 0) + first * kTile;
      return c_.kernels.sparse.index[format_](job);
    }
    job.heads = 1;
    for (int h = 0; h < a_.heads; ++h) {
      job.q = s.q + index_query_bytes(h, a_.dim);
      job.out = scores_of(r.token - t0, h) + first * kTile;
      c_.kernels.sparse.index[format_](job);
    }
  }

  KvTile tile_at(const Range& r, int64_t tile) const {
    const int64_t token = tile * kTile;
    const int32_t block = c_.table(a_.layer, r.seq)[token / c_.kv.block_size];
    ISO_CHECK(block >= 0);
    return c_.kv.tile(a_.layer, block, 0, int(token % c_.kv.block_size) / kTile);
  }

  /// Entries that the token does not see stay what the scratch holds; nobody asks for their scores.
  KvTile gather(const Range& r, int64_t tile, const Scratch& s) const {
    const KvTile out{.k = s.tile, .k_scale = s.scales};
    const int64_t end = std::min(seen(c_.batch.positions[size_t(r.token)]), (tile + 1) * kTile);
    for (int64_t e = tile * kTile; e < end; ++e) {
      const int64_t last = (e + 1) * spec_.every - 1;
      const int32_t block = c_.table(a_.layer, r.seq)[last / c_.kv.block_size];
      ISO_CHECK(block >= 0);
      c_.kernels.sparse.copy_row[format_](out, int(e % kTile), c_.kv.row(a_.layer, block, int(last % c_.kv.block_size)), a_.dim);
    }
    return out;
  }

  const IndexArgs& a_;
  const SparseContext& c_;
  BlockMemory& found_;
  const KvLayerSpec& spec_;
  int format_;
  bool rows_;
  int lists_;
  bool alone_ = false;
  int64_t width_ = 0;  ///< of a row of scores
  std::span<float> ones_;  ///< [heads], where heads are summed without weights
  std::span<Scratch> scratch_;
  std::span<int32_t> seq_of_;
  std::span<float> scores_;  ///< [tokens at once, lists, width]
  std::span<Range> ranges_;
};

}  // namespace

Chosen choose_keys(const IndexArgs& args, const SparseContext& context, base::Arena& memory, BlockMemory& found) {
  return IndexRun(args, context, found).run(memory);
}

}  // namespace isotope::ops
