// Residual streams on the CPU: the numbers that mix them are few, and each row is done by itself.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ops/cpu/share.h"
#include "ops/cpu/sparse.h"

namespace isotope::ops {
namespace {

constexpr int kMaxStreams = 16;

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

/// out = the streams of a row, each times its weight, added up from the first on.
void mix_row(const float* row, const float* weights, int n, int64_t d, float* out) noexcept {
  for (int64_t i = 0; i < d; ++i) out[i] = weights[0] * row[i];
  for (int s = 1; s < n; ++s) {
    const float* const x = row + s * d;
    for (int64_t i = 0; i < d; ++i) out[i] = out[i] + weights[s] * x[i];
  }
}

}  // namespace

Tensor CpuSparse::mixture(Tensor streams, const Streams& s) const {
  ISO_CHECK(s.streams >= 1 && s.streams <= kMaxStreams && streams.cols % s.streams == 0 && s.mix.w && s.mix.w->k == streams.cols);
  ISO_CHECK(int64_t(s.base.size()) == s.mix.w->n);
  return o_.linear(o_.rms_norm(streams, {}, s.norm_eps), s.mix);
}

Tensor CpuSparse::spread(Tensor x, int streams) {
  const Tensor out = o_.empty(x.rows, x.cols * streams);
  for_rows(o_.team_, x.rows, out.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r)
      for (int n = 0; n < streams; ++n) std::memcpy(out.row(r) + n * x.cols, x.row(r), size_t(x.cols) * sizeof(float));
  });
  return out;
}

StreamStep CpuSparse::enter(Tensor streams, const Streams& s) {
  Tensor next;
  return enter(streams, s, {}, next);
}

StreamStep CpuSparse::enter_late(Tensor streams, const Streams& s, Tensor& read) {
  if (!read) {
    read = o_.empty(streams.rows, s.streams);
    for (int64_t r = 0; r < read.rows; ++r)
      for (int i = 0; i < s.streams; ++i) read.row(r)[i] = i == 0;
  }
  ISO_CHECK(read.rows == streams.rows && read.cols == s.streams);
  Tensor next;
  const StreamStep out = enter(streams, s, read, next);
  read = next;
  return out;
}

StreamStep CpuSparse::enter(Tensor streams, const Streams& s, Tensor read, Tensor& next) const {
  const int n = s.streams;
  const int64_t d = streams.cols / n;
  const Tensor w = mixture(streams, s);
  ISO_CHECK(w.cols == int64_t{n} * (2 + n) && s.scale.size() == 3);
  const StreamStep out{o_.empty(streams.rows, d), w.columns(n, w.cols - n)};
  next = w.columns(0, n);
  const auto& k = o_.k_.elementwise;
  for_rows(o_.team_, streams.rows, streams.cols * 2 + int64_t{n} * n * s.iterations * kIterationCost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      float* const v = w.row(r);
      for (int64_t i = 0; i < w.cols; ++i) v[i] = v[i] * s.scale[i < n ? 0 : i < 2 * n ? 1 : 2] + s.base[size_t(i)];
      k.sigmoid(v, 2 * n);
      for (int i = 0; i < n; ++i) v[i] += s.eps, v[n + i] *= 2;
      float* const m = v + 2 * n;
      for (int i = 0; i < n; ++i) {
        float* const line = m + i * n;
        k.exp(line, n, *std::max_element(line, line + n));
        float sum = 0;
        for (int j = 0; j < n; ++j) sum += line[j];
        for (int j = 0; j < n; ++j) line[j] = line[j] / sum + s.eps;
      }
      balance(m, n, s.iterations, s.eps);
      mix_row(streams.row(r), read ? read.row(r) : v, n, d, out.x.row(r));
    }
  });
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
  const int64_t d = y.cols, n = streams.cols / d;
  ISO_CHECK(n >= 1 && n <= kMaxStreams && n * d == streams.cols && step.weights.cols == n + n * n && step.weights.rows == streams.rows &&
            y.rows == streams.rows);
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

Tensor CpuSparse::join(Tensor streams, const Streams& s) {
  const int n = s.streams;
  const Tensor w = mixture(streams, s), out = o_.empty(streams.rows, streams.cols / n);
  ISO_CHECK(w.cols == n && s.scale.size() == 1);
  for_rows(o_.team_, streams.rows, streams.cols * 2, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      float* const v = w.row(r);
      for (int i = 0; i < n; ++i) v[i] = v[i] * s.scale[0] + s.base[size_t(i)];
      o_.k_.elementwise.sigmoid(v, n);
      for (int i = 0; i < n; ++i) v[i] += s.eps;
      mix_row(streams.row(r), v, n, out.cols, out.row(r));
    }
  });
  return out;
}

}  // namespace isotope::ops
