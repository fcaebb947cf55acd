// Layers with a state on the CPU: work is cut by sequence, head and sixteen channels, never by token.
#include "kernels/cpu/recurrent.h"

#include <algorithm>

#include "base/check.h"
#include "ops/cpu/pieces.h"

namespace isotope::ops {

static_assert(kMaxConvWidth == kernels::cpu::kMaxConvWidth && kStateChunk == kernels::cpu::kStateChunk);

namespace {

/// What a function of exponentials costs in units of an element that is only added.
constexpr int64_t kGateCost = 8, kSigmoidCost = 4;
constexpr int kMaxDilation = 64;

}  // namespace

float* CpuOps::state_in(StatePlace at, int64_t floats, int32_t slot) const {
  const KvLayerSpec& spec = kv_->spec(at.layer);
  ISO_CHECK(at.offset >= 0 && floats >= 0 && at.offset + floats <= spec.state_floats);
  ISO_CHECK(slot >= 0 && slot < kv_->blocks[size_t(spec.group)]);
  return kv_->state(at.layer, slot) + at.offset;
}

float* CpuOps::state_of(StatePlace at, int64_t floats, int64_t s) const {
  const KvLayerSpec& spec = kv_->spec(at.layer);
  ISO_CHECK(size_t(spec.group) < batch_.groups.size());
  const Batch::Group& g = batch_.groups[size_t(spec.group)];
  return state_in(at, floats, g.block_table[s * g.table_stride]);
}

Tensor CpuOps::short_conv(Tensor x, const ShortConv& c, StatePlace at) {
  const int64_t C = c.channels();
  ISO_CHECK(kv_ && x.rows == batch_.T() && x.cols == C && c.width >= 2 && c.width <= kernels::cpu::kMaxConvWidth && (c.bias.empty() || int64_t(c.bias.size()) == C));
  ISO_CHECK(c.dilation >= 1 && c.dilation <= kMaxDilation);
  const Tensor out = empty(x.rows, C);
  constexpr int64_t kChannels = 256;  // of a piece
  const int64_t apart = c.dilation;   // so many convolutions take turns, each with a state of its own: a token's is that of its position
  for_pieces((C + kChannels - 1) / kChannels, kChannels * c.width / 4, [&](int64_t s, int64_t piece) {
    const SequenceRows r = rows_of(batch_, s);
    float* const state = state_of(at, c.state_floats(), s);
    const int64_t begin = piece * kChannels, end = std::min(C, begin + kChannels);
    const int64_t kept = apart * (c.width - 1);
    for (int64_t i = 0; i < kept; ++i) clear_if(r.begins, state + i * C + begin, end - begin);
    walk_captured(batch_, s, 0, r.n, [&](int64_t from, int64_t n) {
      for (int64_t first = r.first + from; first < r.first + from + std::min(apart, n); ++first) {
        const int64_t turn = batch_.positions[size_t(first)] % apart;
        k_.recurrent.conv({.in = x.row(first), .out = out.row(first), .in_stride = apart * x.stride, .out_stride = apart * out.stride,
                           .tokens = (r.first + from + n - first + apart - 1) / apart, .weight = c.weight.data(),
                           .bias = c.bias.empty() ? nullptr : c.bias.data(), .state = state + turn * (c.width - 1) * C, .channels = C, .begin = begin,
                           .end = end, .width = c.width, .silu = c.silu});
      }
    }, [&](int32_t slot) {
      float* const image = state_in(at, c.state_floats(), slot);
      for (int64_t i = 0; i < kept; ++i) std::copy(state + i * C + begin, state + i * C + end, image + i * C + begin);
    });
  });
  return out;
}

Tensor CpuOps::gated_delta(const DeltaArgs& a) {
  const int64_t T = batch_.T(), V = a.value_heads;
  ISO_CHECK(kv_ && a.key_heads > 0 && V > 0 && V % a.key_heads == 0 && a.q.rows == T && a.k.rows == T && a.v.rows == T && a.a.rows == T && a.b.rows == T);
  ISO_CHECK(a.q.cols == int64_t{a.key_heads} * a.dk && a.k.cols == a.q.cols && a.q.stride == a.k.stride && a.v.cols == V * a.dv);
  ISO_CHECK(a.a.cols == V && a.b.cols == V && int64_t(a.neg_a.size()) == V && int64_t(a.dt_bias.size()) == V);
  const Tensor steps = empty(T, V), alpha = empty(T, V);
  ISO_CHECK(alpha.stride == a.b.stride);
  each_row(team_, T, V * kGateCost, [&](int64_t t) {
    k_.recurrent.gates(steps.row(t), alpha.row(t), a.a.row(t), a.dt_bias.data(), a.neg_a.data(), V, 0.0f, __builtin_inff());
    k_.elementwise.sigmoid(a.b.row(t), V);
    if (a.beta_scale != 1) k_.elementwise.scale(a.b.row(t), V, a.beta_scale);
  });
  return walk_chunks({.q = a.q, .k = a.k, .x = a.v, .alpha = alpha, .step = a.b, .heads = V, .groups = a.key_heads, .tiled = a.tiled, .depth = a.dk, .width = a.dv,
                      .at = a.at, .matrix = a.matrix_floats(), .floats = a.state_floats(), .kernel = k_.recurrent.delta_chunks});
}

Tensor CpuOps::scan(const ScanArgs& args) {
  ScanArgs a = args;
  if (!a.dt) {
    a.dt = empty(batch_.T(), a.per_channel ? a.dim : a.heads);
    each_row(team_, a.dt.rows, a.dt.cols, [&](int64_t t) { std::memset(a.dt.row(t), 0, size_t(a.dt.cols) * sizeof(float)); });
  }
  const int64_t T = batch_.T(), H = a.heads, N = a.states, G = a.groups, steps = a.per_channel ? a.dim : H;
  ISO_CHECK(kv_ && H > 0 && G > 0 && H % G == 0 && a.x.rows == T && a.b.rows == T && a.c.rows == T && a.dt.rows == T && (!a.per_channel || H == 1));
  ISO_CHECK(a.x.cols == H * a.dim && a.b.cols == G * N && a.c.cols == G * N && a.b.stride == a.c.stride && a.dt.cols == steps);
  ISO_CHECK(int64_t(a.dt_bias.size()) == (a.dt_bias.empty() ? 0 : steps) && int64_t(a.d.size()) == steps);
  const int64_t each = panels(a.dim), floats = N * kLanes;
  ISO_CHECK(int64_t(a.neg_a.size()) == (a.per_channel ? each * floats : H));
  const Tensor alpha = a.per_channel ? Tensor{} : empty(T, steps);
  ISO_CHECK(!alpha || alpha.stride == a.dt.stride);
  each_row(team_, T, steps * kGateCost, [&](int64_t t) {
    k_.recurrent.gates(a.dt.row(t), alpha ? alpha.row(t) : nullptr, a.dt.row(t), a.dt_bias.empty() ? nullptr : a.dt_bias.data(),
                       alpha ? a.neg_a.data() : nullptr, steps, a.dt_low, a.dt_high);
  });
  if (!a.per_channel)
    return walk_chunks({.q = a.c, .k = a.b, .x = a.x, .alpha = alpha, .step = a.dt, .skip = a.d, .heads = H, .groups = G, .depth = N, .width = a.dim, .at = a.at,
                        .matrix = a.matrix_floats(), .floats = a.state_floats(), .kernel = k_.recurrent.ssd_chunks});
  const Tensor out = empty(T, a.x.cols);
  for_pieces(each, floats, [&](int64_t s, int64_t piece) {
    const SequenceRows r = rows_of(batch_, s);
    const int64_t first = piece * kLanes;
    float* const state = state_of(a.at, a.state_floats(), s) + piece * floats;
    clear_if(r.begins, state, floats);
    walk_captured(batch_, s, 0, r.n, [&](int64_t from, int64_t n) {
      const int64_t row = r.first + from;
      k_.recurrent.scan({.state = state, .x = a.x.row(row) + first, .b = a.b.row(row), .c = a.c.row(row), .dt = a.dt.row(row) + first,
                         .alpha = nullptr, .neg_a = a.neg_a.data() + piece * floats, .d = a.d.data() + first, .out = out.row(row) + first,
                         .x_stride = a.x.stride, .bc_stride = a.b.stride, .dt_stride = a.dt.stride, .out_stride = out.stride, .tokens = n,
                         .states = int(N), .lanes = lanes_at(first, a.dim)});
    }, [&](int32_t slot) { std::copy(state, state + floats, state_in(a.at, a.state_floats(), slot) + piece * floats); });
  });
  return out;
}

// ---- matrix states in chunks ----------------------------------------------------------------------------------------------------
namespace {

/// The parts of a slot: see open_floats().
struct Slot {
  float *state, *open, *alpha, *keys;
  Slot(float* base, const StateStep& a) : state(base), open(base + a.matrix) {
    alpha = open + a.panels() * kStateChunk * kLanes;
    keys = alpha + a.heads * kStateChunk;
  }
};

}  // namespace

Tensor CpuOps::walk_chunks(const StateStep& a) {
  const int64_t spans = spans_of(batch_), shared = a.heads / a.groups;
  const std::span<kernels::cpu::StateRow> table = arena_->take<kernels::cpu::StateRow>(size_t(batch_.T() * a.heads));
  for_pieces(a.groups * spans, (a.depth + shared) * kStateChunk / 8, [&](int64_t s, int64_t piece) {
    const Span t(batch_, s, piece % spans);
    if (t.n > 0) make_state_rows(a, table.data(), s, t, piece / spans, piece % spans == 0);
  });
  const Tensor out = empty(batch_.T(), a.x.cols);
  // Of a long step the keys of a span serve all panels of a head from the second-level cache.
  const int64_t all = a.panels(), each = spans > 1 ? panels(a.width) : 1;
  for_pieces(all / each, each * a.depth * kLanes / 4, [&](int64_t s, int64_t piece) {
    for (int64_t span = 0; span < spans; ++span) {
      const Span t(batch_, s, span);
      if (t.n <= 0) break;
      for (int64_t p = piece * each; p < (piece + 1) * each; ++p) walk_panel(a, table.data(), s, t, p, out);
    }
  });
  keep_open_rows(a);
  return out;
}

void CpuOps::make_state_rows(const StateStep& a, kernels::cpu::StateRow* table, int64_t s, const Span& t, int64_t group, bool first) {
  const Slot slot(state_of(a.at, a.floats, s), a);
  const int64_t h = a.first_head(group), next = a.next_head();
  k_.recurrent.state_rows({.rows = table + h * batch_.T() + t.first, .q = a.q.row(t.first) + group * a.depth, .k = a.k.row(t.first) + group * a.depth,
                           .alpha = a.alpha.row(t.first) + h, .step = a.step.row(t.first) + h, .open_keys = slot.keys + group * kStateChunk * a.depth,
                           .open_alpha = slot.alpha + h * kStateChunk, .next_head = next, .head_rows = batch_.T(), .qk_stride = a.q.stride,
                           .gate_stride = a.alpha.stride, .tokens = t.n, .at = t.at, .keep = first ? kStateChunk - t.at : 0, .depth = int(a.depth), .heads = int(a.heads / a.groups)});
}

void CpuOps::walk_panel(const StateStep& a, const kernels::cpu::StateRow* table, int64_t s, const Span& t, int64_t panel, Tensor out) {
  const int64_t each = panels(a.width), h = panel / each, first = panel % each * kLanes, group = a.group_of(h), floats = a.depth * kLanes;
  const Slot slot(state_of(a.at, a.floats, s), a);
  float* const state = slot.state + panel * floats;
  clear_if(t.begins, state, floats);
  walk_captured(batch_, s, t.begin, t.begin + t.n, [&](int64_t from, int64_t n) {
    const int64_t row = t.first + from - t.begin;
    a.kernel({.state = state, .open = slot.open + panel * kStateChunk * kLanes, .open_keys = slot.keys + group * kStateChunk * a.depth,
              .rows = table + h * batch_.T() + row, .q = a.q.row(row) + group * a.depth, .k = a.k.row(row) + group * a.depth,
              .x = a.x.row(row) + h * a.width + first, .skip = a.skip.empty() ? 0 : a.skip[size_t(h)], .out = out.row(row) + h * a.width + first,
              .qk_stride = a.q.stride, .x_stride = a.x.stride, .out_stride = out.stride, .tokens = n, .at = rows_open(batch_, row),
              .depth = int(a.depth), .lanes = lanes_at(first, a.width)});
  }, [&](int32_t image) { std::copy(state, state + floats, state_in(a.at, a.floats, image) + panel * floats); });
}

/// Of sequences whose step ends in another chunk than it began in. (The rows that join the chunk it began in are kept while others still read those before.)
void CpuOps::keep_open_rows(const StateStep& a) {
  for (int64_t s = 0; s < batch_.S(); ++s) {
    const int32_t begin = batch_.query_start[size_t(s)], end = batch_.query_start[size_t(s) + 1];
    if (begin == end) continue;
    const int64_t rows = rows_open(batch_, begin) + (end - begin), n = rows > kStateChunk ? rows % kStateChunk : 0, first = end - n;
    if (n == 0) continue;
    const Slot slot(state_of(a.at, a.floats, s), a);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t h = 0; h < a.heads; ++h) slot.alpha[h * kStateChunk + i] = a.alpha.row(first + i)[h];
      for (int64_t g = 0; g < a.groups; ++g)
        std::memcpy(slot.keys + (g * kStateChunk + i) * a.depth, a.k.row(first + i) + g * a.depth, size_t(a.depth) * sizeof(float));
    }
  }
}

