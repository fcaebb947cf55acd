// The gated delta rule with a decay for each channel of the keys, token by token.
#include "ops/channel_delta.h"

#include "base/check.h"
#include "ops/cpu/pieces.h"

namespace isotope::ops {

namespace {
constexpr int64_t kDecayCost = 12;  ///< of an element, in units of one that is only added
}

Tensor CpuOps::channel_delta(const ChannelDeltaArgs& a) {
  const int64_t T = batch_.T(), H = a.heads, keys = H * a.dk;
  ISO_CHECK(kv_ && H > 0 && a.dk > 0 && a.dv > 0 && a.q.rows == T && a.k.rows == T && a.v.rows == T && a.f.rows == T && a.b.rows == T);
  ISO_CHECK(a.q.cols == keys && a.k.cols == keys && a.f.cols == keys && a.v.cols == H * a.dv && a.b.cols == H);
  ISO_CHECK(int64_t(a.rate.size()) == keys && int64_t(a.dt_bias.size()) == keys);
  each_row(team_, T, keys * kDecayCost, [&](int64_t t) {
    k_.channel_delta.decays(a.f.row(t), a.rate.data(), a.dt_bias.data(), keys, a.floor);
    k_.elementwise.sigmoid(a.b.row(t), H);
  });
  const Tensor out = empty(T, H * a.dv);
  const int64_t each = panels(a.dv), floats = int64_t{a.dk} * kLanes;
  for_pieces(H * each, floats / 4, [&](int64_t s, int64_t piece) {
    const SequenceRows r = rows_of(batch_, s);
    const int64_t h = piece / each, first = piece % each * kLanes;
    float* const state = state_of(a.at, a.state_floats(), s) + piece * floats;
    clear_if(r.begins, state, floats);
    k_.channel_delta.delta({.state = state, .q = a.q.row(r.first) + h * a.dk, .k = a.k.row(r.first) + h * a.dk, .alpha = a.f.row(r.first) + h * a.dk,
                            .v = a.v.row(r.first) + h * a.dv + first, .beta = a.b.row(r.first) + h, .out = out.row(r.first) + h * a.dv + first,
                            .q_stride = a.q.stride, .k_stride = a.k.stride, .alpha_stride = a.f.stride, .v_stride = a.v.stride, .beta_stride = a.b.stride,
                            .out_stride = out.stride, .tokens = r.n, .dk = a.dk, .lanes = lanes_at(first, a.dv)});
  });
  return out;
}

}  // namespace isotope::ops
