// The grouped experts against one expert at a time through plain linear layers, bit for bit: any batch, team, number format and spread of rows.
#include "ops/cpu/moe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/cpu/pick.h"
#include "ops/cpu/weight_samples.h"
#include "ops/ops.h"

namespace isotope::ops {
namespace {

using tensor::DType;

struct Shape {
  int64_t hidden = 256, ffn = 256, shared = 0;
  int experts = 8, used = 3;
};

Linear linear(Ops& o, DType t, int64_t n, int64_t k, uint32_t seed) { return {.w = *o.pack(samples::tame(t, n, k, seed).tensor)}; }

struct Formats {
  const char* name;
  DType gate, up, down;
};

Moe make_moe(Ops& o, const Shape& s, const Formats& f, Routing routing) {
  Moe m{.routing = routing};
  m.routing.used = s.used;
  m.router = linear(o, DType::f32, s.experts, s.hidden, 1);
  for (int e = 0; e < s.experts; ++e) {
    const uint32_t seed = uint32_t(10 * e + 10);
    m.experts.push_back({linear(o, f.gate, s.ffn, s.hidden, seed), linear(o, f.up, s.ffn, s.hidden, seed + 1), linear(o, f.down, s.hidden, s.ffn, seed + 2)});
  }
  if (s.shared) {
    m.shared = {linear(o, f.gate, s.shared, s.hidden, 5), linear(o, f.up, s.shared, s.hidden, 6), linear(o, f.down, s.hidden, s.shared, 7)};
    m.shared_gate = linear(o, DType::f32, 1, s.hidden, 8);
  }
  return m;
}

/// Rows of very different directions; `skew`: many of them alike, so that a few experts get most.
Tensor input(Ops& o, int64_t rows, int64_t cols, bool skew, uint32_t seed = 3) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> d;
  std::vector<float> common(static_cast<size_t>(cols));
  for (float& v : common) v = d(rng);
  const Tensor x = o.empty(rows, cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) x.row(r)[c] = (skew && r % 5 ? common[size_t(c)] + 0.05f * d(rng) : d(rng));
  return x;
}

std::vector<float> values(Tensor t) {
  std::vector<float> out;
  for (int64_t r = 0; r < t.rows; ++r) out.insert(out.end(), t.row(r), t.row(r) + t.cols);
  return out;
}

void begin(Ops& o) { o.begin({}, nullptr); }

/// What the router chooses for rows of x; it lies in the arena.
Choice chosen(Ops& o, base::Arena& arena, Tensor x, const Moe& m) {
  base::Team team(2, false);
  const CpuTuning tuning;
  return choose({team, **kernels::cpu::pick_isa(""), arena, tuning}, m, o.linear(x, m.router));
}

/// One row, one expert after the other, through the plain operations.
std::vector<float> by_hand(Ops& o, const Moe& m, Tensor x, const Choice& c, int64_t row) {
  const Tensor one{x.row(row), 1, x.cols, x.stride};
  const Tensor sum = o.empty(1, x.cols);
  std::memset(sum.data, 0, size_t(x.cols) * 4);
  for (int n = 0; n < m.routing.used; ++n) {
    const size_t i = size_t(row * m.routing.used + n);
    const FeedForward& f = m.experts[size_t(c.experts[i])];
    o.add(sum, o.linear(o.linear_act(one, f.gate, f.up, m.act), f.down), c.weights[i]);
  }
  return values(sum);
}

const Formats kFormats[] = {
    {"q4_k", DType::q4_k, DType::q4_k, DType::q6_k}, {"q8_0", DType::q8_0, DType::q8_0, DType::q8_0}, {"bf16", DType::bf16, DType::bf16, DType::bf16},
    {"mixed", DType::q4_0, DType::q8_0, DType::f32},  {"mxfp4", DType::mxfp4, DType::mxfp4, DType::bf16}, {"float_then_int", DType::f16, DType::f16, DType::q5_k},
};

TEST(Moe, EqualsOneExpertAtATime) {
  for (const Formats& f : kFormats) {
    for (int threads : {1, 3}) {
      auto ops = *make_cpu_ops({.threads = threads, .pin = false});
      const Shape s;
      const Moe m = make_moe(*ops, s, f, {.renormalize = true, .scale = 1.5f});
      for (int64_t rows : {1, 2, 7, 33, 150}) {
        begin(*ops);
        const Tensor x = input(*ops, rows, s.hidden, rows % 2);
        base::Team team(threads, false);
        base::Arena arena;
        const CpuTuning tuning;
        const auto table = kernels::cpu::pick_isa("");
        const MoeContext context{team, **table, arena, tuning};
        const Choice c = choose(context, m, ops->linear(x, m.router));
        const auto got = values(run_experts(context, m, x, c));
        for (int64_t r = 0; r < rows; r += rows > 40 ? 29 : 1)
          ASSERT_EQ(std::memcmp(&got[size_t(r * s.hidden)], by_hand(*ops, m, x, c, r).data(), size_t(s.hidden) * 4), 0)
              << f.name << ", " << threads << " threads, row " << r << " of " << rows;
      }
    }
  }
}

TEST(Moe, ARowDoesNotDependOnItsNeighboursNorOnTheTeam) {
  for (const Formats& f : kFormats) {
    const Shape s{.shared = 256};
    std::vector<float> want;
    for (int threads : {1, 2, 3}) {
      auto ops = *make_cpu_ops({.threads = threads, .pin = false});
      const Moe m = make_moe(*ops, s, f, {.score = Routing::Score::sigmoid, .groups = 4, .groups_used = 2, .group_best = 2});
      begin(*ops);
      const Tensor x = input(*ops, 97, s.hidden, true);
      const auto got = values(ops->moe(x, m));
      if (want.empty()) want = got;
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * 4), 0) << f.name << " on " << threads;
      for (int64_t r : {0, 50, 96}) {
        const auto alone = values(ops->moe({x.row(r), 1, x.cols, x.stride}, m));
        ASSERT_EQ(std::memcmp(alone.data(), &want[size_t(r * s.hidden)], alone.size() * 4), 0) << f.name << " row " << r;
      }
    }
  }
}

