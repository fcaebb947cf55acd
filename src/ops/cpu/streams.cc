// Residual streams on the CPU: the numbers that mix them are few, and each row is done by itself.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/share.h"
#include "ops/cpu/source_rows.h"
#include "ops/cpu/sparse.h"

namespace isotope::ops {
namespace {

constexpr int kMaxStreams = 16;

/// Rows that a member norms before it multiplies them: their mixtures' matrix is read once for all.
constexpr int64_t kRowsAtOnce = 8;

/// What an iteration of the normalisation costs an element, in units of an element that is only added.
constexpr int64_t kIterationCost = 4;

/// `m` [n, n] becomes doubly stochastic: first its columns, then rows and columns in turn.
void balance(float* m, int n, int iterations, float eps) noexcept {
  const auto columns = [&] {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int i = 0; i < n; ++i) sum += m[i * n + j];
      for (int i = 0; i < n; ++i) m[i * n + j] /= sum + eps;
    }
  };
  columns();
  for (int t = 1; t < iterations; ++t) {
    for (int i = 0; i < n; ++i) {
      float sum = 0;
      for (int j = 0; j < n; ++j) sum += m[i * n + j];
      for (int j = 0; j < n; ++j) m[i * n + j] /= sum + eps;
    }
    columns();
  }
}

/// What a row's numbers become: weights of what is read and of what is added, and the matrix.
void set_numbers(const Streams& s, float* v, const kernels::cpu::ElementwiseKernels& k) noexcept {
  const int n = s.streams;
  const bool mixed = s.iterations > 0;
  for (int i = 0; i < n * (mixed ? 2 + n : 2); ++i) v[i] = v[i] * s.scale[i < n ? 0 : i < 2 * n ? 1 : 2] + s.base[size_t(i)];
  k.sigmoid(v, 2 * n);
  for (int i = 0; i < n; ++i) v[i] += s.eps, v[n + i] = v[n + i] * s.magnitude + s.added_eps;
  if (!mixed) return;
  float* const m = v + 2 * n;
  for (int i = 0; i < n; ++i) {
    float* const line = m + i * n;
    k.exp(line, n, *std::max_element(line, line + n));
    float sum = 0;
    for (int j = 0; j < n; ++j) sum += line[j];
    for (int j = 0; j < n; ++j) line[j] = line[j] / sum + s.eps;
  }
  balance(m, n, s.iterations, s.eps);
}

/// out = the streams of a row, each times its weight, added up from the first on.
void mix_row(const float* row, const float* weights, int n, int64_t d, float* out) noexcept {
  for (int64_t i = 0; i < d; ++i) out[i] = weights[0] * row[i];
  for (int s = 1; s < n; ++s) {
    const float* const x = row + s * d;
    for (int64_t i = 0; i < d; ++i) out[i] = out[i] + weights[s] * x[i];
  }
}

Tensor rows_at(Tensor t, int64_t first, int64_t n) { return {t.row(first), n, t.cols, t.stride}; }

void copy_rows(Tensor from, Tensor to, int64_t first) {
  for (int64_t r = 0; r < from.rows; ++r) std::memcpy(to.row(first + r), from.row(r), size_t(from.cols) * sizeof(float));
}

}  // namespace

/// The numbers of each row, [streams.rows, mix.n] of them, then `finish(row)`. Joined, a member norms, multiplies and finishes its rows while they lie in its
/// cache; apart, each op goes over all rows.
template <class F>
void CpuSparse::mix_then(Tensor streams, const Streams& s, Tensor numbers, F finish) const {
  ISO_CHECK(s.streams >= 1 && s.streams <= kMaxStreams && streams.cols % s.streams == 0 && s.mix.w->k == streams.cols);
  ISO_CHECK(int64_t(s.base.size()) == s.mix.w->n && s.mix.bias.empty());
  const int64_t cost = streams.cols * (2 + s.mix.w->n / 4) + int64_t{s.streams} * s.streams * s.iterations * kIterationCost;
  const auto finish_rows = [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) finish(r);
  };
  if (o_.sparse_tuning_.streams_apart) {
    const Tensor w = o_.linear(o_.rms_norm(streams, {}, s.norm_eps), s.mix);
    for (int64_t r = 0; r < w.rows; ++r) std::memcpy(numbers.row(r), w.row(r), size_t(w.cols) * sizeof(float));
    return for_rows(o_.team_, streams.rows, cost, finish_rows);
  }
  const Norm norm{.eps = s.norm_eps, .bf16 = o_.bf16_norms_};
  const Tensor normed = o_.empty(streams.rows, streams.cols);
  for_rows(o_.team_, streams.rows, cost, [&](int64_t r0, int64_t r1) {
    for (int64_t first = r0; first < r1; first += kRowsAtOnce) {
      const int64_t rows = std::min(kRowsAtOnce, r1 - first);
      for (int64_t r = first; r < first + rows; ++r) norm_row(o_.k_, norm, normed.row(r), streams.row(r), streams.cols);
      linear_rows(o_.k_, rows_at(normed, first, rows), *s.mix.w, rows_at(numbers, first, rows));
      finish_rows(first, first + rows);
    }
  });
}

