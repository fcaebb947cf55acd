// Embeddings of n-grams on the CPU, and the gates by which they join residual streams.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/pieces.h"
#include "ops/cpu/sparse.h"
#include "ops/ngram_rows.h"

namespace isotope::ops {
namespace {

constexpr int kMaxNgram = 16;

/// The last tokens of one sequence: of the batch, before that of its state, in which the token at position p has place p % (size - 1).
class LastTokens {
 public:
  LastTokens(const Batch& b, SequenceRows rows, int size, const float* state) : b_(b), rows_(rows), kept_(size - 1), state_(state) {}

  /// out[i] = the token i before row `at` of the sequence, or the separator from the first one on that is not to be seen.
  void before(int64_t at, int32_t separator, int64_t* out) const {
    const int64_t position = b_.positions[size_t(rows_.first + at)];
    bool seen = true;
    out[0] = b_.tokens[size_t(rows_.first + at)];
    for (int i = 1; i <= kept_; ++i) {
      seen = seen && position >= i;
      const int32_t token = !seen ? separator : at >= i ? b_.tokens[size_t(rows_.first + at - i)] : int32_t(state_[(position - i) % kept_]);
      seen = seen && token != separator;
      out[i] = token;
    }
  }

  /// What the state is after the first `n` tokens of the step.
  void keep(float* state, int64_t n) const {
    for (int64_t at = std::max<int64_t>(0, n - kept_); at < n; ++at)
      state[b_.positions[size_t(rows_.first + at)] % kept_] = float(b_.tokens[size_t(rows_.first + at)]);
  }

 private:
  const Batch& b_;
  SequenceRows rows_;
  int kept_;
  const float* state_;
};

}  // namespace

Tensor CpuSparse::embed_ngrams(const NgramArgs& a) {
  const Batch& b = o_.batch_;
  const int heads = a.all_heads();
  ISO_CHECK(a.size >= 2 && a.size <= kMaxNgram && a.heads > 0 && !a.tables.empty() && int64_t(a.multipliers.size()) == a.size);
  ISO_CHECK(int64_t(a.vocabularies.size()) == heads && int64_t(a.offsets.size()) == heads);
  const int64_t each = a.tables[0].w->n, dim = a.tables[0].w->k, last = (int64_t(a.tables.size()) - 1) * each + a.tables.back().w->n;
  ISO_CHECK(a.offsets.back() + a.vocabularies.back() <= last);
  const auto rows = o_.arena_->take<int64_t>(size_t(b.T() * heads));
  for (int64_t s = 0; s < b.S(); ++s) {
    if (b.query_start[size_t(s)] == b.query_start[size_t(s) + 1]) continue;
    const SequenceRows r = rows_of(b, s);
    float* const state = o_.state_of(a.at, a.state_floats(), s);
    clear_if(r.begins, state, a.state_floats());
    const LastTokens tokens(b, r, a.size, state);
    int64_t before[kMaxNgram];
    for (int64_t t = 0; t < r.n; ++t) {
      tokens.before(t, a.separator, before);
      ngram_rows({.multipliers = a.multipliers, .lengths = a.vocabularies, .offsets = a.offsets, .heads = a.heads}, [&](int i) { return before[i]; },
                 &rows[size_t((r.first + t) * heads)]);
    }
    for (const Batch::Capture& c : captures_of(b, s)) {
      float* const image = o_.state_in(a.at, a.state_floats(), c.slot);
      std::copy(state, state + a.state_floats(), image);
      tokens.keep(image, c.tokens);
    }
    tokens.keep(state, r.n);
  }
  const Tensor out = o_.empty(b.T(), heads * dim);
  each_row(o_.team_, b.T(), out.cols, [&](int64_t t) {
    for (int h = 0; h < heads; ++h) {
      const int64_t row = rows[size_t(t * heads + h)];
      embed_row(o_.k_, *a.tables[size_t(row / each)].w, row % each, out.row(t) + h * dim);
    }
  });
  return out;
}

Tensor CpuSparse::gate_streams(const StreamGateArgs& a) {
  const int64_t d = a.values.cols, n = a.streams;
  ISO_CHECK(n > 0 && a.keys.cols == n * d && a.queries.cols == n * d && a.keys.rows == a.values.rows && a.queries.rows == a.values.rows);
  const Tensor out = o_.empty(a.values.rows, n * d);
  const float scale = 1 / std::sqrt(float(d));
  each_row(o_.team_, out.rows, 3 * out.cols, [&](int64_t t) {
    for (int64_t s = 0; s < n; ++s) {
      const float *const k = a.keys.row(t) + s * d, *const q = a.queries.row(t) + s * d, *const v = a.values.row(t);
      float* const to = out.row(t) + s * d;
      float sum = 0;
      for (int64_t i = 0; i < d; ++i) sum += k[i] * q[i];
      sum *= scale;
      float gate = std::copysign(std::sqrt(std::max(std::fabs(sum), 1e-6f)), sum);
      if (sum == 0) gate = 0;
      o_.k_.elementwise.sigmoid(&gate, 1);
      for (int64_t i = 0; i < d; ++i) to[i] = gate * v[i];
    }
  });
  return out;
}

}  // namespace isotope::ops