void CpuOps::sigmoid_mul(Tensor x, Tensor gate) {
  ISO_CHECK(x.rows == gate.rows && gate.cols > 0 && x.cols % gate.cols == 0);
  if (x.cols == gate.cols) {
    each_row(team_, x.rows, x.cols * kSigmoidCost, [&](int64_t r) { k_.recurrent.sigmoid_mul(x.row(r), gate.row(r), x.cols); });
    return;
  }
  const int64_t each = x.cols / gate.cols;
  each_row(team_, x.rows, x.cols, [&](int64_t r) {
    k_.elementwise.sigmoid(gate.row(r), gate.cols);
    for (int64_t h = 0; h < gate.cols; ++h) k_.elementwise.scale(x.row(r) + h * each, each, gate.row(r)[h]);
  });
}

void CpuOps::scale_columns(Tensor x, std::span<const float> w) {
  ISO_CHECK(int64_t(w.size()) == x.cols);
  each_row(team_, x.rows, x.cols, [&](int64_t r) { k_.recurrent.mul(x.row(r), w.data(), x.cols); });
}

void CpuOps::mul(Tensor x, Tensor y) {
  ISO_CHECK(x.rows == y.rows && x.cols == y.cols);
  each_row(team_, x.rows, x.cols, [&](int64_t r) { k_.recurrent.mul(x.row(r), y.row(r), x.cols); });
}

}  // namespace isotope::ops
