#include "ops/cpu/compress.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/cpu/rope_tables.h"
#include "ops/cpu/share.h"
#include "ops/cpu/source_rows.h"
#include "ops/cpu/tensors.h"

namespace isotope::ops {
namespace {

/// A window whose last token is in the batch.
struct Window {
  int32_t seq = 0;
  int64_t number = 0;
  int32_t row = 0;  ///< of that token
};

/// The batch's windows of `ratio` tokens whose last token is in it.
std::span<Window> closing(const SparseContext& c, int ratio) {
  const auto out = c.arena.take<Window>(size_t(c.batch.T()));
  size_t n = 0;
  for (int32_t s = 0; s < int32_t(c.batch.S()); ++s)
    for (int32_t t = c.batch.query_start[size_t(s)]; t < c.batch.query_start[size_t(s) + 1]; ++t)
      if ((c.batch.positions[size_t(t)] + 1) % ratio == 0) out[n++] = {s, c.batch.positions[size_t(t)] / ratio, t};
  return out.first(n);
}

/// Entries go to the place of their window's last token, rotated by its first one's position.
class Entries {
 public:
  /// `rope` null: they are stored as they are.
  Entries(const SparseContext& c, const Rope* rope, int layer, int dim) : c_(c), rope_(rope), layer_(layer), dim_(dim), ratio_(c.kv.spec(layer).every) {}
  int64_t scratch() const { return rope_ ? rope_->rot : 0; }

  /// `turns`: scratch() numbers.
  void store(const Window& w, float* row, float* turns) const {
    if (c_.group(layer_).slots[size_t(w.row)] < 0) return;  // the entry is there, made of the tokens' true values
    if (rope_) {
      const int64_t half = rope_->rot / 2;
      turn_by(*rope_, int32_t(w.number * ratio_), turns, turns + half);
      const auto turn = rope_->interleaved ? c_.kernels.elementwise.rope_interleaved : c_.kernels.elementwise.rope;
      turn(row + rope_->first, turns, turns + half, 1, dim_, rope_->rot);
    }
    const int64_t last = (w.number + 1) * ratio_ - 1;
    const int32_t block = c_.table(layer_, w.seq)[last / c_.kv.block_size];
    ISO_CHECK(block >= 0);
    c_.kernels.sparse.write_row[int(c_.kv.format())](c_.kv.row(layer_, block, int(last % c_.kv.block_size)), row, dim_);
  }

 private:
  const SparseContext& c_;
  const Rope* rope_;
  int layer_, dim_, ratio_;
};

class Compression {
 public:
  Compression(const CompressArgs& a, const SparseContext& c) : a_(a), c_(c), width_(int64_t{a.series} * a.dim) {}

  /// One row for each window, not turned yet; `each` hears of it on the thread that made it.
  template <class F>
  Tensor run(std::span<const Window> windows, F each) {
    keep();
    if (windows.empty()) return {};
    const int64_t n = int64_t{a_.series} * a_.ratio;
    if (!a_.gates) {
      const auto zeros = c_.arena.take<float>(size_t(a_.dim));
      std::fill(zeros.begin(), zeros.end(), 0.0f);
      even_ = zeros.data();
    }
    const Tensor made = take_tensor(c_.arena, int64_t(windows.size()), a_.dim);
    const auto pointers = c_.arena.take<const float*>(size_t(3 * n * made.rows));
    for_rows(c_.team, made.rows, n * a_.dim * 8, [&](int64_t w0, int64_t w1) {
      for (int64_t w = w0; w < w1; ++w) {
        make(windows[size_t(w)], &pointers[size_t(3 * n * w)], made.row(w));
        each(w, made.row(w));
      }
    });
    return made;
  }

 private:
  const float* kept(int32_t seq, int64_t token) const {
    const int32_t block = c_.table(a_.kept, seq)[token / c_.kv.block_size];
    ISO_CHECK(block >= 0);
    return c_.kv.numbers(a_.kept, block, int(token % c_.kv.block_size)) + a_.offset;
  }

  /// Inputs and gates of the batch's tokens go to the cache: all entries are made from there.
  void keep() const {
    const auto& slots = c_.group(a_.kept).slots;
    for_rows(c_.team, c_.batch.T(), 2 * width_, [&](int64_t t0, int64_t t1) {
      for (int64_t t = t0; t < t1; ++t) {
        float* const to = c_.kv.numbers(a_.kept, slots[size_t(t)] / c_.kv.block_size, slots[size_t(t)] % c_.kv.block_size) + a_.offset;
        std::memcpy(to, a_.inputs.row(t), size_t(width_) * sizeof(float));
        if (a_.gates) std::memcpy(to + width_, a_.gates.row(t), size_t(width_) * sizeof(float));
      }
    });
  }

  void make(const Window& w, const float** pointers, float* out) const {
    // The window before gives the first series, the window itself the last one.
    const int64_t begin = (w.number - (a_.series - 1)) * a_.ratio, end = (w.number + 1) * a_.ratio;
    kernels::cpu::CompressJob job{.d = a_.dim, .out = out};
    const float **const inputs = pointers, **const gates = inputs + (end - begin), **const bias = gates + (end - begin);
    for (int64_t token = std::max<int64_t>(0, begin); token < end; ++token) {
      const float* const from = kept(w.seq, token) + (token / a_.ratio == w.number ? width_ - a_.dim : 0);
      inputs[job.n] = from, gates[job.n] = a_.gates ? from + width_ : even_;
      bias[job.n++] = a_.gates ? a_.bias.data() + token % a_.ratio * width_ + (token / a_.ratio == w.number ? width_ - a_.dim : 0) : even_;
    }
    job.inputs = inputs, job.gates = gates, job.bias = bias;
    c_.kernels.sparse.compress(job);
    if (a_.norm) norm_row(c_.kernels, *a_.norm, out, out, a_.dim);
  }

  const CompressArgs& a_;
  const SparseContext& c_;
  int64_t width_;
  const float* even_ = nullptr;  ///< zeros [dim]: gates and biases where tokens weigh the same
};

}  // namespace

void compress(const CompressArgs& args, const SparseContext& context) {
  const auto windows = closing(context, args.ratio);
  const Entries entries(context, args.rope, args.entries, args.dim);
  const Tensor turns = take_tensor(context.arena, int64_t(windows.size()), entries.scratch());
  Compression(args, context).run(windows, [&](int64_t w, float* row) { entries.store(windows[size_t(w)], row, turns.row(w)); });
}

Tensor pool(const CompressArgs& args, const SparseContext& context) {
  return Compression(args, context).run(closing(context, args.ratio), [](int64_t, float*) {});
}

void store_entries(const EntryArgs& args, const SparseContext& context) {
  const Entries entries(context, args.rope, args.layer, int(args.x.cols));
  const auto windows = closing(context, context.kv.spec(args.layer).every);
  ISO_CHECK(int64_t(windows.size()) == args.x.rows);
  const Tensor turns = take_tensor(context.arena, args.x.rows, entries.scratch());
  for_rows(context.team, args.x.rows, args.x.cols * 4, [&](int64_t w0, int64_t w1) {
    for (int64_t w = w0; w < w1; ++w) entries.store(windows[size_t(w)], args.x.row(w), turns.row(w));
  });
}

}  // namespace isotope::ops
