// Layers with a state on the CPU: work is cut by sequence, head and sixteen channels, never by token.
#include "kernels/cpu/recurrent.h"

#include <algorithm>

#include "base/check.h"
#include "ops/cpu/pieces.h"

namespace isotope::ops {

static_assert(kMaxConvWidth == kernels::cpu::kMaxConvWidth);

namespace {

/// What a function of exponentials costs in units of an element that is only added.
constexpr int64_t kGateCost = 8, kSigmoidCost = 4;

}  // namespace

float* CpuOps::state_of(StatePlace at, int64_t floats, int64_t s) const {
  const KvLayerSpec& spec = kv_->spec(at.layer);
  ISO_CHECK(at.offset >= 0 && floats >= 0 && at.offset + floats <= spec.state_floats && size_t(spec.group) < batch_.groups.size());
  const Batch::Group& g = batch_.groups[size_t(spec.group)];
  const int32_t slot = g.block_table[s * g.table_stride];
  ISO_CHECK(slot >= 0 && slot < kv_->blocks[size_t(spec.group)]);
  return kv_->state(at.layer, slot) + at.offset;
}

Tensor CpuOps::short_conv(Tensor x, const ShortConv& c, StatePlace at) {
  const int64_t C = c.channels();
  ISO_CHECK(kv_ && x.rows == batch_.T() && x.cols == C && c.width >= 2 && c.width <= kernels::cpu::kMaxConvWidth && (c.bias.empty() || int64_t(c.bias.size()) == C));
  const Tensor out = empty(x.rows, C);
  constexpr int64_t kChannels = 256;  // of a piece
  for_pieces((C + kChannels - 1) / kChannels, kChannels * c.width / 4, [&](int64_t s, int64_t piece) {
    const SequenceRows r = rows_of(batch_, s);
    float* const state = state_of(at, c.state_floats(), s);
    const int64_t begin = piece * kChannels, end = std::min(C, begin + kChannels);
    for (int i = 0; i + 1 < c.width; ++i) clear_if(r.begins, state + i * C + begin, end - begin);
    k_.recurrent.conv({.in = x.row(r.first), .out = out.row(r.first), .in_stride = x.stride, .out_stride = out.stride, .tokens = r.n,
                       .weight = c.weight.data(), .bias = c.bias.empty() ? nullptr : c.bias.data(), .state = state, .channels = C,
                       .begin = begin, .end = end, .width = c.width, .silu = c.silu});
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
  const Tensor out = empty(T, V * a.dv);
  const int64_t each = panels(a.dv), floats = int64_t{a.dk} * kLanes;
  for_pieces(V * each, floats / 4, [&](int64_t s, int64_t piece) {
    const SequenceRows r = rows_of(batch_, s);
    const int64_t h = piece / each, first = piece % each * kLanes, key = a.tiled ? h % a.key_heads : h / (V / a.key_heads);
    float* const state = state_of(a.at, a.state_floats(), s) + piece * floats;
    clear_if(r.begins, state, floats);
    k_.recurrent.delta({.state = state, .q = a.q.row(r.first) + key * a.dk, .k = a.k.row(r.first) + key * a.dk,
                        .v = a.v.row(r.first) + h * a.dv + first, .alpha = alpha.row(r.first) + h, .beta = a.b.row(r.first) + h,
                        .out = out.row(r.first) + h * a.dv + first, .qk_stride = a.q.stride, .v_stride = a.v.stride, .gate_stride = alpha.stride,
                        .out_stride = out.stride, .tokens = r.n, .dk = a.dk, .lanes = lanes_at(first, a.dv)});
  });
  return out;
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
  const Tensor out = empty(T, a.x.cols);
  const auto run = a.per_channel ? k_.recurrent.scan : k_.recurrent.ssd;
  for_pieces(H * each, a.per_channel ? floats : floats / 4, [&](int64_t s, int64_t piece) {
    const SequenceRows r = rows_of(batch_, s);
    const int64_t h = piece / each, first = piece % each * kLanes, group = h / (H / G), step = a.per_channel ? first : h;
    float* const state = state_of(a.at, a.state_floats(), s) + piece * floats;
    clear_if(r.begins, state, floats);
    run({.state = state, .x = a.x.row(r.first) + h * a.dim + first, .b = a.b.row(r.first) + group * N, .c = a.c.row(r.first) + group * N,
         .dt = a.dt.row(r.first) + step, .alpha = alpha ? alpha.row(r.first) + step : nullptr,
         .neg_a = a.per_channel ? a.neg_a.data() + piece * floats : nullptr, .d = a.d.data() + step, .out = out.row(r.first) + h * a.dim + first,
         .x_stride = a.x.stride, .bc_stride = a.b.stride, .dt_stride = a.dt.stride, .out_stride = out.stride, .tokens = r.n, .states = int(N),
         .lanes = lanes_at(first, a.dim)});
  });
  return out;
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
