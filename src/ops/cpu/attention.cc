#include "ops/cpu/attention.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"

namespace isotope::ops {
namespace {

using namespace kernels::cpu;

// Pieces of work are handed out as members come for them: small enough to even out, large enough to cost nothing.
constexpr int64_t kPiece = 400'000;
constexpr int kPiecesPerMember = 8;

/// Rows of an item of latent attention, of which all heads read the same keys: the more, the fewer times each key is fetched and turned. More than these,
/// and what they read and write falls out of the second-level cache.
constexpr int kLatentRows = 64;

/// Rows of one call of the kernel, or of one group of it.
struct Groups {
  int n = 0, first[kMaxGroups + 1] = {};
  int rows(int g) const { return first[g + 1] - first[g]; }
};

/// Groups of kMaxRows; the last two are even rather than one of them small.
Groups groups_of(int rows) {
  Groups g;
  for (int left = rows; left > 0; left = rows - g.first[++g.n]) {
    const int size = left == 16 ? 8 : std::min(left, kMaxRows);
    g.first[g.n + 1] = g.first[g.n] + size;
  }
  return g;
}
/// Of items of up to so many rows: sixteen rows at the end are one group more than twelve at a time would be.
constexpr int most_groups(int rows) { return rows <= kMaxRows ? 1 : (rows + kMaxRows - 1) / kMaxRows + 1; }
static_assert(most_groups(kLatentRows) <= kMaxGroups);

/// Up to kMaxRows (latent: kLatentRows) rows, a row being a token and a head of the group, of one sequence and kv head.
struct Item {
  int32_t seq = 0, kv_head = 0;
  int32_t first_row = 0, rows = 0;  ///< row = (token - first token of the sequence) * group + head of the group
  int64_t first_key = 0, last_key = 0;  ///< keys that at least one row sees
  int64_t first_chunk = 0, last_chunk = 0;
};

constexpr int64_t kSegmentChunks = kSegment / kChunk;
static_assert(kSegment % kChunk == 0);

/// A result of each group of an item.
struct Parts {
  Partial group[kMaxGroups];
};

/// An item whose segments are cut into several units. The first unit leaves a running result, the others a result for each segment; whoever ends last joins
/// them in order.
struct Split {
  Parts head;                       ///< of the first unit
  int64_t head_end = 0;             ///< its last chunk, where a segment ends
  std::span<Parts> tail;            ///< for each segment from there on
  int32_t left = 0;                 ///< units not done yet; atomic
};

struct Unit {
  int32_t item = 0, split = -1;     ///< split: -1 if the unit is the whole item
  int64_t first_chunk = 0, last_chunk = 0;
};

constexpr size_t kQueryFloats = kQueryBytes / sizeof(float);

struct Scratch {
  float* q = nullptr;       ///< kQueryBytes for each group
  void* latent = nullptr;   ///< kLatentBytes, or null
  Parts run, segment;
};

class Attention {
 public:
  Attention(const AttentionArgs& a, const Batch& b, const CpuKvCache& kv, const AttentionKernels& k, Tensor out, int64_t alone)
      : a_(a), b_(b), kv_(kv), k_(k), out_(out), group_(b.groups[size_t(kv.spec(a.layer).group)]), heads_per_kv_(a.heads / a.kv_heads),
        latent_(a.value_dim > 0), most_rows_(latent_ ? kLatentRows : kMaxRows), dv_(latent_ ? a.value_dim : a.head_dim), dp_(padded_dim(dv_)),
        format_(int(kv.format())), alone_(alone) {}

  void run(base::Team& team, base::Arena& arena) {
    plan(team.size(), arena);
    if (pieces_.size() <= 2) return take_pieces(scratch_[0]);
    team.share([&](int member) { take_pieces(scratch_[size_t(member)]); });
  }

 private:
  // ---- planning: who does what; never what is computed ------------------------------------------------------------------------
  int64_t first_key(int32_t position) const {
    if (a_.window <= 0) return 0;
    return a_.chunked ? position - position % a_.window : std::max<int64_t>(0, position - a_.window + 1);
  }

