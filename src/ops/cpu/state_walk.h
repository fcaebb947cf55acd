// Runs an op with a state over sequences in every way that must not matter. For tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <span>

#include "kernels/cpu/pick.h"
#include "ops/ops.h"

namespace isotope::ops::test {

inline std::vector<float> random(size_t n, uint32_t seed, float scale = 1, float centre = 0) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> d(centre, scale);
  std::vector<float> v(n);
  for (float& x : v) x = d(gen);
  return v;
}

/// Runs the op over rows that hold the numbers of these tokens.
using Step = std::function<Tensor(Ops&, const std::vector<int64_t>& tokens)>;

/// Sequences that all consist of the same tokens, in slots that were full of another's numbers.
class Walk {
 public:
  static constexpr int32_t kSlots = 4;
  /// Tokens [first, first + n) of the sequence in a slot.
  struct Part {
    int32_t slot;
    int64_t first, n;
  };

  Walk(const CpuOpsOptions& o, int64_t state_floats) : ops_(*make_cpu_ops(o)) {
    const KvLayerSpec spec{.group = 0, .state_floats = state_floats};
    const int64_t slots[] = {kSlots};
    kv_ = *ops_->make_kv({&spec, 1}, slots, 16, KvType::f32);
    for (int slot = 0; slot < kSlots; ++slot) spoil(slot);
  }

  std::vector<float> step(const std::vector<Part>& parts, const Step& f, const std::vector<Batch::Capture>& captures = {}) {
    std::vector<int32_t> tokens, positions, start{0}, context, slots;
    std::vector<int64_t> at;
    for (const Part& p : parts) {
      for (int64_t i = p.first; i < p.first + p.n; ++i) at.push_back(i), positions.push_back(int32_t(i));
      start.push_back(int32_t(at.size()));
      context.push_back(int32_t(p.first + p.n));
      slots.push_back(p.slot);
    }
    tokens.resize(at.size());
    const Batch::Group group{slots.data(), 1, {}};
    ops_->begin({.tokens = tokens, .positions = positions, .query_start = start, .context_len = context, .groups = {&group, 1}, .captures = captures}, kv_.get());
    const Tensor t = f(*ops_, at);
    std::vector<float> out;
    for (int64_t r = 0; r < t.rows; ++r) out.insert(out.end(), t.row(r), t.row(r) + t.cols);
    return out;
  }

  /// T tokens in steps of `chunk`. Moves: each step finds the state in another slot, as after a checkpoint.
  std::vector<float> run(int64_t T, int64_t chunk, const Step& f, bool moves = false) {
    std::vector<float> out;
    int32_t slot = 1;
    for (int64_t at = 0; at < T; at += chunk) {
      const auto part = step({{slot, at, std::min(chunk, T - at)}}, f);
      out.insert(out.end(), part.begin(), part.end());
      if (!moves) continue;
      kv_->copy_block(0, slot, (slot + 1) % kSlots);
      spoil(slot);
      slot = (slot + 1) % kSlots;
    }
    return out;
  }

 private:
  void spoil(int slot) {
    const auto bytes = kv_->block_bytes(0, slot);
    std::fill_n(reinterpret_cast<float*>(bytes.data()), bytes.size() / 4, 1e6f);
  }
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<KvCache> kv_;
};

inline Tensor rows(Ops& o, const std::vector<float>& all, const std::vector<int64_t>& tokens, int64_t cols) {
  const Tensor t = o.empty(int64_t(tokens.size()), cols);
  for (int64_t r = 0; r < t.rows; ++r) std::copy_n(all.data() + tokens[size_t(r)] * cols, cols, t.row(r));
  return t;
}

