// Experts: one tensor each, or all of a layer stacked in one [E, rows, columns].
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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
  int64_t rows(const ModelConfig& c) const { return down ? outside(c) : c.moe.ffn; }
  int64_t cols(const ModelConfig& c) const { return down ? c.moe.ffn : outside(c); }
  static int64_t outside(const ModelConfig& c) { return c.moe.latent ? c.moe.latent : c.hidden; }
};
constexpr Matrix kGate{&FeedForward::gate, false}, kUp{&FeedForward::up, false}, kDown{&FeedForward::down, true};

constexpr MoeNames kGguf = {.router = "ffn_gate_inp.weight", .bias = "exp_probs_b.bias", .shared = "ffn_", .shared_gate = "ffn_gate_inp_shexp.weight",
                            .by_token = "ffn_gate_tid2eid.weight", .to_latent = "ffn_latent_down.weight", .from_latent = "ffn_latent_up.weight"};

}  // namespace

struct Planner::Stack {
  std::vector<Matrix> parts;
  bool turned = false;  ///< the file's is [E, columns, rows], and the parts take turns

  int64_t rows(const ModelConfig& c) const { return int64_t(parts.size()) * parts[0].rows(c); }
  int64_t cols(const ModelConfig& c) const { return parts[0].cols(c); }
};

namespace {

/// Rows of an expert that are columns first, first + step … of its matrix in a stack [E, k, columns].
Result<std::unique_ptr<ops::Weight>> pack_turned(ops::Ops& o, const tensor::HostTensor& t, int64_t expert, int64_t n, int64_t first, int64_t step) {
  const tensor::Format& f = tensor::format(t.dtype);
  if (f.block != 1) return fail(Code::unsupported, fmt::format("experts stored by columns in {}", f.name), {}, "use a GGUF file of that model");
  return pack_columns(o, rows_of(t, expert * t.shape[1], t.shape[1]), first, n, step);
}

/// Rows first, first + step … of one expert as GGUF's MXFP4 blocks. In the file a byte holds two neighbours; in GGUF elements j and j + 16.
std::vector<uint8_t> mxfp4_rows(const uint8_t* codes, const uint8_t* scales, int64_t n, int64_t k, int64_t step) {
  const size_t blocks = size_t(k / 32);
  std::vector<uint8_t> rows(size_t(n) * blocks * 17);
  for (size_t r = 0; r < size_t(n); ++r)
    for (size_t b = 0; b < blocks; ++b) {
      const size_t at = r * size_t(step) * blocks + b;
      const uint8_t* const from = codes + at * 16;
      uint8_t* const to = &rows[(r * blocks + b) * 17];
      const auto code = [&](size_t j) { return uint8_t(from[j / 2] >> (j % 2 * 4) & 15); };
      to[0] = scales[at];
      for (size_t j = 0; j < 16; ++j) to[1 + j] = uint8_t(code(j) | code(j + 16) << 4);
    }
  return rows;
}

}  // namespace

Result<void> Planner::add_moe(ops::Moe& m, const std::string& prefix, bool by_token) {
  m.routing = c_.moe.routing, m.act = c_.act, m.swiglu_limit = c_.moe.swiglu_limit, m.swiglu_alpha = c_.moe.swiglu_alpha;
  m.shared_limit = c_.moe.shared_limit;
  m.experts.resize(size_t(c_.moe.experts));
  m.identity = int(c_.moe.identity);
  ISO_CHECK_OK(add_router(m, prefix, by_token));
  in_experts_ = true;
  ISO_CHECK_OK(add_experts(m, prefix));
  in_experts_ = false;
  if (c_.moe.latent > 0) {
    const MoeNames& n = names_.gguf ? kGguf : *arch_.moe;
    ISO_CHECK_OK(add_matrix(m.to_latent, prefix + std::string(n.to_latent), c_.moe.latent, c_.hidden));
    ISO_CHECK_OK(add_matrix(m.from_latent, prefix + std::string(n.from_latent), c_.hidden, c_.moe.latent));
  }
  return add_shared(m, prefix);
}