  void plan(int threads, base::Arena& arena) {
    int64_t items = 0;
    for (int64_t s = 0; s < b_.S(); ++s) items += tiles_of(s) * a_.kv_heads;
    items_ = arena.take<Item>(size_t(items));
    int64_t n = 0;
    for (int64_t s = 0; s < b_.S(); ++s) {
      for (int h = 0; h < a_.kv_heads; ++h) {  // one head after another: its keys and values stay in the second-level cache
        for (int64_t t = tiles_of(s) - 1; t >= 0; --t) {
          const Item& i = items_[size_t(n++)] = make_item(int32_t(s), h, int32_t(t));
          work_ += (i.last_chunk - i.first_chunk) * cost_of_chunk(i);
        }
      }
    }
    cut(threads, arena);
    scratch_ = arena.take<Scratch>(size_t(threads));
    const int groups = most_groups(most_rows_);
    for (Scratch& s : scratch_) {
      s.q = arena.take<float>(size_t(groups) * kQueryFloats).data();
      if (latent_) s.latent = arena.take<float>(kLatentBytes / sizeof(float)).data();
      s.run = make_parts(groups, arena);
      s.segment = make_parts(groups, arena);
    }
  }

  /// Room for kMaxRows in each group: items of fewer rows may cut theirs elsewhere.
  Parts make_parts(int groups, base::Arena& arena) const {
    Parts p;
    for (int g = 0; g < groups; ++g) p.group[g].o = arena.take<float>(size_t(kMaxRows * dp_)).data();
    return p;
  }

  int64_t tiles_of(int64_t s) const {
    return ((b_.query_start[size_t(s) + 1] - b_.query_start[size_t(s)]) * int64_t{heads_per_kv_} + most_rows_ - 1) / most_rows_;
  }

  Item make_item(int32_t seq, int kv_head, int32_t tile) const {
    const int32_t start = b_.query_start[size_t(seq)], rows = (b_.query_start[size_t(seq) + 1] - start) * heads_per_kv_;
    Item i{.seq = seq, .kv_head = kv_head, .first_row = tile * most_rows_, .rows = std::min(most_rows_, rows - tile * most_rows_)};
    i.first_key = first_key(b_.positions[size_t(start + i.first_row / heads_per_kv_)]);
    i.last_key = b_.positions[size_t(start + (i.first_row + i.rows - 1) / heads_per_kv_)];
    i.first_chunk = i.first_key / kChunk;
    i.last_chunk = i.last_key / kChunk + 1;
    return i;
  }

  int64_t cost_of_chunk(const Item& i) const { return int64_t{i.rows} * kChunk * (padded_dim(a_.head_dim) + dp_); }

  /// How many pieces. Sums of latent attention are wide: one sequence's items, which cost alike, are dealt out whole if they come out even.
  int64_t count_pieces(int threads) const {
    if (threads == 1 || work_ <= alone_) return 1;
    const int64_t most = int64_t{threads} * kPiecesPerMember, items = int64_t(items_.size());
    if (latent_ && b_.S() == 1 && items <= most && items % threads == 0) return items;
    return std::clamp<int64_t>(work_ / kPiece, threads, most);
  }

  /// Cuts the chunks of all items, in order, into pieces of about equal cost. A border inside an item lies between two segments and splits it.
  void cut(int threads, base::Arena& arena) {
    const int64_t count = count_pieces(threads);
    // Each border can split one item: one more unit, and one more Split.
    units_ = arena.take<Unit>(items_.size() + size_t(count));
    splits_ = arena.take<Split>(size_t(count));
    pieces_ = arena.take<int32_t>(size_t(count) + 1);
    int64_t done = 0, piece = 0, units = 0, splits = 0;
    pieces_[0] = 0;
    for (size_t n = 0; n < items_.size(); ++n) {
      const Item& i = items_[n];
      const int64_t each = cost_of_chunk(i), first_unit = units;
      for (int64_t c = i.first_chunk; c < i.last_chunk;) {
        const int64_t target = work_ * (piece + 1) / count - done;  // cost that the piece still takes
        const int64_t end = piece + 1 == count ? i.last_chunk : nearest_border(c + target / each, c, i.last_chunk);
        if (end > c) units_[size_t(units++)] = {int32_t(n), -1, c, end};
        done += (end - c) * each;
        c = end;
        if (piece + 1 < count && (c < i.last_chunk || done + each / 2 >= work_ * (piece + 1) / count)) pieces_[size_t(++piece)] = int32_t(units);
      }
      if (units - first_unit > 1) make_split(i, int32_t(splits++), units_.subspan(size_t(first_unit), size_t(units - first_unit)), arena);
    }
    while (piece < count) pieces_[size_t(++piece)] = int32_t(units);
  }

  static int64_t nearest_border(int64_t chunk, int64_t begin, int64_t end) {
    return std::clamp((chunk + kSegmentChunks / 2) / kSegmentChunks * kSegmentChunks, begin, end);
  }

