#include "ops/cpu/moe.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/cpu/clamped.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/routing.h"
#include "ops/cpu/share.h"
#include "ops/cpu/tensors.h"

namespace isotope::ops {

using kernels::cpu::Act;
using kernels::cpu::kBlock;
using kernels::cpu::kRecordBytes;

namespace {

constexpr int64_t kActCost = 4;

bool integer(const Linear& l) { return static_cast<const PackedWeight&>(*l.w).row().integer(); }
int64_t blocks_of(int64_t k) { return (k + kBlock - 1) / kBlock; }

Tensor rows_of(Tensor t, int64_t first, int64_t n) { return {t.row(first), n, t.cols, t.stride}; }

/// (row, expert) pairs in order of their experts, rows ascending within an expert. Those of experts that compute nothing come last.
struct Sorted {
  std::span<int32_t> start;   ///< [E + 1] first pair of each expert, those that compute nothing among them
  std::span<int32_t> row;     ///< [all pairs] of x
  std::span<float> weight;    ///< [all pairs]
  std::span<int32_t> place;   ///< [all pairs] pair of a row's n-th choice: place[row * used + n]
  size_t experts = 0;         ///< that compute
  int64_t pairs() const { return start[experts]; }  ///< to be computed
  int64_t count(size_t e) const { return start[e + 1] - start[e]; }
};

Sorted sort_by_expert(base::Arena& arena, const Choice& c, const Moe& m) {
  const size_t pairs = c.experts.size(), experts = m.experts.size() + size_t(m.identity);
  const int used = m.routing.used;
  Sorted s{arena.take<int32_t>(experts + 1), arena.take<int32_t>(pairs), arena.take<float>(pairs), arena.take<int32_t>(pairs), m.experts.size()};
  std::fill(s.start.begin(), s.start.end(), 0);
  for (int32_t e : c.experts) ++s.start[size_t(e) + 1];
  for (size_t e = 0; e < experts; ++e) s.start[e + 1] += s.start[e];
  const auto next = arena.take<int32_t>(experts);
  std::copy(s.start.begin(), s.start.end() - 1, next.begin());
  for (size_t i = 0; i < pairs; ++i) {
    const int32_t at = next[size_t(c.experts[i])]++;
    s.row[size_t(at)] = int32_t(i) / used, s.weight[size_t(at)] = c.weights[i], s.place[i] = at;
  }
  return s;
}

/// A panel of quantized rows: pairs [first, first + rows) of one expert.
struct PairPanel {
  int32_t first, rows;
};

/// The panels of all experts, as gemm() expects them of each.
std::span<PairPanel> panels_of(const MoeContext& c, const Sorted& s) {
  const auto out = c.arena.take<PairPanel>(size_t(s.pairs()));
  size_t n = 0;
  for (size_t e = 0; e < s.experts; ++e) {
    const kernels::cpu::Panels p = c.kernels.gemm.panels(s.count(e));
    for (int64_t i = 0; i < p.count(); ++i) out[n++] = {int32_t(s.start[e] + p[i].first), p[i].rows};
  }
  return out.first(n);
}

/// Calls f(panel) for all, shared by their rows.
template <class F>
void for_panels(const MoeContext& c, std::span<const PairPanel> panels, int64_t pairs, int64_t row_cost, F&& f) {
  for_rows(c.team, pairs, row_cost, [&](int64_t a, int64_t b) {
    auto at = std::lower_bound(panels.begin(), panels.end(), a, [](const PairPanel& p, int64_t v) { return p.first < v; });
    for (; at != panels.end() && at->first < b; ++at) f(*at);
  });
}

/// Rows that were quantized one by one, put together as the records of a panel.
void gather_panel(const std::byte* rows, const Sorted& s, bool weighted, PairPanel p, int64_t blocks, std::byte* out) {
  const size_t h = size_t(p.rows), row_bytes = size_t(blocks) * kRecordBytes;
  for (size_t i = 0; i < h; ++i) {
    const size_t pair = size_t(p.first) + i;
    const std::byte* from = rows + size_t(s.row[pair]) * row_bytes;
    const float w = weighted ? s.weight[pair] : 1.0f;
    for (int64_t b = 0; b < blocks; ++b, from += kRecordBytes) {
      std::byte* const record = out + size_t(b) * h * kRecordBytes;
      std::memcpy(record + i * kBlock, from, kBlock);
      float scales[2];  // the rest are sums of codes
      std::memcpy(scales, from + kBlock, sizeof scales);
      scales[0] *= w, scales[1] *= w;
      std::byte* const fields = record + h * kBlock + 4 * i;
      std::memcpy(fields, &scales[0], 4);
      std::memcpy(fields + 4 * h, &scales[1], 4);
      for (size_t f = 2; f < 5; ++f) std::memcpy(fields + 4 * h * f, from + kBlock + 4 * f, 4);
    }
  }
}

/// The input of all experts: gathered floats, gathered codes, or both, as their packs ask for.
struct Inputs {
  Tensor x;                       ///< [P, k]
  std::byte* quantized = nullptr;
  int64_t blocks = 0;
  std::byte* panel(int64_t pair) const { return quantized + size_t(pair * blocks) * kRecordBytes; }
};

class Experts {
 public:
  Experts(const MoeContext& c, const Moe& m, const Choice& choice) : c_(c), m_(m), s_(sort_by_expert(c.arena, choice, m)) {
    panels_ = panels_of(c, s_);
    for (size_t e = 0; e < m.experts.size(); ++e) {
      if (s_.count(e) == 0) continue;
      const FeedForward& f = m.experts[e];
      for (const Linear* l : {&f.gate, &f.up})
        if (*l) (integer(*l) ? integer_in_ : floating_in_) = true;
      (integer(f.down) ? integer_mid_ : floating_mid_) = true;
      gated_ = gated_ && f.gate && m.swiglu_limit == 0 && m.clamp == 0 && can_gate(*f.gate.w, *f.up.w);
    }
  }

