// Bodies of channel_delta.h; compiled once for each ISA through all.inl.
#include "kernels/cpu/channel_delta.h"
#include "kernels/cpu/recurrent.inl"

namespace isotope::kernels::cpu {
namespace {

/// Token by token: the sum over dk that the value is compared with must be complete before the state takes up that token.
void channel_delta(const ChannelDeltaJob& j) noexcept {
  float* const S = j.state;
  for (int64_t t = 0; t < j.tokens; ++t) {
    const float *q = j.q + t * j.q_stride, *k = j.k + t * j.k_stride, *alpha = j.alpha + t * j.alpha_stride;
    Chains r, out;
    for (int i = 0; i < j.dk; ++i) {
      const f32x16 s = set1(alpha[i]) * load(S + 16 * i);
      store(S + 16 * i, s);
      r.s[i % 4] = fma(s, set1(k[i]), r.s[i % 4]);
    }
    const f32x16 u = set1(j.beta[t * j.beta_stride]) * (load_some(j.v + t * j.v_stride, j.lanes) - r.sum());
    for (int i = 0; i < j.dk; ++i) {
      const f32x16 s = fma(set1(k[i]), u, load(S + 16 * i));
      store(S + 16 * i, s);
      out.s[i % 4] = fma(s, set1(q[i]), out.s[i % 4]);
    }
    store_some(j.out + t * j.out_stride, out.sum(), j.lanes);
  }
}

void channel_decays(float* x, const float* rate, const float* bias, int64_t n, float floor) noexcept {
  for_lanes(n, [&](int64_t i, int lanes) {
    const f32x16 a = load_some(rate + i, lanes), raw = load_some(x + i, lanes) + load_some(bias + i, lanes);
    const f32x16 g = floor < 0 ? times_sigmoid(set1(floor), a * raw) : -(a * softplus(raw));
    store_some(x + i, exp(g), lanes);
  });
}

// ---- in chunks: see channel_delta.h ---------------------------------------------------------------------------------------------
/// Row I of a chunk: decays what the chunk has so far, and multiplies it by the row's key and query.
template <int I>
void channel_row(StateRow& row, float* carried, float* q, float* k, const float* alpha, int dk) {
  float* const keys = carried + dk;
  f32x16 kk[I + 1], kq[I + 1];
#pragma GCC unroll 8
  for (int j = 0; j <= I; ++j) kk[j] = kq[j] = zero_f32();
  for_lanes(dk, [&](int64_t i, int lanes) {
    const f32x16 a = load_some(alpha + i, lanes), key = load_some(k + i, lanes), query = load_some(q + i, lanes);
    const f32x16 g = I ? load_some(carried + i, lanes) * a : a;
#pragma GCC unroll 8
    for (int j = 0; j < I; ++j) {
      const f32x16 c = load_some(keys + j * dk + i, lanes) * a;
      store_some(keys + j * dk + i, c, lanes);
      kk[j] = fma(c, key, kk[j]);
      kq[j] = fma(c, query, kq[j]);
    }
    kq[I] = fma(key, query, kq[I]);
    store_some(keys + I * dk + i, key, lanes);
    store_some(carried + i, g, lanes);
    store_some(k + i, g * key, lanes);
    store_some(q + i, g * query, lanes);
  });
#pragma GCC unroll 8
  for (int j = 0; j < I; ++j) row.kk[j] = -hsum(kk[j]);
#pragma GCC unroll 8
  for (int j = 0; j <= I; ++j) row.kq[j] = hsum(kq[j]);
}

void channel_rows(const ChannelRowsJob& job) noexcept {
  constexpr void (*kRow[kStateChunk])(StateRow&, float*, float*, float*, const float*, int) = {channel_row<0>, channel_row<1>, channel_row<2>, channel_row<3>,
                                                                                              channel_row<4>, channel_row<5>, channel_row<6>, channel_row<7>};
  float *carried = job.carried, *next = job.next;
  int i = job.at;
  for (int64_t t = 0; t < job.tokens; ++t) {
    StateRow& row = job.rows[t];
    kRow[i](row, carried, job.q + t * job.qk_stride, job.k + t * job.qk_stride, job.alpha + t * job.alpha_stride, job.dk);
    row.reach = 1.0f;
    row.step = job.beta[t * job.beta_stride];
    if (++i < kStateChunk) continue;
    i = 0;
    carried = next;
    next += (1 + kStateChunk) * job.dk;
  }
}

void channel_chunks(const ChannelChunksJob& j) noexcept {
  const StateChunksJob& job = j.walk;
  const float *carried = j.carried, *next = j.next;
  f32x16 u[kStateChunk];
  for (int i = 0; i < job.at; ++i) u[i] = load(job.open + 16 * i);
  int i = job.at;
  for (int64_t t = 0; t < job.tokens;) {
    const int64_t left = job.tokens - t;
    const int n = left < kStateChunk - i ? int(left) : kStateChunk - i;
    Met met;
    meet_all<4, true>(job.state, job.depth, job.k + t * job.qk_stride, job.q + t * job.qk_stride, job.qk_stride, n, met.k, met.q);
    if (n == kStateChunk) {  // with constants, as state_chunks() has it
#pragma GCC unroll 8
      for (int r = 0; r < kStateChunk; ++r) state_row<true>(job, t + r, r, met, r, u);
    } else {
      for (int r = 0; r < n; ++r) state_row<true>(job, t + r, i + r, met, r, u);
    }
    t += n;
    i += n;
    if (i < kStateChunk) continue;
    const float* keys[kStateChunk];
    for (int r = 0; r < kStateChunk; ++r) keys[r] = carried + (1 + r) * job.depth;
    absorb_rows(job.state, job.depth, [&](int c) { return set1(carried[c]); }, keys, u);
    carried = next;
    next += (1 + kStateChunk) * job.depth;
    i = 0;
  }
  for (int r = 0; r < i; ++r) store(job.open + 16 * r, u[r]);
}

constexpr ChannelDeltaKernels kChannelDelta = {channel_delta, channel_decays, channel_rows, channel_chunks};

}  // namespace
}  // namespace isotope::kernels::cpu
