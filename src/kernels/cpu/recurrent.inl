// Bodies of recurrent.h; compiled once for each ISA through all.inl.
#pragma once

#include "kernels/cpu/elementwise.inl"
#include "kernels/cpu/recurrent.h"

namespace isotope::kernels::cpu {
namespace {

/// ln(1 + e^x) = max(x, 0) + ln(1 + y), y = e^-|x|. ln(1 + y) = 2 artanh(s) with s = y / (2 + y), at most 1/3, as its series.
inline f32x16 softplus(f32x16 x) {
  constexpr float kOdd[] = {1.0f / 17, 1.0f / 15, 1.0f / 13, 1.0f / 11, 1.0f / 9, 1.0f / 7, 1.0f / 5, 1.0f / 3, 1.0f};
  const f32x16 y = exp(-abs(x)), s = y / (set1(2.0f) + y);
  return fma(set1(2.0f) * s, polynomial(s * s, kOdd), max(x, zero_f32()));
}

template <int Width>
void conv_panel(const ConvJob& j, int64_t c, int lanes) {
  f32x16 w[Width], window[Width];
  for (int i = 0; i < Width; ++i) w[i] = load_some(j.weight + i * j.channels + c, lanes);
  for (int i = 0; i + 1 < Width; ++i) window[i] = load_some(j.state + i * j.channels + c, lanes);
  const f32x16 bias = j.bias ? load_some(j.bias + c, lanes) : zero_f32();
  for (int64_t t = 0; t < j.tokens; ++t) {
    window[Width - 1] = load_some(j.in + t * j.in_stride + c, lanes);
    f32x16 y = bias;
    for (int i = 0; i < Width; ++i) y = fma(w[i], window[i], y);
    store_some(j.out + t * j.out_stride + c, j.silu ? activate<Act::silu>(y) : y, lanes);
    for (int i = 0; i + 1 < Width; ++i) window[i] = window[i + 1];
  }
  for (int i = 0; i + 1 < Width; ++i) store_some(j.state + i * j.channels + c, window[i], lanes);
}

template <int Width>
void conv_channels(const ConvJob& j) {
  for_lanes(j.end - j.begin, [&](int64_t i, int lanes) { conv_panel<Width>(j, j.begin + i, lanes); });
}

void conv(const ConvJob& j) noexcept {
  constexpr void (*kByWidth[])(const ConvJob&) = {conv_channels<2>, conv_channels<3>, conv_channels<4>, conv_channels<5>,
                                                  conv_channels<6>, conv_channels<7>, conv_channels<8>};
  static_assert(sizeof(kByWidth) / sizeof(kByWidth[0]) == kMaxConvWidth - 1);
  kByWidth[j.width - 2](j);
}

/// Sums over dk: four chains, element i in chain i % 4, added as a tree.
struct Chains {
  f32x16 s[4] = {zero_f32(), zero_f32(), zero_f32(), zero_f32()};
  f32x16 sum() const { return (s[0] + s[1]) + (s[2] + s[3]); }
};

float dot_of(const float* a, const float* b, int n) {
  f32x16 s = zero_f32();
  for (int i = 0; i < n; i += 16) {
    const int lanes = n - i < 16 ? n - i : 16;
    s = fma(load_some(a + i, lanes), load_some(b + i, lanes), s);
  }
  return hsum(s);
}

/// One pass over the panel a token: it is changed by the last token while Sᵀk and Sᵀq of the next one are summed up.
void delta(const DeltaJob& j) noexcept {
  float* const S = j.state;
  Chains r, p;
  const auto meet = [&](f32x16 s, int i, const float* k, const float* q) {
    r.s[i % 4] = fma(s, set1(k[i]), r.s[i % 4]);
    p.s[i % 4] = fma(s, set1(q[i]), p.s[i % 4]);
  };
  if (j.tokens > 0)
    for (int i = 0; i < j.dk; ++i) meet(load(S + 16 * i), i, j.k, j.q);
  for (int64_t t = 0; t < j.tokens; ++t) {
    const float *k = j.k + t * j.qk_stride, *q = j.q + t * j.qk_stride;
    const f32x16 alpha = set1(j.alpha[t * j.gate_stride]), beta = set1(j.beta[t * j.gate_stride]);
    const f32x16 v = load_some(j.v + t * j.v_stride, j.lanes);
    const f32x16 u = beta * (v - alpha * r.sum());
    store_some(j.out + t * j.out_stride, fma(set1(dot_of(k, q, j.dk)), u, alpha * p.sum()), j.lanes);
    r = p = {};
    const bool more = t + 1 < j.tokens;
    const float *k2 = k + j.qk_stride, *q2 = q + j.qk_stride;
    for (int i = 0; i < j.dk; ++i) {
      const f32x16 s = fma(set1(k[i]), u, alpha * load(S + 16 * i));
      store(S + 16 * i, s);
      if (more) meet(s, i, k2, q2);
    }
  }
}

template <bool Channels>
void scan(const ScanJob& j) noexcept {
  float* const H = j.state;
  const f32x16 d = Channels ? load_some(j.d, j.lanes) : set1(*j.d);
  for (int64_t t = 0; t < j.tokens; ++t) {
    const float *b = j.b + t * j.bc_stride, *c = j.c + t * j.bc_stride, *dt_at = j.dt + t * j.dt_stride;
    const f32x16 x = load_some(j.x + t * j.x_stride, j.lanes), dt = Channels ? load_some(dt_at, j.lanes) : set1(*dt_at);
    const f32x16 alpha = Channels ? zero_f32() : set1(j.alpha[t * j.dt_stride]), step = dt * x;
    Chains y;
    for (int n = 0; n < j.states; ++n) {
      const f32x16 decay = Channels ? exp(dt * load(j.neg_a + 16 * n)) : alpha;
      const f32x16 h = fma(set1(b[n]), step, decay * load(H + 16 * n));
      store(H + 16 * n, h);
      y.s[n % 4] = fma(h, set1(c[n]), y.s[n % 4]);
    }
    store_some(j.out + t * j.out_stride, fma(d, x, y.sum()), j.lanes);
  }
}

// ---- matrix states in chunks: see recurrent.h -----------------------------------------------------------------------------------
/// Row `i` of a chunk follows `last`, the row before it (not read if i is 0).
void next_row(StateRow& row, const StateRow& last, int i, float alpha, const float* kk, const float* kq) {
  row.reach = i ? last.reach * alpha : alpha;
  for (int j = 0; j < i; ++j) row.carry[j] = last.carry[j] * alpha;
  row.carry[i] = 1.0f;
  for (int j = 0; j < i; ++j) row.kk[j] = -(row.carry[j] * kk[j]);
  for (int j = 0; j <= i; ++j) row.kq[j] = row.carry[j] * kq[j];
}

/// The carry and reach of the last of `n` rows whose decays are known.
StateRow row_before(const float* alpha, int n) {
  constexpr float kNone[kStateChunk] = {};
  StateRow row{};
  for (int i = 0; i < n; ++i) {
    const StateRow last = row;
    next_row(row, last, i, alpha[i], kNone, kNone);
  }
  return row;
}

void state_rows(const StateRowsJob& job) noexcept {
  const float* keys[kStateChunk];
  for (int i = 0; i < job.at; ++i) keys[i] = job.open_keys + i * job.depth;
  int i = job.at;
  for (int64_t t = 0; t < job.tokens; ++t, i = (i + 1) % kStateChunk) {
    const float *k = job.k + t * job.qk_stride, *q = job.q + t * job.qk_stride;
    const bool joins = t < job.keep;
    float kk[kStateChunk], kq[kStateChunk];
    keys[i] = k;
    for (int j = 0; j < i; ++j) kk[j] = dot_of(keys[j], k, job.depth);
    for (int j = 0; j <= i; ++j) kq[j] = dot_of(keys[j], q, job.depth);
    if (joins) __builtin_memcpy(job.open_keys + i * job.depth, k, size_t(job.depth) * sizeof(float));
    for (int h = 0; h < job.heads; ++h) {
      const int64_t head = h * job.next_head, gate = t * job.gate_stride + head;
      StateRow& row = job.rows[head * job.head_rows + t];
      float* const open = job.open_alpha + head * kStateChunk;
      const float alpha = job.alpha[gate];
      if (t > 0) next_row(row, *(&row - 1), i, alpha, kk, kq);
      else next_row(row, row_before(open, i), i, alpha, kk, kq);
      row.step = job.step[gate];
      if (joins) open[i] = alpha;
    }
  }
}

/// Sᵀ times N vectors a, and N vectors b if there are any, from `stride` to `stride`.
template <int N, bool Two>
void meet(const float* S, int depth, const float* a, const float* b, int64_t stride, f32x16* to_a, f32x16* to_b) {
  f32x16 x[N][2], y[N][2];
#pragma GCC unroll 8
  for (int t = 0; t < N; ++t) x[t][0] = x[t][1] = y[t][0] = y[t][1] = zero_f32();
  const auto add = [&]<int Chain>(int i) {
    const f32x16 s = load(S + 16 * i);
#pragma GCC unroll 8
    for (int t = 0; t < N; ++t) {
      x[t][Chain] = fma(s, set1(a[t * stride + i]), x[t][Chain]);
      if constexpr (Two) y[t][Chain] = fma(s, set1(b[t * stride + i]), y[t][Chain]);
    }
  };
  int i = 0;
  for (; i + 2 <= depth; i += 2) {
    add.template operator()<0>(i);
    add.template operator()<1>(i + 1);
  }
  if (i < depth) add.template operator()<0>(i);
#pragma GCC unroll 8
  for (int t = 0; t < N; ++t) {
    to_a[t] = x[t][0] + x[t][1];
    if constexpr (Two) to_b[t] = y[t][0] + y[t][1];
  }
}

/// meet() for n vectors, as many at once as the registers hold.
template <int N, bool Two>
void meet_all(const float* S, int depth, const float* a, const float* b, int64_t stride, int n, f32x16* to_a, f32x16* to_b) {
  int t = 0;
  for (; t + N <= n; t += N) meet<N, Two>(S, depth, a + t * stride, Two ? b + t * stride : nullptr, stride, to_a + t, Two ? to_b + t : nullptr);
  if constexpr (N > 1) {
    if (t < n) meet_all<N / 2, Two>(S, depth, a + t * stride, Two ? b + t * stride : nullptr, stride, n - t, to_a + t, Two ? to_b + t : nullptr);
  }
}

/// S = reach · S + sum over j of k(j) u(j)ᵀ. Four rows at once: each is a chain of dependent sums.
template <class Reach>
inline void absorb_rows(float* S, int depth, Reach&& reach, const float* const* keys, const f32x16* rows) {
  f32x16 u[kStateChunk];
  const float* k[kStateChunk];
#pragma GCC unroll 8
  for (int j = 0; j < kStateChunk; ++j) u[j] = rows[j], k[j] = keys[j];
  const auto add = [&]<int N>(int i) {
    f32x16 s[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) s[n] = reach(i + n) * load(S + 16 * (i + n));
#pragma GCC unroll 8
    for (int j = 0; j < kStateChunk; ++j) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) s[n] = fma(set1(k[j][i + n]), u[j], s[n]);
    }
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) store(S + 16 * (i + n), s[n]);
  };
  int i = 0;
  for (; i + 4 <= depth; i += 4) add.template operator()<4>(i);
  for (; i < depth; ++i) add.template operator()<1>(i);
}

