#include "ops/cpu/cpu_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/topology.h"
#include "kernels/cpu/pick.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/kv_store.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/moe.h"
#include "ops/cpu/self_attention.h"
#include "ops/cpu/share.h"
#include "ops/cpu/source_rows.h"
#include "ops/cpu/sparse.h"
#include "ops/cpu/tensors.h"

namespace isotope::ops {

using kernels::cpu::Act;
static_assert(int(Activation::silu) == int(Act::silu) && int(Activation::gelu_tanh) == int(Act::gelu_tanh) && int(Activation::gelu) == int(Act::gelu) &&
              int(Activation::relu) == int(Act::relu) && int(Activation::relu2) == int(Act::relu2));

namespace {

// What an element of an activation, a norm costs in units of an element that is only added.
constexpr int64_t kActCost = 4, kNormCost = 2;

bool same_shape(Tensor a, Tensor b) { return a.rows == b.rows && a.cols == b.cols; }

LinearJob make_job(const Linear& l, Tensor out) { return {.w = l.w.get(), .out = out, .bias = l.bias}; }
LinearJob make_gated_job(const Linear& gate, const Linear& up, Activation a, Tensor out) {
  return {.w = gate.w.get(), .out = out, .bias = gate.bias, .up = up.w.get(), .up_bias = up.bias, .act = Act(a)};
}

void check_source(const RowSource& s) {
  const auto fits = [&](const std::optional<Norm>& n) { return !n || n->weight.empty() || int64_t(n->weight.size()) == s.x.cols; };
  ISO_CHECK(!s.add_norm || s.add_norm->bias.empty());
  ISO_CHECK(fits(s.norm) && fits(s.add_norm) && (!s.add || same_shape(s.x, s.add)) && !(s.quantized && s.recipe()));
}

}  // namespace

CpuOps::CpuOps(const kernels::cpu::KernelTable& kernels, int threads, const CpuOpsOptions& options)
    : k_(kernels), precision_(options.precision), tuning_(options.tuning), sparse_tuning_(options.sparse), fusions_(options.fusions), bf16_norms_(options.bf16_norms),
      spilled_(options.spill_folder), team_(threads, options.pin, options.first_core), sparse_(std::make_unique<CpuSparse>(*this)) {}

CpuOps::~CpuOps() = default;

SparseOps* CpuOps::sparse() { return sparse_.get(); }

template <class F>
void CpuOps::for_rows(int64_t rows, int64_t cost, F&& f) {
  ops::for_rows(team_, rows, cost, f);
}

// ---- weights --------------------------------------------------------------------------------------------------------------------
Result<std::unique_ptr<Weight>> CpuOps::pack(const HostTensor& t, std::span<const int32_t> rows, const RowsDone& done) {
  return pack_weight(t, rows, precision_, &store_, done);
}

Result<std::unique_ptr<Weight>> CpuOps::pack_spilled(const HostTensor& t, std::span<const int32_t> rows, const RowsDone& done) {
  return pack_weight(t, rows, precision_, &spilled_, done);
}

size_t CpuOps::packed_bytes(tensor::DType t, int64_t n, int64_t k) const { return ops::packed_bytes(t, n, k, precision_); }

Tensor CpuOps::embed(const Weight& table, float scale) {
  const Tensor out = empty(batch_.T(), table.k);
  for_rows(out.rows, out.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      const int32_t token = batch_.tokens[size_t(r)];
      ISO_CHECK(token >= 0 && token < table.n);
      embed_row(k_, table, token, out.row(r));
      if (scale != 1.0f) k_.elementwise.scale(out.row(r), out.cols, scale);
    }
  });
  return out;
}

Tensor CpuOps::linear(Tensor x, const Linear& w) {
  const Linear* const ws[1] = {&w};
  Tensor out[1];
  linear_n(x, ws, out);
  return out[0];
}

void CpuOps::linear_n(Tensor x, std::span<const Linear* const> ws, std::span<Tensor> outs) {
  const auto jobs = arena_->take<LinearJob>(ws.size());
  for (size_t i = 0; i < ws.size(); ++i) jobs[i] = make_job(*ws[i], outs[i] = empty(x.rows, ws[i]->w->n));
  run_linear({.x = x}, jobs);
}

void CpuOps::run_linear(const RowSource& s, std::span<const LinearJob> jobs) {
  const size_t scratch = s.quantized ? 0 : linear_scratch_bytes(s.x.rows, s.x.cols);
  ops::linear(team_, k_, with_policy(s), arena_->take<std::byte>(scratch), jobs, tuning_);
}