  void make_split(const Item& i, int32_t index, std::span<Unit> units, base::Arena& arena) {
    for (Unit& u : units) u.split = index;
    Split& s = splits_[size_t(index)] = {.head_end = units[0].last_chunk, .left = int32_t(units.size())};
    const int groups = groups_of(i.rows).n;
    s.head = make_parts(groups, arena);
    s.tail = arena.take<Parts>(size_t((i.last_chunk - s.head_end + kSegmentChunks - 1) / kSegmentChunks));
    for (Parts& p : s.tail) p = make_parts(groups, arena);
  }

  // ---- attending ----------------------------------------------------------------------------------------------------------------
  struct Rows {
    int64_t first[kLatentRows], last[kLatentRows];  ///< keys that each row sees
    Groups groups;
  };

  Rows load_rows(const Item& i, float* q) const {
    Rows r;
    r.groups = groups_of(i.rows);
    const float* from[kLatentRows];
    for (int n = 0; n < i.rows; ++n) {
      const int32_t token = b_.query_start[size_t(i.seq)] + (i.first_row + n) / heads_per_kv_;
      from[n] = a_.q.row(token) + head(i, n) * a_.head_dim;
      r.last[n] = b_.positions[size_t(token)];
      r.first[n] = first_key(int32_t(r.last[n]));
    }
    for (int g = 0; g < r.groups.n; ++g) k_.pack_q[format_](q + g * kQueryFloats, from + r.groups.first[g], r.groups.rows(g), a_.head_dim);
    return r;
  }

  int64_t head(const Item& i, int n) const { return int64_t{i.kv_head} * heads_per_kv_ + (i.first_row + n) % heads_per_kv_; }

  struct Tiles {
    KvTile tile[kChunk / kTile];
  };

  /// Tiles that no row sees are not looked up and stay what `t` says.
  Tiles find_tiles(const Item& i, int64_t chunk, Tiles t = {}) const {
    const int32_t* table = group_.block_table + i.seq * group_.table_stride;
    for (int j = 0; j < kChunk / kTile; ++j) {
      const int64_t token = chunk * kChunk + j * kTile;
      if (token > i.last_key || token + kTile <= i.first_key) continue;
      const int32_t block = table[token / kv_.block_size];
      ISO_CHECK(block >= 0);
      t.tile[j] = kv_.tile(a_.layer, block, i.kv_head, int(token % kv_.block_size) / kTile);
    }
    return t;
  }

  /// What chunk c of the unit fetches ahead: the chunk that follows, and where that has fewer tiles, or there is none, those of the unit `after`.
  Tiles tiles_ahead(const Unit& u, const Unit* after, int64_t c, const Tiles& now) const {
    Tiles t = now;
    if (after && c + 2 >= u.last_chunk) t = find_tiles(items_[size_t(after->item)], after->first_chunk, t);
    return c + 1 < u.last_chunk ? find_tiles(items_[size_t(u.item)], c + 1, t) : t;
  }

  /// The share of the tiles ahead that group g of n fetches: each pair of tiles once, spread over all groups. What lies there already costs nothing.
  static Tiles share_ahead(const Tiles& now, const Tiles& next, int g, int n) {
    Tiles t = now;
    for (int j = 0; j < kChunk / kTile; ++j)
      if (j / 2 % n == g) t.tile[j] = next.tile[j];
    return t;
  }

  /// What the kernel gets for one chunk: the same tiles for each group of rows.
  struct Chunk {
    ChunkArgs group[kMaxGroups];
    int lo[kLatentRows], hi[kLatentRows];
    Tiles ahead[kMaxGroups];
  };

  void fill(Chunk& c, const Item& i, const Rows& rows, int64_t number) const {
    for (int n = 0; n < i.rows; ++n) {
      c.lo[n] = int(std::clamp<int64_t>(rows.first[n] - number * kChunk, 0, kChunk));
      c.hi[n] = int(std::clamp<int64_t>(rows.last[n] + 1 - number * kChunk, 0, kChunk));
    }
  }

  /// Calls chunk(groups, number) for each chunk of the unit. What comes after the unit is fetched ahead.
  template <class F>
  void each_chunk(const Unit& u, const Unit* after, const Rows& rows, const float* q, F chunk) const {
    const Item& i = items_[size_t(u.item)];
    const Groups& groups = rows.groups;
    Tiles now = find_tiles(i, u.first_chunk);
    Chunk c;
    for (int64_t number = u.first_chunk; number < u.last_chunk; ++number) {
      const Tiles next = tiles_ahead(u, after, number, now);
      fill(c, i, rows, number);
      for (int g = 0; g < groups.n; ++g) {
        c.ahead[g] = share_ahead(now, next, g, groups.n);
        c.group[g] = {.q = q + g * kQueryFloats, .rows = groups.rows(g), .d = a_.head_dim, .tiles = now.tile, .next = c.ahead[g].tile,
                      .lo = c.lo + groups.first[g], .hi = c.hi + groups.first[g], .scale = a_.scale, .softcap = a_.softcap};
      }
      chunk(c.group, number);
      now = next;
    }
  }

