// The gated delta rule with a decay for each channel of the keys, in chunks. Heads have nothing in common, so a piece of work is a head: the rows of a span of
// tokens, then all columns of the matrix over them.
#include "ops/channel_delta.h"

#include "base/check.h"
#include "ops/cpu/pieces.h"

namespace isotope::ops {

namespace {

constexpr int64_t kDecayCost = 12;  ///< of an element, in units of one that is only added

}  // namespace

/// Memory of one head for a span of tokens, and where its chunks' decays and keys lie: those of the step's first chunk in the slot, where they stay if the
/// chunk remains open.
struct CpuOps::ChannelSpan {
  kernels::cpu::StateRow* rows;
  float *own, *more;  ///< of the first chunk, of the others
  int64_t chunk;      ///< floats of one
  bool first;         ///< the step's first span
  float* of(int64_t c) const { return first ? c ? more + (c - 1) * chunk : own : more + c * chunk; }
};

Tensor CpuOps::channel_delta(const ChannelDeltaArgs& a) {
  const int64_t T = batch_.T(), H = a.heads, keys = H * a.dk;
  ISO_CHECK(kv_ && H > 0 && a.dk > 0 && a.dv > 0 && a.q.rows == T && a.k.rows == T && a.v.rows == T && a.f.rows == T && a.b.rows == T);
  ISO_CHECK(a.q.cols == keys && a.k.cols == keys && a.f.cols == keys && a.v.cols == H * a.dv && a.b.cols == H && a.q.stride == a.k.stride);
  ISO_CHECK(int64_t(a.rate.size()) == keys && int64_t(a.dt_bias.size()) == keys);
  each_row(team_, T, keys * kDecayCost, [&](int64_t t) {
    k_.channel_delta.decays(a.f.row(t), a.rate.data(), a.dt_bias.data(), keys, a.floor);
    k_.elementwise.sigmoid(a.b.row(t), H);
  });
  const int64_t S = batch_.S(), chunk = (1 + kStateChunk) * a.dk;
  struct Need {
    int64_t rows, chunks;  ///< of a head of the sequence
    int64_t first_row, first_chunk;
  };
  const std::span<Need> needs = arena_->take<Need>(size_t(S));
  int64_t rows = 0, chunks = 0;
  for (int64_t s = 0; s < S; ++s) {
    const int32_t first = batch_.query_start[size_t(s)];
    const int64_t n = batch_.query_start[size_t(s) + 1] - first;
    const int64_t all = n ? (rows_open(batch_, first) + n + kStateChunk - 1) / kStateChunk : 0;
    needs[size_t(s)] = {std::min(n, kSpan), all > 1 ? std::min(all, kSpan / kStateChunk) : 0, rows, chunks};
    rows += H * needs[size_t(s)].rows;
    chunks += H * needs[size_t(s)].chunks;
  }
  const auto table = arena_->take<kernels::cpu::StateRow>(size_t(rows));
  const auto carried = arena_->take<float>(size_t(chunks * chunk));
  const Tensor out = empty(T, H * a.dv);
  for_pieces(H, panels(a.dv) * a.dk * kLanes / 4, [&](int64_t s, int64_t h) {
    const Need& n = needs[size_t(s)];
    walk_channels(a, s, h, {.rows = table.data() + n.first_row + h * n.rows, .own = nullptr, .more = carried.data() + (n.first_chunk + h * n.chunks) * chunk,
                            .chunk = chunk, .first = true}, out);
  });
  return out;
}

void CpuOps::walk_channels(const ChannelDeltaArgs& a, int64_t s, int64_t h, ChannelSpan memory, Tensor out) {
  float* const slot = state_of(a.at, a.state_floats(), s);
  memory.own = slot + a.matrix_floats() + a.panels() * kStateChunk * kLanes + h * memory.chunk;
  const int64_t spans = spans_of(batch_);
  for (int64_t span = 0; span < spans; ++span) {
    const Span t(batch_, s, span);
    if (t.n <= 0) break;
    memory.first = span == 0;
    k_.channel_delta.rows({.rows = memory.rows, .q = a.q.row(t.first) + h * a.dk, .k = a.k.row(t.first) + h * a.dk, .alpha = a.f.row(t.first) + h * a.dk,
                           .beta = a.b.row(t.first) + h, .qk_stride = a.q.stride, .alpha_stride = a.f.stride, .beta_stride = a.b.stride, .tokens = t.n,
                           .carried = memory.of(0), .next = memory.of(1), .at = t.at, .dk = a.dk});
    const int64_t each = panels(a.dv);
    for (int64_t p = 0; p < each; ++p) walk_channel_panel(a, s, h * each + p, t, memory, out);
    const int64_t open = (t.at + t.n) % kStateChunk;
    float* const last = memory.of((t.at + t.n) / kStateChunk);
    if (open && last != memory.own) std::copy(last, last + (1 + open) * a.dk, memory.own);
  }
}

void CpuOps::walk_channel_panel(const ChannelDeltaArgs& a, int64_t s, int64_t panel, const Span& t, const ChannelSpan& memory, Tensor out) {
  const int64_t each = panels(a.dv), h = panel / each, first = panel % each * kLanes, floats = int64_t{a.dk} * kLanes;
  float* const slot = state_of(a.at, a.state_floats(), s);
  float* const state = slot + panel * floats;
  clear_if(t.begins, state, floats);
  walk_captured(batch_, s, t.begin, t.begin + t.n, [&](int64_t from, int64_t n) {
    const int64_t done = from - t.begin, row = t.first + done, chunk = (t.at + done) / kStateChunk;
    k_.channel_delta.chunks({.walk = {.state = state, .open = slot + a.matrix_floats() + panel * kStateChunk * kLanes, .open_keys = nullptr, .rows = memory.rows + done,
                                      .q = a.q.row(row) + h * a.dk, .k = a.k.row(row) + h * a.dk, .x = a.v.row(row) + h * a.dv + first, .skip = 0,
                                      .out = out.row(row) + h * a.dv + first, .qk_stride = a.q.stride, .x_stride = a.v.stride, .out_stride = out.stride, .tokens = n,
                                      .at = rows_open(batch_, row), .depth = a.dk, .lanes = lanes_at(first, a.dv)},
                             .carried = memory.of(chunk), .next = memory.of(chunk + 1)});
  }, [&](int32_t image) { std::copy(state, state + floats, state_in(a.at, a.state_floats(), image) + panel * floats); });
}

}  // namespace isotope::ops
