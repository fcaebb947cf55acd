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
};

class Compression {
 public:
  Compression(const CompressArgs& a, const SparseContext& c) : a_(a), c_(c), width_(int64_t{a.series} * a.dim) {}

  void run() {
    keep();
    const auto windows = closing();
    if (windows.empty()) return;
    const int64_t n = int64_t{a_.series} * a_.ratio, half = a_.rope ? a_.rope->rot / 2 : 0;
    if (!a_.gates) {
      const auto zeros = c_.arena.take<float>(size_t(a_.dim));
      std::fill(zeros.begin(), zeros.end(), 0.0f);
      even_ = zeros.data();
    }
    const Tensor made = take_tensor(c_.arena, int64_t(windows.size()), a_.dim), turns = take_tensor(c_.arena, made.rows, 2 * half);
    const auto pointers = c_.arena.take<const float*>(size_t(3 * n * made.rows));
    for_rows(c_.team, made.rows, n * a_.dim * 8, [&](int64_t w0, int64_t w1) {
      for (int64_t w = w0; w < w1; ++w) make(windows[size_t(w)], &pointers[size_t(3 * n * w)], made.row(w), turns.row(w));
    });
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

  std::span<Window> closing() const {
    const auto out = c_.arena.take<Window>(size_t(c_.batch.T()));
    size_t n = 0;
    for (int32_t s = 0; s < int32_t(c_.batch.S()); ++s)
      for (int32_t t = c_.batch.query_start[size_t(s)]; t < c_.batch.query_start[size_t(s) + 1]; ++t)
        if ((c_.batch.positions[size_t(t)] + 1) % a_.ratio == 0) out[n++] = {s, c_.batch.positions[size_t(t)] / a_.ratio};
    return out.first(n);
  }

  void make(const Window& w, const float** pointers, float* out, float* turns) const {
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
    if (a_.rope) {
      const Rope& rope = *a_.rope;
      const int64_t half = rope.rot / 2;
      turn_by(rope, int32_t(w.number * a_.ratio), turns, turns + half);
      (rope.interleaved ? c_.kernels.elementwise.rope_interleaved : c_.kernels.elementwise.rope)(out + rope.first, turns, turns + half, 1, a_.dim,
                                                                                                 rope.rot);
    }
    const int64_t last = end - 1;
    const int32_t block = c_.table(a_.entries, w.seq)[last / c_.kv.block_size];
    ISO_CHECK(block >= 0);
    c_.kernels.sparse.write_row[int(c_.kv.format())](c_.kv.row(a_.entries, block, int(last % c_.kv.block_size)), out, a_.dim);
  }

  const CompressArgs& a_;
  const SparseContext& c_;
  int64_t width_;
  const float* even_ = nullptr;  ///< zeros [dim]: gates and biases where tokens weigh the same
};

}  // namespace

void compress(const CompressArgs& args, const SparseContext& context) { Compression(args, context).run(); }

}  // namespace isotope::ops