inline double softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Three sequences in the same steps, which they enter and leave at different places.
inline void expect_together(int64_t T, int64_t state_floats, const Step& step, const std::vector<float>& want) {
  Walk walk({.threads = 2, .pin = false}, state_floats);
  int64_t done[3] = {};
  std::mt19937 gen(3);
  const size_t cols = want.size() / size_t(T);
  while (*std::min_element(done, done + 3) < T) {
    std::vector<Walk::Part> parts;
    for (int s = 0; s < 3; ++s)
      if (done[s] < T && gen() % 4) parts.push_back({s + 1, done[s], std::min<int64_t>(T - done[s], 1 + int64_t(gen() % (gen() % 3 ? 3 : 19)))});
    if (parts.empty()) continue;
    const auto got = walk.step(parts, step);
    size_t row = 0;
    for (const auto& p : parts) {
      ASSERT_EQ(std::memcmp(&got[row * cols], &want[size_t(p.first) * cols], size_t(p.n) * cols * sizeof(float)), 0) << "slot " << p.slot << ", token " << p.first;
      row += size_t(p.n);
      done[p.slot - 1] += p.n;
    }
  }
}

/// States captured in the middle of a step go on like that of one that ended there; nor does capturing change a step, or the sequence beside it.
inline void expect_captured(int64_t T, int64_t state_floats, const Step& step, const std::vector<float>& want) {
  const size_t cols = want.size() / size_t(T);
  const auto same = [&](std::span<const float> got, int64_t from) {
    return std::memcmp(got.data(), &want[size_t(from) * cols], got.size_bytes()) == 0;
  };
  for (const int64_t begin : {int64_t{0}, int64_t{3}, int64_t{8}}) {
    SCOPED_TRACE(testing::Message() << "captured in a step that begins at " << begin);
    Walk walk({.threads = 2, .pin = false}, state_floats);
    if (begin) walk.step({{0, 0, begin}}, step);
    const int64_t places[] = {(begin / 8 + 1) * 8, T / 8 * 8};
    std::vector<Batch::Capture> captures;
    for (int32_t i = 0; i < 2; ++i)
      if (i == 0 || places[1] > places[0]) captures.push_back({1, int32_t(places[i] - begin), 2 + i});
    const auto got = walk.step({{1, 0, 5}, {0, begin, T - begin}}, step, captures);
    ASSERT_TRUE(same(std::span(got).first(5 * cols), 0));
    ASSERT_TRUE(same(std::span(got).subspan(5 * cols), begin));
    for (const Batch::Capture& c : captures) {
      const int64_t from = begin + c.tokens;
      if (from < T) {
        ASSERT_TRUE(same(walk.step({{c.slot, from, T - from}}, step), from)) << from;
      }
    }
  }
}

/// Every way to run it gives the bits of the first; those are near `want`.
inline void expect_all_ways(int64_t T, int64_t state_floats, const Step& step, const std::vector<double>& want) {
  std::vector<float> first;
  for (const auto& isa : kernels::cpu::isa_candidates()) {
    if (!isa.runnable) continue;
    for (const int64_t chunk : {T, int64_t{1}, int64_t{7}}) {
      SCOPED_TRACE(testing::Message() << isa.isa << ", steps of " << chunk);
      Walk walk({.threads = chunk == 7 ? 3 : 1, .isa = std::string(isa.isa), .pin = false}, state_floats);
      const auto got = walk.run(T, chunk, step);
      if (first.empty()) first = got;
      ASSERT_EQ(got.size(), want.size());
      ASSERT_EQ(std::memcmp(got.data(), first.data(), got.size() * sizeof(float)), 0);
    }
  }
  for (const int64_t chunk : {1, 3, 8, 11}) {
    SCOPED_TRACE(testing::Message() << "slots that move, steps of " << chunk);
    Walk walk({.threads = 2, .pin = false}, state_floats);
    const auto got = walk.run(T, chunk, step, true);
    ASSERT_EQ(std::memcmp(got.data(), first.data(), got.size() * sizeof(float)), 0);
  }
  expect_together(T, state_floats, step, first);
  expect_captured(T, state_floats, step, first);
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(first[i], want[i], 2e-5 * (1 + std::abs(want[i]))) << i;
}

}  // namespace isotope::ops::test