  Tensor run(Tensor x) {
    const Tensor y = take_tensor(c_.arena, s_.pairs(), m_.experts[0].down.w->n);
    if (s_.pairs() == 0) return sum(y, x);
    const Tensor h = gate_up(gather(x));
    const Inputs in{h, integer_mid_ ? quantize(h) : nullptr, blocks_of(h.cols)};
    const auto jobs = c_.arena.take<GroupedJob>(m_.experts.size());
    size_t n = 0;
    for_each_used([&](const FeedForward& f, int64_t first, int64_t rows) { new (&jobs[n++]) GroupedJob(job(f.down, in, y, first, rows)); });
    grouped_linear(c_.team, c_.kernels, jobs.first(n), c_.tuning);
    return sum(y, x);
  }

 private:
  template <class F>
  void for_each_used(F&& f) const {
    for (size_t e = 0; e < m_.experts.size(); ++e)
      if (const int64_t n = s_.count(e)) f(m_.experts[e], s_.start[e], n);
  }

  static GroupedJob job(const Linear& l, const Inputs& in, Tensor out, int64_t first, int64_t rows) {
    GroupedJob j;
    j.w = l.w.get(), j.out = rows_of(out, first, rows), j.bias = l.bias;
    if (integer(l)) j.quantized = in.panel(first);
    else j.x = rows_of(in.x, first, rows);
    return j;
  }

  Inputs gather(Tensor x) const {
    Inputs in{.blocks = blocks_of(x.cols)};
    const bool weighted = m_.routing.on_input;
    if (integer_in_) {
      std::byte* const rows = c_.arena.take<std::byte>(linear_scratch_bytes(x.rows, x.cols)).data();
      for_rows(c_.team, x.rows, x.cols, [&](int64_t a, int64_t b) {
        for (int64_t r = a; r < b; ++r) c_.kernels.gemm.quantize_panel(x.row(r), x.stride, 1, x.cols, rows + size_t(r * in.blocks) * kRecordBytes);
      });
      in.quantized = c_.arena.take<std::byte>(linear_scratch_bytes(s_.pairs(), x.cols)).data();
      for_panels(c_, panels_, s_.pairs(), x.cols / 4, [&](PairPanel p) { gather_panel(rows, s_, weighted, p, in.blocks, in.panel(p.first)); });
    }
    if (floating_in_) {
      in.x = take_tensor(c_.arena, s_.pairs(), x.cols);
      for_rows(c_.team, s_.pairs(), x.cols, [&](int64_t a, int64_t b) {
        for (int64_t i = a; i < b; ++i) {
          std::memcpy(in.x.row(i), x.row(s_.row[size_t(i)]), size_t(x.cols) * sizeof(float));
          if (weighted) c_.kernels.elementwise.scale(in.x.row(i), x.cols, s_.weight[size_t(i)]);
        }
      });
    }
    return in;
  }

  std::byte* quantize(Tensor h) const {
    const Inputs in{h, c_.arena.take<std::byte>(linear_scratch_bytes(h.rows, h.cols)).data(), blocks_of(h.cols)};
    for_panels(c_, panels_, h.rows, h.cols, [&](PairPanel p) { c_.kernels.gemm.quantize_panel(h.row(p.first), h.stride, p.rows, h.cols, in.panel(p.first)); });
    return in.quantized;
  }

  /// Experts without a gate.
  Tensor up_alone(const Inputs& in) const {
    const Tensor h = take_tensor(c_.arena, s_.pairs(), m_.experts[0].up.w->n);
    const auto jobs = c_.arena.take<GroupedJob>(m_.experts.size());
    size_t n = 0;
    for_each_used([&](const FeedForward& f, int64_t first, int64_t rows) { new (&jobs[n++]) GroupedJob(job(f.up, in, h, first, rows)); });
    grouped_linear(c_.team, c_.kernels, jobs.first(n), c_.tuning);
    for_rows(c_.team, h.rows, h.cols * kActCost, [&](int64_t a, int64_t b) {
      for (int64_t r = a; r < b; ++r) c_.kernels.elementwise.activate[int(m_.act)](h.row(r), h.cols);
    });
    return h;
  }