Tensor CpuSparse::spread(Tensor x, int streams) {
  const Tensor out = o_.empty(x.rows, x.cols * streams);
  for_rows(o_.team_, x.rows, out.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r)
      for (int n = 0; n < streams; ++n) std::memcpy(out.row(r) + n * x.cols, x.row(r), size_t(x.cols) * sizeof(float));
  });
  return out;
}

Tensor CpuSparse::normed(Tensor streams, const Streams& s) const {
  ISO_CHECK(s.streams >= 1 && s.streams <= kMaxStreams && streams.cols % s.streams == 0 && int64_t(s.norm.size()) == streams.cols);
  ISO_CHECK(s.down.w->k == streams.cols && s.up && s.up.w->n == streams.cols && s.up.w->k == s.down.w->n);
  const Tensor out = o_.copy(streams);
  o_.head_norm(out, int(streams.cols / s.streams), {}, s.norm_eps);
  o_.scale_columns(out, s.norm);
  return out;
}

/// The mean of the normed streams, each number times the sigmoid of its own gate.
Tensor CpuSparse::blend_normed(Tensor normed, const Streams& s) const {
  const int n = s.streams;
  const int64_t d = normed.cols / n;
  const Tensor low = o_.linear(normed, s.down);
  o_.scale(low, 1 / float(n));
  o_.activate(low, Activation::silu);
  const Tensor gate = o_.linear(low, s.up), out = o_.empty(normed.rows, d);
  constexpr int64_t kCost = 6;
  for_rows(o_.team_, out.rows, normed.cols * kCost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      float *const g = gate.row(r), *const to = out.row(r);
      o_.k_.elementwise.sigmoid(g, gate.cols);
      const float* const x = normed.row(r);
      for (int64_t i = 0; i < d; ++i) to[i] = g[i] * x[i];
      for (int64_t at = d; at < normed.cols; at += d)
        for (int64_t i = 0; i < d; ++i) to[i] = to[i] + g[at + i] * x[at + i];
      for (int64_t i = 0; i < d; ++i) to[i] *= 1 / float(n);
    }
  });
  return out;
}

StreamStep CpuSparse::enter_rows(Tensor streams, const Streams& s, Tensor read, Tensor& next) const {
  const int n = s.streams;
  const int64_t d = streams.cols / n;
  if (s.down) {
    ISO_CHECK(!read);
    const Tensor x = normed(streams, s), w = o_.linear(x, s.mix);
    ISO_CHECK(w.cols == n);
    for (int64_t r = 0; r < w.rows; ++r) {
      for (int i = 0; i < n; ++i) w.row(r)[i] *= 1 / float(n);
      o_.k_.elementwise.sigmoid(w.row(r), n);
      for (int i = 0; i < n; ++i) w.row(r)[i] *= 2;
    }
    return {blend_normed(x, s), w};
  }
  const bool mixed = s.iterations > 0;
  const int64_t numbers = int64_t{n} * (mixed ? 2 + n : 2);
  ISO_CHECK(s.mix && s.mix.w->n == numbers && s.scale.size() == (mixed ? 3 : 2));
  const Tensor w = o_.empty(streams.rows, numbers);
  const StreamStep out{o_.empty(streams.rows, d), w.columns(n, numbers - n)};
  next = w.columns(0, n);
  mix_then(streams, s, w, [&](int64_t r) {
    set_numbers(s, w.row(r), o_.k_.elementwise);
    mix_row(streams.row(r), read ? read.row(r) : w.row(r), n, d, out.x.row(r));
  });
  return out;
}

StreamStep CpuSparse::enter(Tensor streams, const Streams& s) {
  Tensor next;
  if (!apart_by_sequence(streams)) return enter_rows(streams, s, {}, next);
  StreamStep out;
  each_sequence(streams, [&](int64_t first, int64_t n) {
    const StreamStep part = enter_rows(rows_at(streams, first, n), s, {}, next);
    if (!out.x) out = {o_.empty(streams.rows, part.x.cols), o_.empty(streams.rows, part.weights.cols)};
    copy_rows(part.x, out.x, first), copy_rows(part.weights, out.weights, first);
  });
  return out;
}

StreamStep CpuSparse::enter_late(Tensor streams, const Streams& s, Tensor& read) {
  if (!read) {
    read = o_.empty(streams.rows, s.streams);
    for (int64_t r = 0; r < read.rows; ++r)
      for (int i = 0; i < s.streams; ++i) read.row(r)[i] = i == 0;
  }
  ISO_CHECK(read.rows == streams.rows && read.cols == s.streams);
  Tensor next;
  const StreamStep out = enter_rows(streams, s, read, next);
  read = next;
  return out;
}