Result<void> Planner::add_router(ops::Moe& m, const std::string& prefix, bool by_token) {
  const MoeNames& n = names_.gguf ? kGguf : *arch_.moe;
  const std::string name = prefix + std::string(n.router);
  const int64_t all = c_.moe.experts + c_.moe.identity, want[] = {all, c_.hidden};
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
    need(name, want);
  }
  if (!arch_.moe->router_bias.empty()) {
    const std::string bias = prefix + std::string(names_.gguf ? "ffn_gate_inp.bias" : arch_.moe->router_bias);
    const TensorEntry* e = ck_.find(bias);
    if (!e) need(bias, std::span(want).first(1));
    else {
      ISO_CHECK_OK(expect_shape(*e, std::span(want).first(1)));
      add_use(*e, read_into(m.router.bias, 0, all));
    }
  }
  if (!arch_.moe->expert_scale.empty())
    ISO_CHECK_OK(add_numbers(m.expert_scale, prefix + std::string(names_.gguf ? "ffn_down_exps.scale" : arch_.moe->expert_scale), std::span(want).first(1)));
  if (by_token) {  // a bias that such a layer's file holds decides nothing
    if (const TensorEntry* const e = ck_.find(prefix + std::string(n.bias)); e && job_of_.try_emplace(e, jobs_.size()).second) jobs_.push_back({e, {}});
    return add_expert_table(m, prefix + std::string(n.by_token));
  }
  if (c_.moe.choice_bias == Presence::no) return {};
  const std::string bias = prefix + std::string(n.bias);
  const TensorEntry* e = ck_.find(bias);
  if (!e && names_.gguf) e = ck_.find(prefix + "exp_probs_b");  // Hunyuan 3 leaves the suffix out
  if (!e && c_.moe.choice_bias == Presence::yes) need(bias, std::span(want).first(1));
  if (!e) return {};
  const int64_t flat[] = {1, all};  // Ernie keeps a leading 1
  ISO_CHECK_OK(expect_shape(*e, std::span(flat).last(e->rank == 2 ? 2 : 1)));
  add_use(*e, read_into(m.choice_bias, 0, all));
  return {};
}

Result<void> Planner::add_experts(ops::Moe& m, const std::string& prefix) {
  struct Named {
    std::string_view gguf, hf;
    Stack stack;
  };
  const MoeNames& n = *arch_.moe;
  const Named stacks[] = {{"ffn_gate_up_exps.weight", n.stacked_gate_up, {{kGate, kUp}, n.turned && !names_.gguf}},
                          {"ffn_gate_exps.weight", n.stacked_gate, {{kGate}}},
                          {"ffn_up_exps.weight", n.stacked_up, {{kUp}}},
                          {"ffn_down_exps.weight", n.stacked_down, {{kDown}, n.turned && !names_.gguf}}};
  if (!n.stacked_down_bias.empty()) {
    for (const Named& s : stacks)
      if (names_.gguf && &s != stacks) ISO_CHECK_OK(add_biases(m, prefix + std::string(s.gguf.substr(0, s.gguf.rfind('.'))) + ".bias", s.stack));
    if (!names_.gguf) {
      ISO_CHECK_OK(add_biases(m, prefix + std::string(n.stacked_gate_up_bias), stacks[0].stack));
      ISO_CHECK_OK(add_biases(m, prefix + std::string(n.stacked_down_bias), stacks[3].stack));
    }
  }
  if (!names_.gguf && !n.mxfp4_down.empty() && ck_.find(prefix + std::string(n.mxfp4_down) + "_blocks")) {
    ISO_CHECK_OK(add_mxfp4(m, prefix + std::string(n.mxfp4_gate_up), stacks[0].stack));
    ISO_CHECK_OK(add_mxfp4(m, prefix + std::string(n.mxfp4_down), stacks[3].stack));
    return {};
  }
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
    const Stack& s = stacks[i].stack;
    const int64_t rows = s.rows(c_), cols = s.cols(c_), shape[] = {c_.moe.experts, s.turned ? cols : rows, s.turned ? rows : cols};
    if (!there(i)) need(prefix + std::string(names_.gguf ? stacks[i].gguf : stacks[i].hf), shape);
  };
  if (!n.gated()) ask(2);
  else if (!there(0)) {
    if (names_.gguf || n.stacked_gate_up.empty()) ask(1), ask(2);
    else ask(0);
  }
  ask(3);
  return {};
}

Result<bool> Planner::add_stack(ops::Moe& m, const std::string& name, const Stack& s) {
  const TensorEntry* e = ck_.find(name);
  if (!e) return false;
  const int64_t rows = s.rows(c_), cols = s.cols(c_);
  const int64_t want[] = {c_.moe.experts, s.turned ? cols : rows, s.turned ? rows : cols};
  ISO_CHECK_OK(expect_shape(*e, want));
  if (s.turned) {
    for (size_t i = 0; i < m.experts.size(); ++i)
      for (size_t p = 0; p < s.parts.size(); ++p)
        add_use(*e, [this, &slot = m.experts[i].*s.parts[p].to, i, p, n = s.parts[p].rows(c_), alternate = arch_.moe->alternate,
                     parts = s.parts.size()](const auto& d) -> Result<void> {
          ISO_TRY(slot.w, pack_turned(ops_, d.view, int64_t(i), n, int64_t(p) * (alternate ? 1 : n), alternate ? int64_t(parts) : 1));
          return {};
        });
    return true;
  }
  for (size_t i = 0; i < m.experts.size(); ++i) {
    int64_t at = int64_t(i) * rows;
    for (const Matrix& part : s.parts) {
      add_use(*e, pack_into(m.experts[i].*part.to, at, part.rows(c_)));
      at += part.rows(c_);
    }
  }
  return true;
}

