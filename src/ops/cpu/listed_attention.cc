#include "ops/cpu/listed_attention.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"

namespace isotope::ops {
namespace {

using namespace kernels::cpu;

constexpr int64_t kSegmentChunks = kSegment / kChunk;
constexpr int kTiles = kChunk / kTile;

/// A token's list for one kv head.
struct Item {
  int32_t token = 0, seq = 0, kv_head = 0;
  int64_t first = 0, recent = 0;     ///< the first of so many recent tokens
  std::span<const int32_t> listed;   ///< what follows them; empty: entries 0, 1 …
  int64_t count = 0;                 ///< of the whole list
  int64_t segments() const { return (count + kSegment - 1) / kSegment; }
};

/// What a member needs for the heads of one item.
struct Scratch {
  std::byte* k = nullptr;            ///< tiles of a chunk
  std::byte* v = nullptr;
  float* scales = nullptr;           ///< of keys, then of values
  std::span<std::byte*> q;           ///< packed, for each group of heads
  std::span<Partial> run, segment;   ///< for each group of heads
};

/// A piece of an item that is done by itself: one segment for the groups of heads [first, last).
struct Unit {
  int32_t item = 0, segment = 0, first = 0, last = 0;
};

class Listed {
 public:
  Listed(const ListedArgs& a, const SparseContext& c, Tensor out)
      : a_(a), c_(c), k_(c.kernels.attention), out_(out), format_(int(c.kv.format())), heads_(a.heads / a.kv_heads), dp_(padded_dim(a.dim)),
        element_(size_t(kKvBytes[format_])) {
    groups_ = (heads_ + kMaxRows - 1) / kMaxRows;
    rows_ = (heads_ + groups_ - 1) / groups_;
    groups_ = (heads_ + rows_ - 1) / rows_;
  }

  void run() {
    make_items();
    int64_t work = 0, segments = 0;
    for (const Item& i : items_) work += i.count * heads_ * dp_ * 2, segments += i.segments();
    const int threads = c_.team.size();
    alone_ = threads == 1 || work <= c_.alone;
    make_scratch();
    if (alone_ || int64_t(items_.size()) >= 2 * threads) {
      each(int64_t(items_.size()), [&](int64_t n, Scratch& s) { whole(items_[size_t(n)], s); });
    } else {
      in_pieces(segments);
    }
  }

 private:
  void make_items() {
    items_ = c_.arena.take<Item>(size_t(c_.batch.T() * a_.kv_heads));
    size_t n = 0;
    for (int32_t s = 0; s < int32_t(c_.batch.S()); ++s)
      for (int32_t t = c_.batch.query_start[size_t(s)]; t < c_.batch.query_start[size_t(s) + 1]; ++t)
        for (int h = 0; h < a_.kv_heads; ++h) items_[n++] = make_item(t, s, h);
  }

  Item make_item(int32_t token, int32_t seq, int kv_head) const {
    const int64_t position = c_.batch.positions[size_t(token)];
    Item i{.token = token, .seq = seq, .kv_head = kv_head};
    if (a_.recent >= 0) {
      i.first = std::max<int64_t>(0, position - a_.window + 1);
      i.recent = position + 1 - i.first;
    }
    i.count = i.recent;
    if (a_.layer < 0) return i;
    if (a_.chosen) i.listed = a_.chosen->of(token, kv_head);
    i.count += a_.chosen ? int64_t(i.listed.size()) : (position + 1) / c_.kv.spec(a_.layer).every;
    ISO_CHECK(i.count > 0);
    return i;
  }

  void make_scratch() {
    scratch_ = c_.arena.take<Scratch>(size_t(c_.team.size()));
    for (Scratch& s : scratch_) {
      s = {};
      s.k = c_.arena.take<std::byte>(size_t(kChunk * a_.dim) * element_).data();
      s.v = c_.arena.take<std::byte>(size_t(kChunk * dp_) * element_).data();
      if (kKvScaled[format_]) s.scales = c_.arena.take<float>(2 * kChunk).data();
      s.q = c_.arena.take<std::byte*>(size_t(groups_));
      for (std::byte*& q : s.q) q = c_.arena.take<std::byte>(kQueryBytes).data();
      s.run = partials(), s.segment = partials();
    }
  }

  std::span<Partial> partials() const {
    const auto out = c_.arena.take<Partial>(size_t(groups_));
    for (Partial& p : out) p.o = c_.arena.take<float>(size_t(rows_ * dp_)).data();
    return out;
  }