// ---- one step -------------------------------------------------------------------------------------------------------------------
void CpuOps::begin(const Batch& batch, KvCache* kv) {
  step_.reset();
  arena_ = &step_;
  layer_ = 0;
  ropes_.begin();
  batch_ = batch;
  for (const Batch::Capture& c : batch.captures) {
    ISO_CHECK(c.seq >= 0 && c.seq < batch.S() && c.tokens > 0);
    const int32_t first = batch.query_start[size_t(c.seq)];
    ISO_CHECK(first + c.tokens <= batch.query_start[size_t(c.seq) + 1] && (batch.positions[size_t(first)] + c.tokens) % kStateChunk == 0);
  }
  kv_ = static_cast<CpuKvCache*>(kv);
  sparse_->begin();
}

void CpuOps::next_layer() {
  arena_ = &layers_[layer_++ % 2];
  arena_->reset();
}

Tensor CpuOps::empty(int64_t rows, int64_t cols) {
  return take_tensor(*arena_, rows, cols);
}

Tensor CpuOps::rms_norm(Tensor x, std::span<const float> weight, float eps) {
  ISO_CHECK(weight.empty() || int64_t(weight.size()) == x.cols);
  const Tensor out = empty(x.rows, x.cols);
  const Norm norm{weight, eps, bf16_norms_};
  for_rows(x.rows, x.cols * kNormCost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) norm_row(k_, norm, out.row(r), x.row(r), x.cols);
  });
  return out;
}

Tensor CpuOps::add_rms_norm(Tensor x, Tensor y, std::span<const float> weight, float eps) {
  ISO_CHECK(same_shape(x, y) && (weight.empty() || int64_t(weight.size()) == x.cols));
  const Tensor out = empty(x.rows, x.cols);
  const Norm norm{weight, eps, bf16_norms_};
  for_rows(x.rows, x.cols * (kNormCost + 1), [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      k_.elementwise.add(x.row(r), y.row(r), x.cols, 1.0f);
      norm_row(k_, norm, out.row(r), x.row(r), x.cols);
    }
  });
  return out;
}

void CpuOps::head_norm(Tensor x, int head_dim, std::span<const float> weight, float eps) {
  ISO_CHECK(head_dim > 0 && x.cols % head_dim == 0 && (weight.empty() || int64_t(weight.size()) == head_dim));
  const Norm norm{weight, eps, bf16_norms_};
  for_rows(x.rows, x.cols * kNormCost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      for (float* p = x.row(r); p != x.row(r) + x.cols; p += head_dim) norm_row(k_, norm, p, p, head_dim);
    }
  });
}

void CpuOps::rope(Tensor x, int head_dim, const Rope& rope) {
  ISO_CHECK(x.rows == batch_.T() && head_dim > 0 && x.cols % head_dim == 0 && rope.first >= 0 && rope.first + rope.rot <= head_dim);
  const auto table = ropes_.get(rope, batch_.positions, step_, team_);
  const auto rotate = rope.interleaved ? k_.elementwise.rope_interleaved : k_.elementwise.rope;
  const int64_t half = rope.rot / 2;
  for_rows(x.rows, x.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) rotate(x.row(r) + rope.first, table.cos + r * half, table.sin + r * half, int(x.cols / head_dim), head_dim, rope.rot);
  });
}

void CpuOps::check_attention(const AttentionArgs& a) const {
  ISO_CHECK(kv_ && a.layer >= 0 && a.layer < kv_->layers());
  const KvLayerSpec& spec = kv_->spec(a.layer);
  const int64_t T = batch_.T(), d = a.head_dim;
  ISO_CHECK(a.kv_heads == spec.kv_heads && a.head_dim == spec.head_dim && a.value_dim == spec.value_dim && a.heads > 0 && a.heads % a.kv_heads == 0);
  ISO_CHECK(size_t(spec.group) < batch_.groups.size() && int64_t(batch_.groups[size_t(spec.group)].slots.size()) == T);
  ISO_CHECK(a.q.rows == T && a.q.cols == a.heads * d);
  if (!a.stored) ISO_CHECK(a.k.rows == T && a.k.cols == a.kv_heads * d && (a.value_dim > 0 ? !a.v : a.v.rows == T && a.v.cols == a.k.cols));
  ISO_CHECK(a.sinks.empty() || int64_t(a.sinks.size()) == a.heads);
}