Result<void> Planner::add_mxfp4(ops::Moe& m, const std::string& name, const Stack& s) {
  const TensorEntry *blocks = ck_.find(name + "_blocks"), *scales = ck_.find(name + "_scales");
  if (!blocks) need(name + "_blocks");
  if (!scales) need(name + "_scales");
  if (!blocks || !scales) return {};
  const int64_t rows = s.rows(c_), cols = s.cols(c_);
  const int64_t want[] = {c_.moe.experts, rows, cols / 32, 16};
  ISO_CHECK_OK(expect_shape(*blocks, want));
  ISO_CHECK_OK(expect_shape(*scales, std::span(want).first(3)));
  for (const TensorEntry* e : {blocks, scales})
    if (cols % 32 || e->dtype != tensor::DType::u8)
      return fail(Code::unsupported,
                  fmt::format("tensor {} is no MXFP4 of bytes in blocks of 32: {} columns of {}", e->name, cols, tensor::format(e->dtype).name), ck_.files()[size_t(e->file)], "use an intact checkpoint of that architecture");
  for (const TensorEntry* e : {blocks, scales})
    if (job_of_.try_emplace(e, jobs_.size()).second) jobs_.push_back({e, {}});
  const auto consume = [this, &m, parts = s.parts, rows, cols, n = s.parts[0].rows(c_)](std::span<Checkpoint::Data> d) -> Result<void> {
    const auto *codes = static_cast<const uint8_t*>(d[0].view.data), *exponents = static_cast<const uint8_t*>(d[1].view.data);
    for (size_t i = 0; i < m.experts.size(); ++i)
      for (size_t p = 0; p < parts.size(); ++p) {
        const size_t at = (i * size_t(rows) + p) * size_t(cols / 32);
        const std::vector<uint8_t> packed = mxfp4_rows(codes + at * 16, exponents + at, n, cols, int64_t(parts.size()));
        ISO_TRY((m.experts[i].*parts[p].to).w,
                pack_expert({.dtype = tensor::DType::mxfp4, .data = packed.data(), .bytes = packed.size(), .shape = {n, cols}, .rank = 2}));
      }
    return {};
  };
  pairs_.push_back({{blocks, scales}, consume});
  return {};
}

/// Biases of all experts: [E, rows], the parts taking turns as the rows do.
Result<void> Planner::add_biases(ops::Moe& m, const std::string& name, const Stack& s) {
  const int64_t want[] = {c_.moe.experts, s.rows(c_)};
  ISO_TRY(const TensorEntry* const e, required(name, want));
  if (!e) return {};
  add_use(*e, [&m, parts = s.parts, n = s.parts[0].rows(c_)](const Checkpoint::Data& d) -> Result<void> {
    std::vector<float> v(size_t(d.view.elements()));
    ISO_CHECK_OK(tensor::dequantize(d.view.dtype, d.view.data, v));
    for (size_t i = 0, at = 0; i < m.experts.size(); ++i)
      for (size_t r = 0; r < size_t(n); ++r)
        for (const Matrix& part : parts) (m.experts[i].*part.to).bias.push_back(v[at++]);
    return {};
  });
  return {};
}

Result<void> Planner::add_separate_experts(ops::Moe& m, const std::string& prefix) {
  const MoeNames& n = *arch_.moe;
  const std::pair<std::string_view, Matrix> parts[] = {{n.gate, kGate}, {n.up, kUp}, {n.down, kDown}};
  for (int64_t i = 0; i < c_.moe.identity; ++i)  // some files have matrices for them
    for (const auto& part : parts) ignore(fmt::format("{}{}{}.{}", prefix, n.expert, c_.moe.experts + i, part.first));
  for (size_t i = 0; i < m.experts.size(); ++i)
    for (const auto& [part, matrix] : parts) {
      if (part.empty()) continue;
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

Result<void> Planner::add_matrix(Linear& slot, const std::string& name, int64_t n, int64_t k, std::vector<int32_t> order) {
  const int64_t want[] = {n, k};
  ISO_TRY(const TensorEntry* const e, required(name, want));
  if (e) add_use(*e, pack_into(slot, 0, n, std::move(order)));
  return {};
}

Result<void> Planner::add_shared(ops::Moe& m, const std::string& prefix) {
  if (c_.moe.shared_ffn == 0) return {};
  const MoeNames& n = names_.gguf ? kGguf : *arch_.moe;
  if (!n.shared_gate_up.empty()) {
    const int64_t width = c_.moe.shared_ffn;
    ISO_CHECK_OK(add_stacked(prefix + std::string(n.shared_gate_up), c_.hidden, {{&m.shared.gate, width}, {&m.shared.up, width}}));
    return add_matrix(m.shared.down, prefix + std::string(n.shared_down), c_.hidden, width);
  }
  const std::string at = prefix + std::string(n.shared);
  const auto name = [&](std::string_view gguf, std::string_view hf) { return at + std::string(names_.gguf ? gguf : hf); };
  const int64_t f = c_.moe.shared_ffn, d = c_.hidden;
  if (arch_.moe->gated()) ISO_CHECK_OK(add_matrix(m.shared.gate, name("gate_shexp.weight", n.shared_part[0]), f, d));
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
    for (const Slot& s : missing_experts_) need(s.name, std::array{s.n, s.k});
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