/// Nemotron's experts: up, activation, down; the latent ones between two matrices of the layer.
TEST(Moe, WithoutGatesAndInAnotherWidth) {
  for (const Formats& f : {kFormats[1], kFormats[2]}) {
    for (int64_t latent : {int64_t{0}, int64_t{128}}) {
      auto ops = *make_cpu_ops({.threads = 2, .pin = false});
      const Shape s{.shared = 128};
      const int64_t inside = latent ? latent : s.hidden;
      Moe m = make_moe(*ops, s, f, {.score = Routing::Score::sigmoid});
      m.act = Activation::relu2;
      m.shared_gate = {}, m.shared.gate = {};
      for (FeedForward& e : m.experts) {
        const auto seed = uint32_t(100 + (&e - m.experts.data()));
        e = {{}, linear(*ops, f.up, s.ffn, inside, seed), linear(*ops, f.down, inside, s.ffn, seed + 50)};
      }
      if (latent) m.to_latent = linear(*ops, f.up, latent, s.hidden, 90), m.from_latent = linear(*ops, f.up, s.hidden, latent, 91);
      begin(*ops);
      const Tensor x = input(*ops, 37, s.hidden, true);
      const auto got = values(ops->moe(x, m));
      base::Arena arena;
      const Choice c = chosen(*ops, arena, x, m);
      const auto through = [&](Tensor in, const FeedForward& e) {
        const Tensor h = ops->linear(in, e.up);
        ops->activate(h, m.act);
        return ops->linear(h, e.down);
      };
      for (int64_t r : {0, 18, 36}) {
        const Tensor one{x.row(r), 1, x.cols, x.stride}, in = latent ? ops->linear(one, m.to_latent) : one;
        Tensor sum = ops->empty(1, inside);
        std::memset(sum.data, 0, size_t(inside) * 4);
        for (int n = 0; n < s.used; ++n) {
          const size_t i = size_t(r * s.used + n);
          ops->add(sum, through(in, m.experts[size_t(c.experts[i])]), c.weights[i]);
        }
        if (latent) sum = ops->linear(sum, m.from_latent);
        ops->add(sum, through(one, m.shared));
        ASSERT_EQ(std::memcmp(&got[size_t(r * s.hidden)], values(sum).data(), size_t(s.hidden) * 4), 0) << f.name << " " << latent << " row " << r;
      }
    }
  }
}

TEST(Moe, AllRowsToOneExpertAndExpertsWithoutRows) {
  for (const Formats& f : {kFormats[0], kFormats[2]}) {
    auto ops = *make_cpu_ops({.threads = 2, .pin = false});
    const Shape s{.experts = 40, .used = 1};
    Moe m = make_moe(*ops, s, f, {});
    m.choice_bias.assign(40, 0.0f);
    m.choice_bias[17] = 100;
    begin(*ops);
    const Tensor x = input(*ops, 70, s.hidden, false);
    const auto got = values(ops->moe(x, m));
    const auto one = values(ops->linear(ops->linear_act(x, m.experts[17].gate, m.experts[17].up, m.act), m.experts[17].down));
    for (int64_t r = 0; r < x.rows; ++r) {  // a row's weight is the same for all its columns
      const float* const g = &got[size_t(r * s.hidden)], * const o = &one[size_t(r * s.hidden)];
      const int64_t top = std::max_element(o, o + s.hidden, [](float a, float b) { return std::abs(a) < std::abs(b); }) - o;
      const float weight = g[top] / o[top];
      EXPECT_GT(weight, 0);
      for (int64_t c = 0; c < s.hidden; ++c) ASSERT_NEAR(g[c], weight * o[c], 1e-5f * std::abs(g[top]));
    }
  }
}