Tensor CpuOps::attention(const AttentionArgs& a) {
  check_attention(a);
  store_shaped(a);
  const Tensor out = empty(batch_.T(), int64_t{a.heads} * (a.value_dim ? a.value_dim : a.head_dim));
  ops::attention(a, batch_, *kv_, k_.attention, team_, *arena_, out, tuning_.attention_alone);
  return out;
}

void CpuOps::act_mul_into(Tensor out, Tensor gate, Tensor up, Activation activation) {
  ISO_CHECK(same_shape(gate, up));
  const auto f = k_.elementwise.act_mul[int(activation)];
  for_rows(out.rows, out.cols * kActCost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) f(out.row(r), gate.row(r), up.row(r), out.cols);
  });
}

Tensor CpuOps::act_mul(Tensor gate, Tensor up, Activation activation) {
  const Tensor out = empty(gate.rows, gate.cols);
  act_mul_into(out, gate, up, activation);
  return out;
}

Tensor CpuOps::linear_act(Tensor x, const Linear& gate, const Linear& up, Activation activation) {
  ISO_CHECK(gate.w && up.w && gate.w->k == x.cols);
  if (can_gate(*gate.w, *up.w)) {
    const LinearJob job = make_gated_job(gate, up, activation, empty(x.rows, gate.w->n));
    run_linear({.x = x}, {&job, 1});
    return job.out;
  }
  // The gate's memory, still in the caches, takes the result.
  const Linear* const ws[2] = {&gate, &up};
  Tensor o[2];
  linear_n(x, ws, o);
  act_mul_into(o[0], o[0], o[1], activation);
  return o[0];
}

Tensor CpuOps::feed_forward(Tensor x, const FeedForward& f, Activation activation, float limit) {
  if (!f.gate) {
    const Tensor h = linear(x, f.up);
    activate(h, activation);
    return linear(h, f.down);
  }
  if (limit <= 0) return linear(linear_act(x, f.gate, f.up, activation), f.down);
  const Linear* const ws[2] = {&f.gate, &f.up};
  Tensor o[2];
  linear_n(x, ws, o);
  activate(o[0], activation);
  clamp(o[0], -std::numeric_limits<float>::infinity(), limit);
  clamp(o[1], -limit, limit);
  mul(o[0], o[1]);
  return linear(o[0], f.down);
}

Tensor CpuOps::limited(Tensor x, const Moe& m) {
  const Linear* const ws[2] = {&m.shared.gate, &m.shared.up};
  Tensor o[2];
  linear_n(x, ws, o);
  return linear(sparse_->clamped_act_mul(o[0], o[1], m.act, m.shared_limit, m.swiglu_alpha), m.shared.down);
}

std::span<const int32_t> CpuOps::tokens_of(int64_t rows) {
  if (rows == batch_.T()) return batch_.tokens;
  ISO_CHECK(rows == batch_.R());
  const auto out = arena_->take<int32_t>(size_t(rows));
  for (size_t r = 0; r < out.size(); ++r) out[r] = batch_.tokens[size_t(batch_.logit_rows[r])];
  return out;
}

Tensor CpuOps::moe_routed_by(Tensor x, Tensor r, const Moe& m) {
  ISO_CHECK(m && m.router.w && m.router.w->k == r.cols && r.rows == x.rows && m.router.w->n == int64_t(m.experts.size()) + m.identity);
  const MoeContext c{team_, k_, *arena_, tuning_, m.by_token.empty() ? std::span<const int32_t>() : tokens_of(x.rows)};
  const Choice choice = choose(c, m, linear(r, m.router));
  Tensor out = run_experts(c, m, m.to_latent ? linear(x, m.to_latent) : x, choice);
  if (m.from_latent) out = linear(out, m.from_latent);
  if (!m.shared.up) return out;
  const Tensor shared = m.shared_limit > 0 ? limited(x, m) : feed_forward(x, m.shared, m.act, m.shared_clamp);
  if (m.shared_gate) {
    const Tensor gate = linear(x, m.shared_gate);
    for_rows(x.rows, x.cols, [&](int64_t r0, int64_t r1) {
      for (int64_t r = r0; r < r1; ++r) {
        k_.elementwise.sigmoid(gate.row(r), 1);
        k_.elementwise.scale(shared.row(r), shared.cols, *gate.row(r));
      }
    });
  }
  add(out, shared, 1.0f);
  return out;
}