Tensor CpuSparse::blend(Tensor streams, Tensor weights) {
  const int64_t n = weights.cols;
  ISO_CHECK(n >= 1 && n <= kMaxStreams && streams.cols % n == 0 && weights.rows == streams.rows);
  const Tensor out = o_.empty(streams.rows, streams.cols / n);
  for_rows(o_.team_, streams.rows, streams.cols * 2, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) mix_row(streams.row(r), weights.row(r), int(n), out.cols, out.row(r));
  });
  return out;
}

void CpuSparse::leave(Tensor streams, const StreamStep& step, Tensor y) {
  if (!apart_by_sequence(streams)) return leave_rows(streams, step, y);
  each_sequence(streams, [&](int64_t first, int64_t n) {
    leave_rows(rows_at(streams, first, n), {{}, rows_at(step.weights, first, n)}, rows_at(y, first, n));
  });
}

Tensor CpuSparse::join(Tensor streams, const Streams& s) {
  if (!apart_by_sequence(streams)) return join_rows(streams, s);
  const Tensor out = o_.empty(streams.rows, streams.cols / s.streams);
  each_sequence(streams, [&](int64_t first, int64_t n) { copy_rows(join_rows(rows_at(streams, first, n), s), out, first); });
  return out;
}

/// f(first, n) for the rows of each sequence; where the step's last layer has narrowed them, for each row.
template <class F>
void CpuSparse::each_sequence(Tensor streams, F f) const {
  const auto& starts = o_.batch_.query_start;
  const bool all = streams.rows == o_.batch_.T();
  const int64_t count = all ? o_.batch_.S() : streams.rows;
  for (int64_t i = 0; i < count; ++i)
    if (const int64_t first = all ? starts[size_t(i)] : i, n = all ? starts[size_t(i) + 1] - first : 1; n > 0) f(first, n);
}

void CpuSparse::leave_rows(Tensor streams, const StreamStep& step, Tensor y) const {
  const int64_t d = y.cols, n = streams.cols / d;
  ISO_CHECK(n >= 1 && n <= kMaxStreams && n * d == streams.cols && step.weights.rows == streams.rows && y.rows == streams.rows);
  ISO_CHECK(step.weights.cols == n || step.weights.cols == n + n * n);
  if (step.weights.cols == n) {
    for_rows(o_.team_, streams.rows, streams.cols, [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r)
        for (int64_t k = 0; k < n; ++k) {
          const float w = step.weights.row(r)[k], *const add = y.row(r);
          float* const to = streams.row(r) + k * d;
          for (int64_t i = 0; i < d; ++i) to[i] = w * add[i] + to[i];
        }
    });
    return;
  }
  const Tensor old = o_.empty(streams.rows, streams.cols);
  for_rows(o_.team_, streams.rows, streams.cols * (n + 1), [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      const float *const w = step.weights.row(r), *const m = w + n, *const add = y.row(r);
      std::memcpy(old.row(r), streams.row(r), size_t(streams.cols) * sizeof(float));
      for (int64_t k = 0; k < n; ++k) {
        float column[kMaxStreams];
        for (int64_t j = 0; j < n; ++j) column[j] = m[j * n + k];
        float* const to = streams.row(r) + k * d;
        mix_row(old.row(r), column, int(n), d, to);
        for (int64_t i = 0; i < d; ++i) to[i] = w[k] * add[i] + to[i];
      }
    }
  });
}

Tensor CpuSparse::join_rows(Tensor streams, const Streams& s) const {
  const int n = s.streams;
  ISO_CHECK(n >= 1 && n <= kMaxStreams && streams.cols % n == 0);
  if (s.down) return blend_normed(normed(streams, s), s);
  const Tensor out = o_.empty(streams.rows, streams.cols / n);
  if (!s.mix) {
    float even[kMaxStreams];
    std::fill(even, even + n, 1 / float(n));
    for_rows(o_.team_, streams.rows, streams.cols, [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r) mix_row(streams.row(r), even, n, out.cols, out.row(r));
    });
    return out;
  }
  ISO_CHECK(s.mix && s.mix.w->n == n && s.scale.size() == 1);
  const Tensor w = o_.empty(streams.rows, n);
  mix_then(streams, s, w, [&](int64_t r) {
    float* const v = w.row(r);
    for (int i = 0; i < n; ++i) v[i] = v[i] * s.scale[0] + s.base[size_t(i)];
    o_.k_.elementwise.sigmoid(v, n);
    for (int i = 0; i < n; ++i) v[i] += s.eps;
    mix_row(streams.row(r), v, n, out.cols, out.row(r));
  });
  return out;
}

}  // namespace isotope::ops
