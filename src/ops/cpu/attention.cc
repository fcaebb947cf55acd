#include "ops/cpu/attention.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"

namespace isotope::ops {
namespace {

using namespace kernels::cpu;

// Multiply-adds (times two: scores and values) that one core does in a few µs; less is not worth waking the team for.
constexpr int64_t kAlone = 400'000;
constexpr int64_t kAloneWrites = 16'384;  // elements of K and V
constexpr int64_t kMinSplitChunks = 8;

/// Up to kMaxRows (token, head of the group) rows of one sequence and kv head.
struct Item {
  int32_t seq = 0, kv_head = 0;
  int32_t first_row = 0, rows = 0;  ///< row = (token - first token of the sequence) * group + head of the group
  int64_t first_chunk = 0, last_chunk = 0;
  int64_t parts = -1;               ///< index of its first Partial if it is split, else -1
};

/// What one member does at a time: all chunks of an item, or a range of the chunks of a split one.
struct Unit {
  int32_t item = 0;
  int64_t first_chunk = 0, last_chunk = 0;
};

struct Scratch {
  float* q = nullptr;  ///< [d][kMaxRows]
  Partial run, part;
};

class Attention {
 public:
  Attention(const AttentionArgs& a, const Batch& b, const CpuKvCache& kv, const AttentionKernels& k, Tensor out)
      : a_(a), b_(b), kv_(kv), k_(k), out_(out), group_(b.groups[size_t(kv.spec(a.layer).group)]), heads_per_kv_(a.heads / a.kv_heads),
        dp_(padded_dim(a.head_dim)), format_(int(kv.format())) {}

  void run(base::Team& team, base::Arena& arena) {
    plan(team.size(), arena);
    const int64_t written = b_.T() * a_.kv_heads * a_.head_dim * 2;
    if (written <= kAloneWrites) write(0, b_.T());
    else team.for_ranges(b_.T(), 1, [&](int64_t t0, int64_t t1) { write(t0, t1); });
    if (work_ <= kAlone) return take_units(scratch_[0]);
    team.share([&](int member) { take_units(scratch_[size_t(member)]); });
    if (!splits_.empty()) team.share([&](int member) { take_merges(scratch_[size_t(member)]); });
  }

 private:
  // ---- planning: who does what; never what is computed ------------------------------------------------------------------------
  int64_t first_key(int32_t position) const { return a_.window > 0 ? std::max<int64_t>(0, position - a_.window + 1) : 0; }

  void plan(int threads, base::Arena& arena) {
    int64_t items = 0;
    for (int64_t s = 0; s < b_.S(); ++s) items += tiles_of(s) * a_.kv_heads;
    items_ = arena.take<Item>(size_t(items));
    int64_t n = 0;
    for (int64_t s = 0; s < b_.S(); ++s) {
      for (int64_t t = tiles_of(s) - 1; t >= 0; --t) {  // later queries see more: longest first
        for (int h = 0; h < a_.kv_heads; ++h) {
          const Item& i = items_[size_t(n++)] = make_item(int32_t(s), h, int32_t(t));
          const int64_t chunks = i.last_chunk - i.first_chunk;
          work_ += chunks * i.rows * kChunk * dp_ * 2;
        }
      }
    }
    split(threads, arena);
    scratch_ = arena.take<Scratch>(size_t(threads));
    for (Scratch& s : scratch_) {
      s.q = arena.take<float>(size_t(kMaxRows * a_.head_dim)).data();
      s.run.o = arena.take<float>(size_t(kMaxRows * dp_)).data();
      s.part.o = arena.take<float>(size_t(kMaxRows * dp_)).data();
    }
  }

  int64_t tiles_of(int64_t s) const {
    return ((b_.query_start[size_t(s) + 1] - b_.query_start[size_t(s)]) * int64_t{heads_per_kv_} + kMaxRows - 1) / kMaxRows;
  }