  void take_pieces(Scratch& s) {
    const unsigned state = k_.enter[format_]();
    for (int64_t n; (n = next_piece_.fetch_add(1, std::memory_order_relaxed)) + 1 < int64_t(pieces_.size());) {
      const int32_t end = pieces_[size_t(n) + 1];
      for (int32_t u = pieces_[size_t(n)]; u < end; ++u) run_unit(units_[size_t(u)], u + 1 < end ? &units_[size_t(u) + 1] : nullptr, s);
    }
    k_.leave[format_](state);
  }

  void clear(Parts& p, const Groups& groups) const {
    for (int g = 0; g < groups.n; ++g) k_.clear(p.group[g], groups.rows(g), dv_);
  }
  void merge(Parts& run, const Parts& part, const Groups& groups) const {
    for (int g = 0; g < groups.n; ++g) k_.merge(run.group[g], part.group[g], groups.rows(g), dv_);
  }

  /// Chunk c joins its segment; whether the segment ends with it, as far as the unit is concerned.
  bool add_chunk(const Unit& u, const ChunkArgs* chunk, int64_t c, const Groups& groups, Scratch& s, Parts& segment) const {
    if (c == u.first_chunk || c % kSegmentChunks == 0) clear(segment, groups);
    if (latent_) k_.latent[format_](chunk, groups.n, dv_, s.latent, segment.group);
    else k_.chunk[format_](*chunk, *segment.group);
    return c + 1 == u.last_chunk || (c + 1) % kSegmentChunks == 0;
  }

  void run_unit(const Unit& u, const Unit* after, Scratch& s) const {
    const Item& i = items_[size_t(u.item)];
    Split* split = u.split < 0 ? nullptr : &splits_[size_t(u.split)];
    const Rows rows = load_rows(i, s.q);
    const Groups& groups = rows.groups;
    if (!split || u.first_chunk == i.first_chunk) {
      Parts& run = split ? split->head : s.run;
      clear(run, groups);
      each_chunk(u, after, rows, s.q, [&](const ChunkArgs* chunk, int64_t c) {
        if (add_chunk(u, chunk, c, groups, s, s.segment)) merge(run, s.segment, groups);
      });
      if (!split) return finish(i, groups, run);
    } else {
      each_chunk(u, after, rows, s.q, [&](const ChunkArgs* chunk, int64_t c) {
        add_chunk(u, chunk, c, groups, s, split->tail[size_t((c - split->head_end) / kSegmentChunks)]);
      });
    }
    if (std::atomic_ref(split->left).fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    for (const Parts& p : split->tail) merge(split->head, p, groups);
    finish(i, groups, split->head);
  }

  void finish(const Item& i, const Groups& groups, Parts& run) const {
    float* to[kLatentRows];
    float sinks[kLatentRows];
    for (int n = 0; n < i.rows; ++n) {
      const int64_t token = b_.query_start[size_t(i.seq)] + (i.first_row + n) / heads_per_kv_;
      to[n] = out_.row(token) + head(i, n) * dv_;
      if (!a_.sinks.empty()) sinks[n] = a_.sinks[size_t(head(i, n))];
    }
    for (int g = 0; g < groups.n; ++g) {
      const int first = groups.first[g];
      k_.finish(run.group[g], a_.sinks.empty() ? nullptr : sinks + first, to + first, groups.rows(g), dv_);
    }
  }

  const AttentionArgs& a_;
  const Batch& b_;
  const CpuKvCache& kv_;
  const AttentionKernels& k_;
  Tensor out_;
  const Batch::Group& group_;
  int heads_per_kv_;
  bool latent_;
  int most_rows_;
  int dv_, dp_, format_;  ///< numbers of a value, and between two rows of sums
  int64_t alone_, work_ = 0;
  std::span<Item> items_;
  std::span<Unit> units_;
  std::span<int32_t> pieces_;  ///< piece n is units [pieces_[n], pieces_[n + 1])
  std::span<Split> splits_;
  std::span<Scratch> scratch_;
  alignas(64) std::atomic<int64_t> next_piece_{0};
};

}  // namespace

void attention(const AttentionArgs& args, const Batch& batch, const CpuKvCache& kv, const AttentionKernels& kernels, base::Team& team, base::Arena& arena,
               Tensor out, int64_t alone) {
  Attention(args, batch, kv, kernels, out, alone).run(team, arena);
}

}  // namespace isotope::ops