TEST(Moe, WeightsOnTheInputGoThroughTheActivation) {
  auto ops = *make_cpu_ops({.threads = 2, .pin = false});
  const Shape s{.used = 1};
  for (const Formats& f : {kFormats[1], kFormats[2]}) {
    const Moe m = make_moe(*ops, s, f, {.score = Routing::Score::sigmoid, .by_logits = true, .on_input = true});
    begin(*ops);
    const Tensor x = input(*ops, 20, s.hidden, false);
    const auto got = values(ops->moe(x, m));
    const Tensor logits = ops->linear(x, m.router);
    for (int64_t r = 0; r < x.rows; ++r) {
      int best = 0;
      for (int e = 1; e < s.experts; ++e)
        if (logits.row(r)[e] > logits.row(r)[best]) best = e;
      const Tensor one = ops->empty(1, x.cols);
      for (int64_t c = 0; c < x.cols; ++c) one.data[c] = x.row(r)[c] / (1 + std::exp(-logits.row(r)[best]));
      const FeedForward& e = m.experts[size_t(best)];
      const auto want = values(ops->linear(ops->linear_act(one, e.gate, e.up, m.act), e.down));
      float size = 0, d = 0;
      for (size_t c = 0; c < want.size(); ++c) size = std::max(size, std::abs(want[c])), d = std::max(d, std::abs(want[c] - got[size_t(r * s.hidden) + c]));
      EXPECT_LE(d, 0.03f * size) << f.name;
    }
  }
}

TEST(Moe, ExpertsThatGiveBackTheirInput) {
  for (const Formats& f : {kFormats[1], kFormats[2]}) {
    auto ops = *make_cpu_ops({.threads = 2, .pin = false});
    const Shape s{.experts = 8, .used = 3};
    Moe m = make_moe(*ops, s, f, {});
    m.experts.resize(5);
    m.identity = 3;
    begin(*ops);
    const Tensor x = input(*ops, 40, s.hidden, false);
    const auto got = values(ops->moe(x, m));
    base::Arena arena;
    const Choice c = chosen(*ops, arena, x, m);
    int identities = 0;
    for (int64_t r = 0; r < x.rows; ++r) {
      const Tensor one{x.row(r), 1, x.cols, x.stride}, sum = ops->empty(1, x.cols);
      std::memset(sum.data, 0, size_t(x.cols) * 4);
      for (size_t i = size_t(r) * 3; i < size_t(r) * 3 + 3; ++i) {
        const size_t e = size_t(c.experts[i]);
        identities += e >= 5;
        ops->add(sum, e < 5 ? ops->linear(ops->linear_act(one, m.experts[e].gate, m.experts[e].up, m.act), m.experts[e].down) : one, c.weights[i]);
      }
      ASSERT_EQ(std::memcmp(&got[size_t(r * s.hidden)], sum.data, size_t(s.hidden) * 4), 0) << f.name << " row " << r;
    }
    EXPECT_GT(identities, 0);
    // All choices are experts that compute nothing.
    m.choice_bias.assign(8, 0.0f);
    for (size_t e : {5, 6, 7}) m.choice_bias[e] = 100;
    const auto same = values(ops->moe(x, m));
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t i = 1; i < x.cols; ++i) ASSERT_NEAR(same[size_t(r * x.cols + i)] * x.row(r)[0], same[size_t(r * x.cols)] * x.row(r)[i], 1e-4f);
  }
}

TEST(Moe, ClampsScalesAndARouterOfItsOwnRows) {
  auto ops = *make_cpu_ops({.threads = 2, .pin = false});
  const Shape s{.shared = 256, .experts = 8, .used = 1};
  Moe m = make_moe(*ops, s, kFormats[2], {.renormalize = true});
  m.shared_gate = {};
  m.expert_scale = {1, 2, 3, 4, 5, 6, 7, 8};
  m.clamp = 0.4f, m.shared_clamp = 0.2f;
  begin(*ops);
  const Tensor x = input(*ops, 30, s.hidden, false), r = input(*ops, 30, s.hidden, false, 77);
  const auto got = values(ops->moe_routed_by(x, r, m));
  const Tensor logits = ops->linear(r, m.router);
  const auto clamped = [&](Tensor one, const FeedForward& f, float limit) {
    const Tensor g = ops->linear(one, f.gate), u = ops->linear(one, f.up);
    for (int64_t i = 0; i < g.cols; ++i)
      g.data[i] = std::min(g.data[i] / (1 + std::exp(-g.data[i])), limit) * std::clamp(u.data[i], -limit, limit);
    return values(ops->linear(g, f.down));
  };
  for (int64_t t = 0; t < x.rows; ++t) {
    const size_t e = size_t(std::max_element(logits.row(t), logits.row(t) + 8) - logits.row(t));
    const Tensor one{x.row(t), 1, x.cols, x.stride};
    const auto routed = clamped(one, m.experts[e], 0.4f), shared = clamped(one, m.shared, 0.2f);
    for (size_t i = 0; i < routed.size(); ++i)
      ASSERT_NEAR(got[size_t(t * s.hidden) + i], m.expert_scale[e] * routed[i] + shared[i], 1e-4f * (1 + std::abs(m.expert_scale[e] * routed[i]))) << t;
  }
}

}  // namespace
}  // namespace isotope::ops