/// The state at the start of the next chunk.
void absorb(float* S, int depth, const StateRow& last, const float* const* keys, const f32x16* rows) {
  f32x16 u[kStateChunk];
#pragma GCC unroll 8
  for (int j = 0; j < kStateChunk; ++j) u[j] = set1(last.carry[j]) * rows[j];
  const f32x16 reach = set1(last.reach);
  absorb_rows(S, depth, [&](int) { return reach; }, keys, u);
}

/// Sᵀ times what the rows of a chunk have.
struct Met {
  f32x16 k[kStateChunk], q[kStateChunk];
};

/// Row i of a chunk, token t of the job and number r of those that met the state: its u, and its result.
template <bool Delta>
inline void state_row(const StateChunksJob& job, int64_t t, int i, const Met& met, int r, f32x16* u) {
  const StateRow& row = job.rows[t];
  const f32x16 x = load_some(job.x + t * job.x_stride, job.lanes), reach = set1(row.reach);
  f32x16 from = x, out = reach * met.q[r];
  if constexpr (Delta) {
    from = x - reach * met.k[r];
    for (int j = 0; j < i; ++j) from = fma(set1(row.kk[j]), u[j], from);
  }
  u[i] = set1(row.step) * from;
  for (int j = 0; j <= i; ++j) out = fma(set1(row.kq[j]), u[j], out);
  if constexpr (!Delta) out = fma(set1(job.skip), x, out);
  store_some(job.out + t * job.out_stride, out, job.lanes);
}