// ---- encoders -------------------------------------------------------------------------------------------------------------------
void CpuOps::add_rows(Tensor x, const Weight& table, std::span<const int32_t> rows) {
  ISO_CHECK(int64_t(rows.size()) == x.rows && table.k == x.cols);
  for (const int32_t r : rows) ISO_CHECK(r >= 0 && r < table.n);
  const Tensor row = empty(team_.size(), x.cols);
  team_.share([&](int member) {
    for (int64_t t = x.rows * member / team_.size(); t < x.rows * (member + 1) / team_.size(); ++t) {
      embed_row(k_, table, rows[size_t(t)], row.row(member));
      k_.elementwise.add(x.row(t), row.row(member), x.cols, 1.0f);
    }
  });
}

void CpuOps::layer_norm(Tensor x, const LayerNorm& n) {
  ISO_CHECK(int64_t(n.weight.size()) == x.cols && int64_t(n.bias.size()) == x.cols);
  for_rows(x.rows, x.cols * kNormCost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) k_.elementwise.layer_norm(x.row(r), n.weight.data(), n.bias.data(), x.cols, n.eps);
  });
}

void CpuOps::add_layer_norm(Tensor x, Tensor y, const LayerNorm& n) {
  ISO_CHECK(same_shape(x, y) && int64_t(n.weight.size()) == x.cols && int64_t(n.bias.size()) == x.cols);
  for_rows(x.rows, x.cols * (kNormCost + 1), [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      k_.elementwise.add(x.row(r), y.row(r), x.cols, 1.0f);
      k_.elementwise.layer_norm(x.row(r), n.weight.data(), n.bias.data(), x.cols, n.eps);
    }
  });
}

void CpuOps::activate(Tensor x, Activation a) {
  for_rows(x.rows, x.cols * kActCost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) k_.elementwise.activate[int(a)](x.row(r), x.cols);
  });
}

Tensor CpuOps::self_attention(const SelfAttentionArgs& a) {
  const int64_t width = int64_t{a.heads} * a.head_dim;
  ISO_CHECK(a.heads > 0 && a.head_dim > 0 && a.head_dim % 8 == 0 && a.head_dim <= kernels::cpu::kMaxHeadDim);
  for (const Tensor t : {a.q, a.k, a.v}) ISO_CHECK(t.rows == batch_.T() && t.cols == width);
  const Tensor out = empty(batch_.T(), width);
  const auto format = precision_ == Precision::exact ? kernels::cpu::KvFormat::f32 : kernels::cpu::KvFormat::bf16;
  ops::self_attention(a, batch_.query_start, format, {team_, k_.attention, *arena_}, out);
  return out;
}

// ---- joined forms ---------------------------------------------------------------------------------------------------------------
RowSource CpuOps::with_policy(RowSource s) const {
  if (s.norm) s.norm->bf16 = bf16_norms_;
  if (s.add_norm) s.add_norm->bf16 = bf16_norms_;
  return s;
}

bool CpuOps::try_project(const RowSource& s, std::span<const Linear* const> ws, std::span<Tensor> outs) {
  check_source(s);
  if (s.norm && !s.norm->bias.empty()) return false;  // a layer norm is carried out by itself
  const bool quantizes = std::all_of(ws.begin(), ws.end(), [](const Linear* w) { return integer(*w->w); });
  ISO_CHECK(!s.quantized || quantizes);
  if (!s.quantized && (!s.recipe() || !fusions_.norm_quantize || !quantizes)) return false;
  const auto jobs = arena_->take<LinearJob>(ws.size());
  for (size_t i = 0; i < ws.size(); ++i) jobs[i] = make_job(*ws[i], outs[i] = empty(s.x.rows, ws[i]->w->n));
  run_linear(s, jobs);
  return true;
}

std::optional<RowSource> CpuOps::try_gated(const RowSource& s, const GatedArgs& g) {
  check_source(s);
  if (s.norm && !s.norm->bias.empty()) return {};
  if (!can_gate(*g.gate.w, *g.up.w) || (s.recipe() && !fusions_.norm_quantize)) return {};
  const bool quantize = fusions_.act_quantize && integer(*g.down.w);
  if (!s.recipe() && !quantize) return {};
  const int64_t T = s.x.rows, F = g.gate.w->n;
  if (!quantize) {
    const LinearJob job = make_gated_job(g.gate, g.up, g.act, empty(T, F));
    run_linear(s, {&job, 1});
    return RowSource{.x = job.out};
  }
  LinearJob job = make_gated_job(g.gate, g.up, g.act, {nullptr, T, F, F});
  job.quantized_out = arena_->take<std::byte>(linear_scratch_bytes(T, F)).data();
  run_linear(s, {&job, 1});
  return RowSource{.x = job.out, .quantized = job.quantized_out};
}