  Tensor gate_up(const Inputs& in) const {
    if (!m_.experts[0].gate) return up_alone(in);
    const Tensor h = take_tensor(c_.arena, s_.pairs(), m_.experts[0].up.w->n), up = gated_ ? Tensor{} : take_tensor(c_.arena, h.rows, h.cols);
    const auto jobs = c_.arena.take<GroupedJob>(2 * m_.experts.size());
    size_t n = 0;
    for_each_used([&](const FeedForward& f, int64_t first, int64_t rows) {
      GroupedJob* const gate = new (&jobs[n++]) GroupedJob(job(f.gate, in, h, first, rows));
      if (gated_) gate->up = f.up.w.get(), gate->up_bias = f.up.bias, gate->act = Act(m_.act);
      else new (&jobs[n++]) GroupedJob(job(f.up, in, up, first, rows));
    });
    grouped_linear(c_.team, c_.kernels, jobs.first(n), c_.tuning);
    if (gated_) return h;
    const auto& k = c_.kernels.elementwise;
    for_rows(c_.team, h.rows, h.cols * kActCost, [&](int64_t a, int64_t b) {
      for (int64_t r = a; r < b; ++r)
        if (m_.clamp > 0) act_mul_clamped(h.row(r), up.row(r), h.cols);
        else if (m_.swiglu_limit > 0) clamped_row(k, {m_.act, m_.swiglu_limit, m_.swiglu_alpha}, h.row(r), h.row(r), up.row(r), h.cols);
        else k.act_mul[int(m_.act)](h.row(r), h.row(r), up.row(r), h.cols);
    });
    return h;
  }

  void act_mul_clamped(float* gate, float* up, int64_t n) const {
    c_.kernels.elementwise.activate[int(m_.act)](gate, n);
    for (int64_t i = 0; i < n; ++i) gate[i] = std::min(gate[i], m_.clamp) * std::clamp(up[i], -m_.clamp, m_.clamp);
  }

  Tensor sum(Tensor y, Tensor x) const {
    const int64_t used = m_.routing.used;
    const Tensor out = take_tensor(c_.arena, x.rows, y.cols);
    for_rows(c_.team, x.rows, y.cols * used, [&](int64_t a, int64_t b) {
      for (int64_t r = a; r < b; ++r) {
        std::memset(out.row(r), 0, size_t(out.cols) * sizeof(float));
        for (int64_t n = 0; n < used; ++n) {
          const size_t pair = size_t(s_.place[size_t(r * used + n)]);
          const bool computed = int64_t(pair) < s_.pairs();
          c_.kernels.elementwise.add(out.row(r), computed ? y.row(int64_t(pair)) : x.row(r), y.cols, computed && m_.routing.on_input ? 1.0f : s_.weight[pair]);
        }
      }
    });
    return out;
  }

  const MoeContext& c_;
  const Moe& m_;
  const Sorted s_;
  std::span<PairPanel> panels_;
  bool integer_in_ = false, floating_in_ = false, integer_mid_ = false, floating_mid_ = false;
  bool gated_ = true;  ///< the kernels compute gate, up and activation in one pass
};

}  // namespace

Choice choose(const MoeContext& c, const Moe& m, Tensor logits) {
  const size_t used = size_t(m.routing.used), E = size_t(logits.cols);
  ISO_CHECK(used >= 1 && used <= E && (m.choice_bias.empty() || m.choice_bias.size() == E) && (m.expert_scale.empty() || m.expert_scale.size() == E));
  for (size_t r = 0; r < size_t(logits.rows) && !m.by_token.empty(); ++r) ISO_CHECK((size_t(c.tokens[r]) + 1) * used <= m.by_token.size());
  const auto experts = c.arena.take<int32_t>(size_t(logits.rows) * used);
  const auto weights = c.arena.take<float>(experts.size());
  const Tensor scratch = take_tensor(c.arena, logits.rows, 2 * logits.cols);
  for_rows(c.team, logits.rows, logits.cols * (kActCost + int64_t(used)), [&](int64_t a, int64_t b) {
    for (int64_t r = a; r < b; ++r) {
      const auto chosen = experts.subspan(size_t(r) * used, used);
      const auto weight = weights.subspan(size_t(r) * used, used);
      if (m.by_token.empty()) {
        choose_experts(c.kernels.elementwise, m.routing, {logits.row(r), E}, m.choice_bias, {scratch.row(r), 2 * E}, chosen.data(), weight.data());
      } else {
        std::copy_n(&m.by_token[size_t(c.tokens[size_t(r)]) * used], used, chosen.data());
        weigh_experts(c.kernels.elementwise, m.routing, {logits.row(r), E}, chosen, weight.data());
      }
      for (size_t n = 0; n < used && !m.expert_scale.empty(); ++n) weight[n] *= m.expert_scale[size_t(chosen[n])];
    }
  });
  return {experts, weights};
}

Tensor run_experts(const MoeContext& c, const Moe& m, Tensor x, const Choice& choice) { return Experts(c, m, choice).run(x); }

}  // namespace isotope::ops
