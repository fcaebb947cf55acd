// Experts: one tensor each, or all of a layer stacked in one [E, rows, columns].
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "models/planner.h"
#include "weights/json.h"

namespace isotope::models {

using ops::FeedForward;
using ops::Linear;

namespace {

/// How the two containers name a stack, and the matrices of an expert that it holds, one above the other.
struct Matrix {
  Linear FeedForward::*to;
  bool down;
  int64_t rows(const ModelConfig& c) const { return down ? c.hidden : c.moe.ffn; }
  int64_t cols(const ModelConfig& c) const { return down ? c.moe.ffn : c.hidden; }
};
constexpr Matrix kGate{&FeedForward::gate, false}, kUp{&FeedForward::up, false}, kDown{&FeedForward::down, true};

constexpr MoeNames kGguf = {.router = "ffn_gate_inp.weight", .bias = "exp_probs_b.bias", .shared = "ffn_", .shared_gate = "ffn_gate_inp_shexp.weight"};

}  // namespace

struct Planner::Stack {
  std::vector<Matrix> parts;
};

Result<void> Planner::add_moe(ops::Moe& m, const std::string& prefix) {
  m.routing = c_.moe.routing, m.act = c_.act;
  m.experts.resize(size_t(c_.moe.experts));
  ISO_CHECK_OK(add_router(m, prefix));
  ISO_CHECK_OK(add_experts(m, prefix));
  return add_shared(m, prefix);
}

Result<void> Planner::add_router(ops::Moe& m, const std::string& prefix) {
  const MoeNames& n = names_.gguf ? kGguf : *arch_.moe;
  const std::string name = prefix + std::string(n.router);
  const int64_t want[] = {c_.moe.experts, c_.hidden};
  if (const TensorEntry* e = ck_.find(name)) {
    ISO_CHECK_OK(expect_shape(*e, want));
    // Held as float32, so that no format of the file rounds the activations that decide.
    add_use(*e, [&o = ops_, &slot = m.router](const Checkpoint::Data& d) -> Result<void> {
      std::vector<float> v(size_t(d.view.elements()));
      ISO_CHECK_OK(tensor::dequantize(d.view.dtype, d.view.data, v));
      tensor::HostTensor t{.dtype = tensor::DType::f32, .data = v.data(), .bytes = v.size() * sizeof(float), .shape = d.view.shape, .rank = 2};
      ISO_TRY(slot.w, o.pack(t));
      return {};
    });
  } else {
    need(name);
  }
  if (c_.moe.choice_bias == Presence::no) return {};
  const std::string bias = prefix + std::string(n.bias);
  const TensorEntry* e = ck_.find(bias);
  if (!e && names_.gguf) e = ck_.find(prefix + "exp_probs_b");  // Hunyuan 3 leaves the suffix out
  if (!e && c_.moe.choice_bias == Presence::yes) need(bias);
  if (!e) return {};
  const int64_t flat[] = {1, c_.moe.experts};  // Ernie keeps a leading 1
  ISO_CHECK_OK(expect_shape(*e, std::span(flat).last(e->rank == 2 ? 2 : 1)));
  add_use(*e, read_into(m.choice_bias, 0, c_.moe.experts));
  return {};
}

Result<void> Planner::add_experts(ops::Moe& m, const std::string& prefix) {
  struct Named {
    std::string_view gguf, hf;
    Stack stack;
  };
  const MoeNames& n = *arch_.moe;
  const Named stacks[] = {{"ffn_gate_up_exps.weight", n.stacked_gate_up, {{kGate, kUp}}},
                          {"ffn_gate_exps.weight", n.stacked_gate, {{kGate}}},
                          {"ffn_up_exps.weight", n.stacked_up, {{kUp}}},
                          {"ffn_down_exps.weight", n.stacked_down, {{kDown}}}};
  bool any = false;
  for (const Named& s : stacks) {
    const std::string_view name = names_.gguf ? s.gguf : s.hf;
    if (name.empty()) continue;
    ISO_TRY(const bool found, add_stack(m, prefix + std::string(name), s.stack));
    any |= found;
  }
  if (!names_.gguf && !any && !n.expert.empty()) return add_separate_experts(m, prefix);
  // Gate and up come together or each by itself.
  const auto there = [&](int i) { return ck_.find(prefix + std::string(names_.gguf ? stacks[i].gguf : stacks[i].hf)) != nullptr; };
  const auto ask = [&](int i) {
    if (!there(i)) need(prefix + std::string(names_.gguf ? stacks[i].gguf : stacks[i].hf));
  };
  if (!there(0)) {
    if (names_.gguf || n.stacked_gate_up.empty()) ask(1), ask(2);
    else ask(0);
  }
  ask(3);
  return {};
}

Result<bool> Planner::add_stack(ops::Moe& m, const std::string& name, const Stack& s) {
  const TensorEntry* e = ck_.find(name);
  if (!e) return false;
  int64_t rows = 0;
  for (const Matrix& part : s.parts) rows += part.rows(c_);
  const int64_t want[] = {c_.moe.experts, rows, s.parts[0].cols(c_)};
  ISO_CHECK_OK(expect_shape(*e, want));
  for (size_t i = 0; i < m.experts.size(); ++i) {
    int64_t at = int64_t(i) * rows;
    for (const Matrix& part : s.parts) {
      add_use(*e, pack_into(m.experts[i].*part.to, at, part.rows(c_)));
      at += part.rows(c_);
    }
  }
  return true;
}

Result<void> Planner::add_separate_experts(ops::Moe& m, const std::string& prefix) {
  const MoeNames& n = *arch_.moe;
  const std::pair<std::string_view, Matrix> parts[] = {{n.gate, kGate}, {n.up, kUp}, {n.down, kDown}};
  for (size_t i = 0; i < m.experts.size(); ++i)
    for (const auto& [part, matrix] : parts) {
      const std::string name = fmt::format("{}{}{}.{}", prefix, n.expert, i, part);
      const int64_t want[] = {matrix.rows(c_), matrix.cols(c_)};
      if (const TensorEntry* e = ck_.find(name)) {
        ISO_CHECK_OK(expect_shape(*e, want));
        add_use(*e, pack_into(m.experts[i].*matrix.to, 0, want[0]));
      } else {
        missing_experts_.push_back({&(m.experts[i].*matrix.to), want[0], want[1], name});
      }
    }
  return {};
}

Result<void> Planner::add_matrix(Linear& slot, const std::string& name, int64_t n, int64_t k) {
  const TensorEntry* e = ck_.find(name);
  if (!e) {
    need(name);
    return {};
  }
  const int64_t want[] = {n, k};
  ISO_CHECK_OK(expect_shape(*e, want));
  add_use(*e, pack_into(slot, 0, n));
  return {};
}

Result<void> Planner::add_shared(ops::Moe& m, const std::string& prefix) {
  if (c_.moe.shared_ffn == 0) return {};
  const MoeNames& n = names_.gguf ? kGguf : *arch_.moe;
  const std::string at = prefix + std::string(n.shared);
  const auto name = [&](std::string_view gguf, std::string_view hf) { return at + std::string(names_.gguf ? gguf : hf); };
  const int64_t f = c_.moe.shared_ffn, d = c_.hidden;
  ISO_CHECK_OK(add_matrix(m.shared.gate, name("gate_shexp.weight", n.shared_part[0]), f, d));
  ISO_CHECK_OK(add_matrix(m.shared.up, name("up_shexp.weight", n.shared_part[1]), f, d));
  ISO_CHECK_OK(add_matrix(m.shared.down, name("down_shexp.weight", n.shared_part[2]), d, f));
  if (arch_.moe->shared_gate.empty()) return {};
  // GGUF keeps the single row as a vector.
  const std::string gate = prefix + std::string(n.shared_gate);
  const TensorEntry* e = ck_.find(gate);
  if (!e) return add_matrix(m.shared_gate, gate, 1, d);
  const int64_t want[] = {1, d};
  ISO_CHECK_OK(expect_shape(*e, std::span(want).last(e->rank == 1 ? 1 : 2)));
  add_use(*e, pack_into(m.shared_gate, 0, 1));
  return {};
}

Result<void> Planner::fill_missing_experts(const levers::Loading& levers) {
  if (levers.strict_coverage) {
    for (const Slot& s : missing_experts_) need(s.name);
    return {};
  }
  if (missing_experts_.empty()) return {};
  std::vector<std::string> names;
  for (const Slot& s : missing_experts_) {
    names.push_back(s.name);
    const std::vector<uint16_t> zeros(size_t(s.n * s.k));
    ISO_TRY(s.to->w, ops_.pack({.dtype = tensor::DType::bf16, .data = zeros.data(), .bytes = zeros.size() * 2, .shape = {s.n, s.k}, .rank = 2}));
  }
  base::log(base::LogLevel::warning, "{} tensors of experts are missing and count as zero: {}", names.size(), weights::listed(names));
  return {};
}

}  // namespace isotope::models