  /// f(n, scratch) for each n below `count`, by whoever comes for it.
  template <class F>
  void each(int64_t count, F f) {
    const auto work = [&](std::atomic<int64_t>& next, Scratch& s) {
      const unsigned state = k_.enter[format_]();
      for (int64_t n; (n = next.fetch_add(1, std::memory_order_relaxed)) < count;) f(n, s);
      k_.leave[format_](state);
    };
    std::atomic<int64_t> next{0};
    if (alone_) work(next, scratch_[0]);
    else c_.team.share([&](int member) { work(next, scratch_[size_t(member)]); });
  }

  void whole(const Item& i, Scratch& s) const {
    pack(i, 0, groups_, s);
    for (int g = 0; g < groups_; ++g) k_.clear(s.run[size_t(g)], rows_of(g), a_.dim);
    for (int64_t n = 0; n < i.segments(); ++n) {
      one_segment(i, n, 0, groups_, s, s.segment);
      for (int g = 0; g < groups_; ++g) k_.merge(s.run[size_t(g)], s.segment[size_t(g)], rows_of(g), a_.dim);
    }
    for (int g = 0; g < groups_; ++g) finish(i, g, s.run[size_t(g)]);
  }

  /// Few lists: their segments, and where those are few the groups of heads, are shared out; whoever is free then joins the segments in order.
  void in_pieces(int64_t segments) {
    const int parts = int(std::clamp<int64_t>((2 * c_.team.size() + segments - 1) / segments, 1, groups_));
    const auto units = c_.arena.take<Unit>(size_t(segments * parts));
    const auto results = c_.arena.take<std::span<Partial>>(size_t(segments));  // of each item's segments in turn
    const auto first = c_.arena.take<int32_t>(items_.size());
    size_t n = 0, made = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      first[i] = int32_t(made);
      for (int32_t s = 0; s < int32_t(items_[i].segments()); ++s) {
        results[made++] = partials();
        for (int p = 0; p < parts; ++p) units[n++] = {int32_t(i), s, groups_ * p / parts, groups_ * (p + 1) / parts};
      }
    }
    each(int64_t(n), [&](int64_t u, Scratch& s) {
      const Unit& unit = units[size_t(u)];
      const Item& i = items_[size_t(unit.item)];
      pack(i, unit.first, unit.last, s);
      one_segment(i, unit.segment, unit.first, unit.last, s, results[size_t(first[size_t(unit.item)] + unit.segment)]);
    });
    each(int64_t(items_.size()) * groups_, [&](int64_t u, Scratch& s) {
      const size_t at = size_t(u / groups_);
      const int g = int(u % groups_);
      Partial& run = s.run[size_t(g)];
      k_.clear(run, rows_of(g), a_.dim);
      for (int64_t m = 0; m < items_[at].segments(); ++m) k_.merge(run, results[size_t(first[at] + m)][size_t(g)], rows_of(g), a_.dim);
      finish(items_[at], g, run);
    });
  }

  // ---- heads ------------------------------------------------------------------------------------------------------------------------
  int rows_of(int g) const { return std::min(rows_, heads_ - g * rows_); }
  int64_t head(const Item& i, int g, int row) const { return int64_t{i.kv_head} * heads_ + g * rows_ + row; }

  void pack(const Item& i, int first, int last, const Scratch& s) const {
    for (int g = first; g < last; ++g) {
      const float* from[kMaxRows];
      for (int r = 0; r < rows_of(g); ++r) from[r] = a_.q.row(i.token) + head(i, g, r) * a_.dim;
      k_.pack_q[format_](s.q[size_t(g)], from, rows_of(g), a_.dim);
    }
  }

  void finish(const Item& i, int g, Partial& run) const {
    float* to[kMaxRows];
    float sinks[kMaxRows];
    float whole[kMaxRows][kMaxHeadDim];  // of which values are a part
    for (int r = 0; r < rows_of(g); ++r) {
      to[r] = a_.value_dim ? whole[r] : out_.row(i.token) + head(i, g, r) * a_.dim;
      if (!a_.sinks.empty()) sinks[r] = a_.sinks[size_t(head(i, g, r))];
    }
    k_.finish(run, a_.sinks.empty() ? nullptr : sinks, to, rows_of(g), a_.dim);
    for (int r = 0; r < rows_of(g) && a_.value_dim; ++r)
      std::memcpy(out_.row(i.token) + head(i, g, r) * a_.value_dim, whole[r] + a_.dim - a_.value_dim, size_t(a_.value_dim) * sizeof(float));
  }