  Item make_item(int32_t seq, int kv_head, int32_t tile) const {
    const int32_t start = b_.query_start[size_t(seq)], rows = (b_.query_start[size_t(seq) + 1] - start) * heads_per_kv_;
    Item i{.seq = seq, .kv_head = kv_head, .first_row = tile * kMaxRows, .rows = std::min(kMaxRows, rows - tile * kMaxRows)};
    const int32_t first = b_.positions[size_t(start + i.first_row / heads_per_kv_)];
    const int32_t last = b_.positions[size_t(start + (i.first_row + i.rows - 1) / heads_per_kv_)];
    i.first_chunk = first_key(first) / kChunk;
    i.last_chunk = last / kChunk + 1;
    return i;
  }

  /// An item that is a large share of the step's work is cut at chunk borders; its parts are merged in order afterwards.
  void split(int threads, base::Arena& arena) {
    const int64_t share = work_ / (int64_t{threads} * 4);
    auto wanted = [&](const Item& i) {
      const int64_t chunks = i.last_chunk - i.first_chunk;
      return threads > 1 && work_ > kAlone && chunks >= kMinSplitChunks && chunks * i.rows * kChunk * dp_ * 2 > share;
    };
    // A unit of a split item is about one share, so there are at most a few of them a thread.
    auto chunks_per_unit = [&](const Item& i) { return std::max<int64_t>(1, share / (int64_t{i.rows} * kChunk * dp_ * 2)); };
    int64_t units = 0, parts = 0, splits = 0;
    for (Item& i : items_) {
      const int64_t chunks = i.last_chunk - i.first_chunk;
      if (!wanted(i)) {
        ++units;
        continue;
      }
      i.parts = parts;
      parts += chunks;
      ++splits;
      units += (chunks + chunks_per_unit(i) - 1) / chunks_per_unit(i);
    }
    units_ = arena.take<Unit>(size_t(units));
    parts_ = arena.take<Partial>(size_t(parts));
    splits_ = arena.take<int32_t>(size_t(splits));
    int64_t u = 0, s = 0;
    for (size_t n = 0; n < items_.size(); ++n) {
      const Item& i = items_[n];
      if (i.parts < 0) {
        units_[size_t(u++)] = {int32_t(n), i.first_chunk, i.last_chunk};
        continue;
      }
      splits_[size_t(s++)] = int32_t(n);
      for (int64_t c = i.first_chunk; c < i.last_chunk; c += chunks_per_unit(i)) {
        units_[size_t(u++)] = {int32_t(n), c, std::min(i.last_chunk, c + chunks_per_unit(i))};
      }
      for (int64_t c = 0; c < i.last_chunk - i.first_chunk; ++c) {
        parts_[size_t(i.parts + c)].o = arena.take<float>(size_t(i.rows * dp_)).data();
      }
    }
  }

  // ---- writing ------------------------------------------------------------------------------------------------------------------
  void write(int64_t t0, int64_t t1) const {
    const int d = a_.head_dim, size = kv_.block_size;
    for (int64_t t = t0; t < t1; ++t) {
      const int32_t slot = group_.slots[size_t(t)], offset = slot % size;
      for (int h = 0; h < a_.kv_heads; ++h) {
        k_.write[format_](kv_.tile(a_.layer, slot / size, h, offset / kTile), offset % kTile, a_.k.row(t) + h * d, a_.v.row(t) + h * d, d);
      }
    }
  }

  // ---- attending ----------------------------------------------------------------------------------------------------------------
  struct Rows {
    int64_t first[kMaxRows], last[kMaxRows];  ///< keys that each row sees
    int64_t any_first, any_last;
  };

  Rows load_rows(const Item& i, float* q) const {
    Rows r{.any_first = INT64_MAX, .any_last = -1};
    const float* from[kMaxRows];
    for (int n = 0; n < i.rows; ++n) {
      const int32_t token = b_.query_start[size_t(i.seq)] + (i.first_row + n) / heads_per_kv_;
      from[n] = a_.q.row(token) + head(i, n) * a_.head_dim;
      r.last[n] = b_.positions[size_t(token)];
      r.first[n] = first_key(int32_t(r.last[n]));
      r.any_first = std::min(r.any_first, r.first[n]);
      r.any_last = std::max(r.any_last, r.last[n]);
    }
    k_.pack_q(q, from, i.rows, a_.head_dim);
    return r;
  }

  int64_t head(const Item& i, int n) const { return int64_t{i.kv_head} * heads_per_kv_ + (i.first_row + n) % heads_per_kv_; }