template <bool Delta>
void state_chunks(const StateChunksJob& job) noexcept {
  f32x16 u[kStateChunk];
  const float* keys[kStateChunk];
  for (int i = 0; i < job.at; ++i) {
    u[i] = load(job.open + 16 * i);
    keys[i] = job.open_keys + i * job.depth;
  }
  int i = job.at;
  for (int64_t t = 0; t < job.tokens;) {
    const int64_t left = job.tokens - t;
    const int n = left < kStateChunk - i ? int(left) : kStateChunk - i;
    const float *k = job.k + t * job.qk_stride, *q = job.q + t * job.qk_stride;
    Met met;
    if constexpr (Delta) meet_all<4, true>(job.state, job.depth, k, q, job.qk_stride, n, met.k, met.q);
    else meet_all<8, false>(job.state, job.depth, q, nullptr, job.qk_stride, n, met.q, nullptr);
    for (int r = 0; r < n; ++r) keys[i + r] = k + r * job.qk_stride;
    if (n == kStateChunk) {  // the same with constants, so that u stays in registers and no branch is guessed
#pragma GCC unroll 8
      for (int r = 0; r < kStateChunk; ++r) state_row<Delta>(job, t + r, r, met, r, u);
    } else {
      for (int r = 0; r < n; ++r) state_row<Delta>(job, t + r, i + r, met, r, u);
    }
    t += n;
    i += n;
    if (i < kStateChunk) continue;
    absorb(job.state, job.depth, job.rows[t - 1], keys, u);
    i = 0;
  }
  for (int j = 0; j < i; ++j) store(job.open + 16 * j, u[j]);
}

void gates(float* dt, float* alpha, const float* x, const float* bias, const float* neg_a, int64_t n, float low, float high) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) {
    const f32x16 in = load_some(x + i, lanes), raw = bias ? in + load_some(bias + i, lanes) : in;
    const f32x16 step = max(set1(low), min(set1(high), softplus(raw)));
    if (neg_a) store_some(alpha + i, exp(load_some(neg_a + i, lanes) * step), lanes);
    store_some(dt + i, step, lanes);
  });
}

void sigmoid_mul(float* x, const float* gate, int64_t n) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) { store_some(x + i, times_sigmoid(load_some(x + i, lanes), load_some(gate + i, lanes)), lanes); });
}

void mul_rows(float* x, const float* y, int64_t n) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) { store_some(x + i, load_some(x + i, lanes) * load_some(y + i, lanes), lanes); });
}

constexpr RecurrentKernels kRecurrent = {conv, delta, scan<false>, scan<true>, state_rows, state_chunks<true>, state_chunks<false>, gates, sigmoid_mul, mul_rows};

}  // namespace
}  // namespace isotope::kernels::cpu