bool CpuOps::try_store_kv(const AttentionArgs& a) {
  const bool norms = a.q_norm || a.k_norm;
  if (norms && (!fusions_.qk_norm_rope_cache || (a.gemma_norms && batch_.T() > fusions_.gemma_max_tokens))) return false;
  check_attention(a);
  store_kv(a);
  return true;
}

void CpuOps::store_shaped(const AttentionArgs& a) {
  if (a.stored) return;
  AttentionArgs plain = a;
  plain.q_norm = plain.k_norm = {};
  plain.rope = nullptr;
  store_kv(plain);
}

void CpuOps::store_kv(const AttentionArgs& a) {
  KvStore store{a, batch_, *kv_, k_, a.q_norm, a.k_norm};
  if (store.q_norm) store.q_norm->bf16 = bf16_norms_;
  if (store.k_norm) store.k_norm->bf16 = bf16_norms_;
  if (a.rope) store.angles = ropes_.get(*a.rope, batch_.positions, step_, team_);
  for_rows(batch_.T(), store.row_cost(), [&](int64_t t0, int64_t t1) { store.run(t0, t1); });
}

void CpuOps::add(Tensor x, Tensor y, float scale) {
  ISO_CHECK(same_shape(x, y));
  for_rows(x.rows, x.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) k_.elementwise.add(x.row(r), y.row(r), x.cols, scale);
  });
}

void CpuOps::scale(Tensor x, float s) {
  for_rows(x.rows, x.cols, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) k_.elementwise.scale(x.row(r), x.cols, s);
  });
}

void CpuOps::softcap(Tensor x, float cap) {
  for_rows(x.rows, x.cols * kActCost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) k_.elementwise.softcap(x.row(r), x.cols, cap);
  });
}

Tensor CpuOps::gather(Tensor x, std::span<const int32_t> rows) {
  const Tensor out = empty(int64_t(rows.size()), x.cols);
  for (int64_t r = 0; r < out.rows; ++r) {
    ISO_CHECK(rows[size_t(r)] >= 0 && rows[size_t(r)] < x.rows);
    std::memcpy(out.row(r), x.row(rows[size_t(r)]), size_t(x.cols) * sizeof(float));
  }
  return out;
}

// ---- KV storage -----------------------------------------------------------------------------------------------------------------
Result<std::unique_ptr<KvCache>> CpuOps::make_kv(std::span<const KvLayerSpec> layers, std::span<const int64_t> blocks_per_group, int block_size,
                                                 KvType type) {
  return CpuKvCache::make(layers, blocks_per_group, block_size, type);
}

size_t CpuOps::kv_block_bytes(std::span<const KvLayerSpec> layers, int group, int block_size, KvType type) const {
  size_t bytes = 0;
  for (const KvLayerSpec& l : layers) {
    if (l.group == group) bytes += CpuKvCache::sizes(l, block_size, type).block;
  }
  return bytes;
}

void CpuOps::parallel(int64_t n, const std::function<void(int64_t i, int worker)>& f) {
  if (n <= 1 || team_.size() == 1) {
    for (int64_t i = 0; i < n; ++i) f(i, 0);
    return;
  }
  team_.share([&](int member) {
    for (int64_t i = member; i < n; i += team_.size()) f(i, member);
  });
}

std::string CpuOps::describe() const {
  return fmt::format("cpu {}, {} thread{}{}", k_.isa, team_.size(), team_.size() == 1 ? "" : "s", precision_ == Precision::exact ? ", exact" : "") + (bf16_norms_ ? ", norms rounded to bf16" : "");
}

Result<std::unique_ptr<Ops>> make_cpu_ops(const CpuOpsOptions& options) {
  ISO_TRY(const kernels::cpu::KernelTable* kernels, kernels::cpu::pick_isa(options.isa));
  if (options.threads < 0 || options.threads > 4096) {
    return fail(Code::invalid_argument, fmt::format("{} threads", options.threads), "--threads", "choose 1 to 4096, or 0 for one a physical core");
  }
  const int threads = options.threads > 0 ? options.threads : base::machine().default_threads();
  return std::make_unique<CpuOps>(*kernels, threads, options);
}

}  // namespace isotope::ops