  void one_chunk(const Item& i, const Rows& rows, int64_t chunk, const float* q, Partial& out) const {
    const int64_t base = chunk * kChunk;
    int lo[kMaxRows], hi[kMaxRows];
    for (int n = 0; n < i.rows; ++n) {
      lo[n] = int(std::clamp<int64_t>(rows.first[n] - base, 0, kChunk));
      hi[n] = int(std::clamp<int64_t>(rows.last[n] + 1 - base, 0, kChunk));
    }
    KvTile tiles[kChunk / kTile];
    const int32_t* table = group_.block_table + i.seq * group_.table_stride;
    for (int j = 0; j < kChunk / kTile; ++j) {
      const int64_t token = base + j * kTile;
      if (token > rows.any_last || token + kTile <= rows.any_first) continue;
      const int32_t block = table[token / kv_.block_size];
      ISO_CHECK(block >= 0);
      tiles[j] = kv_.tile(a_.layer, block, i.kv_head, int(token % kv_.block_size) / kTile);
    }
    k_.chunk[format_]({.q = q, .rows = i.rows, .d = a_.head_dim, .tiles = tiles, .lo = lo, .hi = hi, .scale = a_.scale, .softcap = a_.softcap}, out);
  }

  void take_units(Scratch& s) {
    for (int64_t n; (n = next_unit_.fetch_add(1, std::memory_order_relaxed)) < int64_t(units_.size());) {
      const Unit& u = units_[size_t(n)];
      const Item& i = items_[size_t(u.item)];
      const Rows rows = load_rows(i, s.q);
      if (i.parts >= 0) {
        for (int64_t c = u.first_chunk; c < u.last_chunk; ++c) one_chunk(i, rows, c, s.q, parts_[size_t(i.parts + c - i.first_chunk)]);
        continue;
      }
      k_.clear(s.run, i.rows, a_.head_dim);
      for (int64_t c = u.first_chunk; c < u.last_chunk; ++c) {
        one_chunk(i, rows, c, s.q, s.part);
        k_.merge(s.run, s.part, i.rows, a_.head_dim);
      }
      finish(i, s.run);
    }
  }

  void take_merges(Scratch& s) {
    for (int64_t n; (n = next_merge_.fetch_add(1, std::memory_order_relaxed)) < int64_t(splits_.size());) {
      const Item& i = items_[size_t(splits_[size_t(n)])];
      k_.clear(s.run, i.rows, a_.head_dim);
      for (int64_t c = 0; c < i.last_chunk - i.first_chunk; ++c) k_.merge(s.run, parts_[size_t(i.parts + c)], i.rows, a_.head_dim);
      finish(i, s.run);
    }
  }

  void finish(const Item& i, Partial& run) const {
    float* to[kMaxRows];
    float sinks[kMaxRows];
    for (int n = 0; n < i.rows; ++n) {
      const int64_t token = b_.query_start[size_t(i.seq)] + (i.first_row + n) / heads_per_kv_;
      to[n] = out_.row(token) + head(i, n) * a_.head_dim;
      if (!a_.sinks.empty()) sinks[n] = a_.sinks[size_t(head(i, n))];
    }
    k_.finish(run, a_.sinks.empty() ? nullptr : sinks, to, i.rows, a_.head_dim);
  }

  const AttentionArgs& a_;
  const Batch& b_;
  const CpuKvCache& kv_;
  const AttentionKernels& k_;
  Tensor out_;
  const Batch::Group& group_;
  int heads_per_kv_, dp_, format_;
  int64_t work_ = 0;
  std::span<Item> items_;
  std::span<Unit> units_;
  std::span<int32_t> splits_;
  std::span<Partial> parts_;
  std::span<Scratch> scratch_;
  alignas(64) std::atomic<int64_t> next_unit_{0};
  alignas(64) std::atomic<int64_t> next_merge_{0};
};

}  // namespace

void attention(const AttentionArgs& args, const Batch& batch, const CpuKvCache& kv, const AttentionKernels& kernels, base::Team& team, base::Arena& arena,
               Tensor out) {
  Attention(args, batch, kv, kernels, out).run(team, arena);
}

}  // namespace isotope::ops