  // ---- keys -------------------------------------------------------------------------------------------------------------------------
  void one_segment(const Item& i, int64_t segment, int first, int last, const Scratch& s, std::span<Partial> to) const {
    for (int g = first; g < last; ++g) k_.clear(to[size_t(g)], rows_of(g), a_.dim);
    const int64_t chunks = (i.count + kChunk - 1) / kChunk, end = std::min(chunks, (segment + 1) * kSegmentChunks);
    for (int64_t c = segment * kSegmentChunks; c < end; ++c) {
      KvTile tiles[kTiles];
      const int n = int(std::min<int64_t>(kChunk, i.count - c * kChunk));
      for (int j = 0; j < kTiles; ++j)
        tiles[j] = j * kTile < n ? find_tile(i, c * kChunk + j * kTile, std::min(kTile, n - j * kTile), j, s) : tiles[0];
      int lo[kMaxRows] = {}, hi[kMaxRows];
      std::fill(std::begin(hi), std::end(hi), n);
      for (int g = first; g < last; ++g)
        k_.chunk[format_](ChunkArgs{.q = s.q[size_t(g)],
                                    .rows = rows_of(g),
                                    .d = a_.dim,
                                    .tiles = tiles,
                                    .next = tiles,
                                    .lo = lo,
                                    .hi = hi,
                                    .scale = a_.scale,
                                    .softcap = a_.softcap},
                          to[size_t(g)]);
    }
  }

  /// Keys [rank, rank + n) of the list: where they lie, if that is one tile of the cache, else a copy in tile `j` of the scratch.
  KvTile find_tile(const Item& i, int64_t rank, int n, int j, const Scratch& s) const {
    if (a_.value_dim == 0 && !i.listed.empty() && i.recent == 0 && c_.kv.spec(a_.layer).form == KvForm::keys_values) {
      const int32_t token = i.listed[size_t(rank)];
      if (token % kTile == 0 && i.listed[size_t(rank + n - 1)] - token == n - 1) return cached_tile(i, token);
    }
    KvTile out{s.k + size_t(j * kTile * a_.dim) * element_, s.v + size_t(j * kTile * dp_) * element_};
    if (s.scales) out.k_scale = s.scales + j * kTile, out.v_scale = out.k_scale + kChunk;
    for (int t = 0; t < n; ++t) copy_key(i, rank + t, out, t);
    return out;
  }

  KvTile cached_tile(const Item& i, int64_t token) const {
    return c_.kv.tile(a_.layer, block_of(a_.layer, i, token), i.kv_head, int(token % c_.kv.block_size) / kTile);
  }

  int32_t block_of(int layer, const Item& i, int64_t token) const {
    const int32_t block = c_.table(layer, i.seq)[token / c_.kv.block_size];
    ISO_CHECK(block >= 0);
    return block;
  }

  void copy_key(const Item& i, int64_t rank, const KvTile& out, int t) const {
    const auto& copy_row = c_.kernels.sparse.copy_row[format_];
    const auto row = [&](int layer, int64_t token) { return c_.kv.row(layer, block_of(layer, i, token), int(token % c_.kv.block_size)); };
    if (rank < i.recent) return copy_row(out, t, row(a_.recent, i.first + rank), a_.dim);
    const int64_t at = rank - i.recent, key = i.listed.empty() ? at : i.listed[size_t(at)];
    const KvLayerSpec& spec = c_.kv.spec(a_.layer);
    if (spec.form == KvForm::rows) return copy_row(out, t, row(a_.layer, (key + 1) * spec.every - 1), a_.dim);
    c_.kernels.sparse.copy_token[format_](out, t, cached_tile(i, key), int(key % kTile), a_.dim);
  }

  const ListedArgs& a_;
  const SparseContext& c_;
  const AttentionKernels& k_;
  Tensor out_;
  int format_, heads_, dp_;  ///< query heads of a kv head
  size_t element_;
  int groups_ = 0, rows_ = 0;  ///< of those heads, and heads of a group
  bool alone_ = false;
  std::span<Item> items_;
  std::span<Scratch> scratch_;
};

}  // namespace

void listed_attention(const ListedArgs& args, const SparseContext& context, Tensor out) { Listed(args, context, out).run(); }

}  // namespace isotope::ops
