// Attention to chosen keys against double precision, and bit for bit however the prompt runs.
#include "ops/sparse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cpu/pick.h"
#include "ops/cpu/feed.h"
#include "ops/cpu/kv_cache.h"

namespace isotope::ops {
namespace {

enum What { kQ = 1, kK, kV, kIndexQ, kIndexK, kIndexW };

struct Shape {
  int heads = 4, kv_heads = 1, dim = 24, index_heads = 5, index_dim = 16;
  int64_t top = 20;
  int block = 1, local = 0;
  bool weighted = true;
  bool sinks = false;
  std::vector<KvLayerSpec> layers() const {
    return {{.kv_heads = kv_heads, .head_dim = dim}, {.kv_heads = 1, .head_dim = index_dim, .form = KvForm::keys}};
  }
};
const std::vector<float> kSinks = {0.5f, -1.0f, 2.0f, 0.0f, 1.5f, -0.25f, 3.0f, 0.125f};

Tensor attend(Feed& f, const Shape& s) {
  f.sparse().choose_keys({.q = f.tensor(kIndexQ, int64_t{s.index_heads} * s.index_dim), .k = f.tensor(kIndexK, s.index_dim),
                          .weights = s.weighted ? f.tensor(kIndexW, s.index_heads) : Tensor{}, .layer = 1, .heads = s.index_heads, .dim = s.index_dim,
                          .scale = 0.25f, .top = s.top, .block = s.block, .local = s.local});
  return f.sparse().attend_chosen({.q = f.tensor(kQ, int64_t{s.heads} * s.dim),
                                   .k = f.tensor(kK, int64_t{s.kv_heads} * s.dim),
                                   .v = f.tensor(kV, int64_t{s.kv_heads} * s.dim),
                                   .layer = 0,
                                   .heads = s.heads,
                                   .kv_heads = s.kv_heads,
                                   .head_dim = s.dim,
                                   .scale = 1 / std::sqrt(float(s.dim)),
                                   .sinks = s.sinks ? std::span(kSinks).first(size_t(s.heads)) : std::span<const float>()});
}

double dot(const float* a, const float* b, int n) {
  double s = 0;
  for (int i = 0; i < n; ++i) s += double(a[i]) * double(b[i]);
  return s;
}

/// Keys that the token at p of sequence 0 gets for a kv head; empty if the choice is too close to call.
std::vector<int64_t> reference_choice(const Shape& s, int64_t p, int kv_head) {
  const auto q = numbers_of(0, p, kIndexQ, int64_t{s.index_heads} * s.index_dim), w = numbers_of(0, p, kIndexW, s.index_heads);
  std::vector<double> scores;
  for (int64_t t = 0; t <= p; ++t) {
    const auto k = numbers_of(0, t, kIndexK, s.index_dim);
    double score = 0;
    for (int h = 0; h < s.index_heads; ++h) {
      const double x = 0.25 * dot(&q[size_t(h * s.index_dim)], k.data(), s.index_dim);
      if (s.weighted) score += double(w[size_t(h)]) * std::max(0.0, x);
      else if (h == kv_head) score = x;
    }
    const size_t unit = size_t(t / s.block);
    if (unit == scores.size()) scores.push_back(-1e30);
    scores[unit] = std::max(scores[unit], score);
  }
  for (int l = 0; l < s.local && l < int(scores.size()); ++l) scores[scores.size() - 1 - size_t(l)] = 1e30 - l;
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });  // equal ones, as of rectified products: the lower
  const size_t n = size_t(std::min<int64_t>(s.top, int64_t(order.size())));
  const double gap = n < order.size() ? scores[order[n - 1]] - scores[order[n]] : 1;
  if (gap > 0 && gap < 1e-5) return {};
  order.resize(n);
  std::vector<int64_t> keys;
  for (int64_t t = 0; t <= p; ++t)
    if (std::find(order.begin(), order.end(), size_t(t / s.block)) != order.end()) keys.push_back(t);
  return keys;
}

/// The largest difference to the reference, and how many rows were compared.
std::pair<double, int> compare(const Shape& s, const std::vector<float>& got, int64_t length) {
  double worst = 0;
  int compared = 0;
  const int group = s.heads / s.kv_heads;
  for (int64_t p = 0; p < length; ++p) {
    for (int h = 0; h < s.heads; ++h) {
      const auto keys = reference_choice(s, p, h / group);
      if (keys.empty()) continue;
      ++compared;
      const auto q = numbers_of(0, p, kQ, int64_t{s.heads} * s.dim);
      std::vector<double> out(size_t(s.dim), 0.0);
      double sum = s.sinks ? std::exp(double(kSinks[size_t(h)])) : 0;
      for (int64_t t : keys) {
        const auto k = numbers_of(0, t, kK, int64_t{s.kv_heads} * s.dim), v = numbers_of(0, t, kV, int64_t{s.kv_heads} * s.dim);
        const double e = std::exp(dot(&q[size_t(h * s.dim)], &k[size_t(h / group * s.dim)], s.dim) / std::sqrt(double(s.dim)));
        sum += e;
        for (int j = 0; j < s.dim; ++j) out[size_t(j)] += e * double(v[size_t(h / group * s.dim + j)]);
      }
      for (int j = 0; j < s.dim; ++j) worst = std::max(worst, std::abs(out[size_t(j)] / sum - double(got[size_t((p * s.heads + h) * s.dim + j)])));
    }
  }
  return {worst, compared};
}

const Shape kShapes[] = {{},
                         {.heads = 16, .dim = 40, .index_heads = 1, .index_dim = 8},
                         {.heads = 30, .top = 1},
                         {.heads = 4, .kv_heads = 2, .index_heads = 7, .index_dim = 32, .top = 33, .sinks = true},
                         {.heads = 6, .kv_heads = 2, .index_heads = 2, .top = 3, .block = 8, .local = 1, .weighted = false},
                         {.heads = 4, .kv_heads = 4, .index_heads = 4, .top = 2, .block = 16, .local = 1, .weighted = false},
                         {.heads = 2, .kv_heads = 2, .index_heads = 2, .top = 5, .block = 5, .local = 0, .weighted = false}};

TEST(ChosenKeys, AttentionAgreesWithDoublePrecision) {
  constexpr int64_t kLength = 90;
  for (const Shape& s : kShapes) {
    const auto got = fed(s.layers(), 1, KvType::f32, kFeedWays[0], kLength, [&](Feed& f) { return attend(f, s); });
    const auto [worst, compared] = compare(s, got, kLength);
    EXPECT_LT(worst, 1e-5) << s.heads << " heads, top " << s.top;
    EXPECT_GT(compared, kLength * s.heads * 9 / 10);
  }
}

TEST(ChosenKeys, TheSameBitsHoweverThePromptRuns) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(std::to_string(s.heads) + " heads, top " + std::to_string(s.top));
    expect_same_bits(s.layers(), 150, [&](Feed& f) { return attend(f, s); });
  }
}

/// Scores are computed in bands of tokens that fit a budget; how many there are decides no bit.
TEST(ChosenKeys, BandsOfScoresDoNotMatter) {
  for (const Shape& s : {kShapes[0], kShapes[4]}) {
    std::vector<float> want;
    for (const int64_t bytes : {int64_t{2048} << 20, int64_t{0}, int64_t{1}, int64_t{3000}}) {
      Feed f(s.layers(), 1, {.type = KvType::bf16, .threads = 2, .alone = false, .sparse = {.score_bytes = bytes}});
      std::vector<float> got;
      f.step({{0, 150}}, [&] {
        const Tensor t = attend(f, s);
        for (int64_t r = 0; r < t.rows; ++r) got.insert(got.end(), t.row(r), t.row(r) + t.cols);
      });
      if (want.empty()) want = got;
      EXPECT_EQ(got, want) << bytes << " bytes";
    }
  }
}

/// More chosen keys than a segment holds, and more heads than one call takes.
TEST(ChosenKeys, ListsLongerThanASegment) {
  const Shape s{.heads = 14, .dim = 16, .index_heads = 2, .index_dim = 8, .top = 600};
  constexpr int64_t kLength = 700;
  std::vector<float> want;
  for (const FeedWay& way : {FeedWay{"whole", kLength}, FeedWay{"by 233", 233, false, 3, 4}, FeedWay{"by 64 beside another", 64, true, 2}}) {
    const auto got = fed(s.layers(), 1, KvType::bf16, way, kLength, [&](Feed& f) { return attend(f, s); });
    if (want.empty()) want = got;
    ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << way.name;
  }
}

/// A list of all keys gives the bits of attention to all keys: sequence 0 never has more than `top`, its neighbour makes the op go by lists.
TEST(ChosenKeys, AllOfThemAreAttentionToAll) {
  Shape s{.heads = 13, .dim = 40, .index_heads = 2, .index_dim = 8, .top = 300};
  constexpr int64_t kLength = 300;
  for (KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    const auto run = [&](bool lists) {
      Feed f(s.layers(), 1, {.type = type});
      std::vector<float> out;
      f.step({{1, 320}}, [&] { attend(f, s); });
      for (int64_t at = 0; at < kLength; at += 60)
        f.step({{0, 60}, {1, 1}}, [&] {
          Shape now = s;
          if (!lists) now.top = 100000;
          const Tensor t = attend(f, now);
          for (int64_t r = 0; r < 60; ++r) out.insert(out.end(), t.row(r), t.row(r) + t.cols);
        });
      return out;
    };
    const auto with = run(true), without = run(false);
    ASSERT_EQ(with.size(), without.size());
    EXPECT_EQ(std::memcmp(with.data(), without.data(), with.size() * sizeof(float)), 0) << int(type);
  }
}

/// The choice stays until the next one: a second attention sees the same keys.
TEST(ChosenKeys, StayUntilTheNextChoice) {
  const Shape s{.top = 4};
  std::vector<float> twice[2];
  Feed f(s.layers(), 1, {});
  f.step({{0, 50}}, [&] {
    const Tensor a = attend(f, s);
    f.ops().next_layer();
    f.ops().next_layer();
    f.ops().next_layer();
    const Tensor b = f.sparse().attend_chosen({.q = f.tensor(kQ, s.heads * s.dim),
                                               .k = f.tensor(kK, s.dim),
                                               .v = f.tensor(kV, s.dim),
                                               .heads = s.heads,
                                               .kv_heads = 1,
                                               .head_dim = s.dim,
                                               .scale = 1 / std::sqrt(float(s.dim))});
    for (int64_t r = 0; r < 50; ++r)
      twice[0].insert(twice[0].end(), a.row(r), a.row(r) + a.cols), twice[1].insert(twice[1].end(), b.row(r), b.row(r) + b.cols);
  });
  EXPECT_EQ(twice[0], twice[1]);
}

/// Of a tile without values the key is copied as the value too, in every format and on every instruction set.
TEST(ChosenKeys, ACopyOfAKeyAloneHasItAsItsValue) {
  constexpr int d = 24;
  const KvLayerSpec layers[] = {{.kv_heads = 1, .head_dim = d, .form = KvForm::keys}, {.kv_heads = 1, .head_dim = d}, {.kv_heads = 1, .head_dim = d}};
  const int64_t blocks[] = {1};
  for (const auto& isa : kernels::cpu::isa_candidates()) {
    if (!isa.runnable) continue;
    for (KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8, KvType::fp8}) {
      auto kv = *CpuKvCache::make(layers, blocks, 16, type);
      kernels::cpu::KvTile keys = kv->tile(0, 0, 0, 0);
      keys.v = nullptr, keys.v_scale = nullptr;
      for (int t = 0; t < 16; ++t) {
        const auto k = numbers_of(0, t, kK, d);
        isa.table->sparse.write_key[int(type)](keys, t, k.data(), d);
        isa.table->attention.write[int(type)](kv->tile(1, 0, 0, 0), 15 - t, k.data(), k.data(), d);
      }
      for (int t = 0; t < 16; ++t) isa.table->sparse.copy_token[int(type)](kv->tile(2, 0, 0, 0), 15 - t, keys, t, d);
      const auto want = kv->block_bytes(1, 0), got = kv->block_bytes(2, 0);
      EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size()), 0) << isa.isa << ", type " << int(type);
    }
  }
}

// ---- compressed keys ----------------------------------------------------------------------------------------------------------------
struct Compressing {
  int heads = 3, dim = 16, index_heads = 6, index_dim = 8;
  int ratio = 4, series = 2;
  int64_t top = 5, window = 10;
  bool chosen = true;
  std::vector<KvLayerSpec> layers() const {
    const int floats = 2 * series * (dim + index_dim);
    return {{.kv_heads = 1, .head_dim = dim, .form = KvForm::rows},
            {.kv_heads = 1, .head_dim = dim, .form = KvForm::rows, .every = ratio},
            {.kv_heads = 1, .head_dim = index_dim, .form = KvForm::rows, .every = ratio},
            {.head_dim = floats, .form = KvForm::floats}};
  }
};
enum { kInputs = 11, kGates, kIndexInputs, kIndexGates };

std::vector<float> bias_of(const Compressing& c, int dim) { return numbers_of(99, dim, 3, int64_t{c.ratio} * c.series * dim); }
std::vector<float> norm_of(int dim) {
  auto v = numbers_of(98, dim, 4, dim);
  for (float& x : v) x = 1 + 0.1f * x;
  return v;
}
Rope turning(int dim) { return {.inv_freq = {1.0f, 0.25f}, .rot = 4, .interleaved = true, .first = dim - 4}; }

Tensor attend_compressed(Feed& f, const Compressing& c) {
  const Rope rope = turning(c.dim), index_rope = turning(c.index_dim);
  const auto norm = norm_of(c.dim), index_norm = norm_of(c.index_dim), bias = bias_of(c, c.dim), index_bias = bias_of(c, c.index_dim);
  f.sparse().compress({.inputs = f.tensor(kInputs, c.series * c.dim),
                       .gates = f.tensor(kGates, c.series * c.dim),
                       .bias = bias,
                       .norm = Norm{norm, 1e-6f},
                       .rope = &rope,
                       .ratio = c.ratio,
                       .series = c.series,
                       .dim = c.dim,
                       .kept = 3,
                       .offset = 0,
                       .entries = 1});
  if (c.chosen) {
    f.sparse().compress({.inputs = f.tensor(kIndexInputs, c.series * c.index_dim),
                         .gates = f.tensor(kIndexGates, c.series * c.index_dim),
                         .bias = index_bias,
                         .norm = Norm{index_norm, 1e-6f},
                         .rope = &index_rope,
                         .ratio = c.ratio,
                         .series = c.series,
                         .dim = c.index_dim,
                         .kept = 3,
                         .offset = 2 * c.series * c.dim,
                         .entries = 2});
    f.sparse().choose_keys({.q = f.tensor(kIndexQ, c.index_heads * c.index_dim),
                            .weights = f.tensor(kIndexW, c.index_heads),
                            .layer = 2,
                            .heads = c.index_heads,
                            .dim = c.index_dim,
                            .scale = 0.25f,
                            .top = c.top});
  }
  return f.sparse().attend_compressed({.q = f.tensor(kQ, c.heads * c.dim),
                                       .kv = f.tensor(kK, c.dim),
                                       .heads = c.heads,
                                       .dim = c.dim,
                                       .scale = 0.25f,
                                       .sinks = std::span(kSinks).first(size_t(c.heads)),
                                       .recent = 0,
                                       .window = c.window,
                                       .entries = 1,
                                       .chosen = c.chosen});
}

/// Entry w of sequence 0 in double precision.
std::vector<double> entry(const Compressing& c, int64_t w, int dim, int inputs, int gates) {
  const auto bias = bias_of(c, dim), norm = norm_of(dim);
  std::vector<double> out(size_t(dim), 0.0);
  double squares = 0;
  for (int j = 0; j < dim; ++j) {
    double sum = 0;
    for (int64_t t = std::max<int64_t>(0, (w - c.series + 1) * c.ratio); t < (w + 1) * c.ratio; ++t) {
      const int at = (t / c.ratio == w ? c.series - 1 : 0) * dim + j;
      const double g =
          std::exp(double(numbers_of(0, t, gates, c.series * dim)[size_t(at)]) + double(bias[size_t(t % c.ratio * c.series * dim + at)]));
      sum += g;
      out[size_t(j)] += g * double(numbers_of(0, t, inputs, c.series * dim)[size_t(at)]);
    }
    out[size_t(j)] /= sum;
    squares += out[size_t(j)] * out[size_t(j)];
  }
  for (int j = 0; j < dim; ++j) out[size_t(j)] *= double(norm[size_t(j)]) / std::sqrt(squares / dim + 1e-6);
  for (int i = 0; i < 2; ++i) {
    double &a = out[size_t(dim - 4 + 2 * i)], &b = out[size_t(dim - 3 + 2 * i)];
    const double angle = double(w * c.ratio) * (i ? 0.25 : 1.0), x = a * std::cos(angle) - b * std::sin(angle);
    b = b * std::cos(angle) + a * std::sin(angle), a = x;
  }
  return out;
}

double compare(const Compressing& c, const std::vector<float>& got, int64_t length, int& compared) {
  double worst = 0;
  std::vector<std::vector<double>> entries, index;
  for (int64_t w = 0; w < length / c.ratio; ++w)
    entries.push_back(entry(c, w, c.dim, kInputs, kGates)), index.push_back(entry(c, w, c.index_dim, kIndexInputs, kIndexGates));
  for (int64_t p = 0; p < length; ++p) {
    std::vector<std::vector<double>> keys;
    for (int64_t t = std::max<int64_t>(0, p - c.window + 1); t <= p; ++t) {
      const auto k = numbers_of(0, t, kK, c.dim);
      keys.emplace_back(k.begin(), k.end());
    }
    const auto iq = numbers_of(0, p, kIndexQ, c.index_heads * c.index_dim), iw = numbers_of(0, p, kIndexW, c.index_heads);
    std::vector<std::pair<double, int64_t>> scores;
    for (int64_t w = 0; w < (p + 1) / c.ratio; ++w) {
      double score = 0;
      for (int h = 0; h < c.index_heads; ++h) {
        double x = 0;
        for (int j = 0; j < c.index_dim; ++j) x += double(iq[size_t(h * c.index_dim + j)]) * index[size_t(w)][size_t(j)];
        score += double(iw[size_t(h)]) * std::max(0.0, 0.25 * x);
      }
      scores.push_back({-score, w});
    }
    std::sort(scores.begin(), scores.end());
    if (c.chosen && int64_t(scores.size()) > c.top) {
      if (scores[size_t(c.top)].first - scores[size_t(c.top) - 1].first < 1e-5) continue;
      scores.resize(size_t(c.top));
    }
    for (const auto& s : scores) keys.push_back(entries[size_t(s.second)]);
    ++compared;
    const auto q = numbers_of(0, p, kQ, c.heads * c.dim);
    for (int h = 0; h < c.heads; ++h) {
      std::vector<double> out(size_t(c.dim), 0.0);
      double sum = std::exp(double(kSinks[size_t(h)]));
      for (const auto& k : keys) {
        double x = 0;
        for (int j = 0; j < c.dim; ++j) x += double(q[size_t(h * c.dim + j)]) * k[size_t(j)];
        const double e = std::exp(0.25 * x);
        sum += e;
        for (int j = 0; j < c.dim; ++j) out[size_t(j)] += e * k[size_t(j)];
      }
      for (int j = 0; j < c.dim; ++j) worst = std::max(worst, std::abs(out[size_t(j)] / sum - double(got[size_t((p * c.heads + h) * c.dim + j)])));
    }
  }
  return worst;
}

const Compressing kCompressing[] = {{},
                                    {.heads = 13, .dim = 24, .ratio = 32, .series = 1, .window = 16, .chosen = false},
                                    {.ratio = 8, .series = 1, .top = 2, .window = 1},
                                    {.ratio = 2, .top = 100, .window = 40}};

TEST(CompressedKeys, AgreeWithDoublePrecision) {
  constexpr int64_t kLength = 100;
  for (const Compressing& c : kCompressing) {
    const auto got = fed(c.layers(), 1, KvType::f32, kFeedWays[0], kLength, [&](Feed& f) { return attend_compressed(f, c); });
    int compared = 0;
    EXPECT_LT(compare(c, got, kLength, compared), 2e-5) << "ratio " << c.ratio;
    EXPECT_GT(compared, kLength * 9 / 10);
  }
}

TEST(CompressedKeys, TheSameBitsHoweverThePromptRuns) {
  for (const Compressing& c : kCompressing) {
    SCOPED_TRACE("ratio " + std::to_string(c.ratio));
    expect_same_bits(c.layers(), 110, [&](Feed& f) { return attend_compressed(f, c); });
  }
}

// ---- clamped activations, residual streams -----------------------------------------------------------------------------------------
TEST(ClampedActivation, ClampsBeforeItActivates) {
  auto ops = *make_cpu_ops({.threads = 1, .pin = false});
  const int32_t tokens[] = {0}, positions[] = {0}, start[] = {0, 1}, context[] = {1};
  ops->begin({.tokens = tokens, .positions = positions, .query_start = start, .context_len = context}, nullptr);
  const float gates[] = {-9, -1, 0.5f, 3, 8}, ups[] = {-7, 1, 0.25f, -0.5f, 9};
  for (float alpha : {0.0f, 1.7f}) {
    const Tensor gate = ops->empty(1, 5), up = ops->empty(1, 5);
    std::copy_n(gates, 5, gate.row(0)), std::copy_n(ups, 5, up.row(0));
    const Tensor out = ops->sparse()->clamped_act_mul(gate, up, Activation::silu, 2.0f, alpha);
    for (int i = 0; i < 5; ++i) {
      const double g = std::min(double(gates[i]), 2.0), u = std::clamp(double(ups[i]), -2.0, 2.0), a = alpha > 0 ? double(alpha) : 1;
      EXPECT_NEAR(out.row(0)[i], g / (1 + std::exp(-a * g)) * (alpha > 0 ? u + 1 : u), 1e-5) << alpha << " " << i;
    }
  }
}

TEST(ResidualStreams, AgreeWithDoublePrecision) {
  constexpr int n = 3, d = 10, width = n * d, all = (2 + n) * n;
  auto ops = *make_cpu_ops({.threads = 1, .pin = false});
  const int32_t tokens[] = {0, 0}, positions[] = {0, 1}, start[] = {0, 2}, context[] = {2};
  ops->begin({.tokens = tokens, .positions = positions, .query_start = start, .context_len = context}, nullptr);
  const auto fn = numbers_of(1, 1, 1, all * width), base = numbers_of(1, 2, 1, all);
  Streams s{.base = base, .scale = {0.7f, 1.1f, 0.9f}, .streams = n, .iterations = 4, .eps = 1e-3f, .norm_eps = 1e-5f};
  s.mix.w = *ops->pack({.dtype = tensor::DType::f32, .data = fn.data(), .bytes = fn.size() * 4, .shape = {all, width}, .rank = 2});
  const Tensor x = ops->empty(2, width), y = ops->empty(2, d);
  for (int64_t r = 0; r < 2; ++r) {
    const auto a = numbers_of(2, r, 1, width), b = numbers_of(2, r, 2, d);
    std::copy(a.begin(), a.end(), x.row(r)), std::copy(b.begin(), b.end(), y.row(r));
  }
  const StreamStep step = ops->sparse()->enter(x, s);
  ops->sparse()->leave(x, step, y);
  for (int64_t r = 0; r < 2; ++r) {
    const auto a = numbers_of(2, r, 1, width), b = numbers_of(2, r, 2, d);
    double squares = 0, w[all];
    for (float v : a) squares += double(v) * double(v);
    for (int i = 0; i < all; ++i) {
      double v = 0;
      for (int j = 0; j < width; ++j) v += double(fn[size_t(i * width + j)]) * double(a[size_t(j)]) / std::sqrt(squares / width + 1e-5);
      w[i] = v * double(s.scale[i < n ? 0 : i < 2 * n ? 1 : 2]) + double(base[size_t(i)]);
    }
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    double m[n][n];
    for (int i = 0; i < n; ++i) {
      double sum = 0;
      for (int j = 0; j < n; ++j) sum += m[i][j] = std::exp(w[2 * n + i * n + j]);
      for (int j = 0; j < n; ++j) m[i][j] = m[i][j] / sum + 1e-3;
    }
    const auto balance = [&](bool rows) {
      for (int i = 0; i < n; ++i) {
        double sum = 1e-3;
        for (int j = 0; j < n; ++j) sum += rows ? m[i][j] : m[j][i];
        for (int j = 0; j < n; ++j) (rows ? m[i][j] : m[j][i]) /= sum;
      }
    };
    balance(false);
    for (int t = 1; t < 4; ++t) balance(true), balance(false);
    for (int i = 0; i < d; ++i) {
      double read = 0;
      for (int k = 0; k < n; ++k) read += (sigmoid(w[k]) + 1e-3) * double(a[size_t(k * d + i)]);
      EXPECT_NEAR(step.x.row(r)[i], read, 1e-5);
      for (int k = 0; k < n; ++k) {
        double want = 2 * sigmoid(w[n + k]) * double(b[size_t(i)]);
        for (int j = 0; j < n; ++j) want += m[j][k] * double(a[size_t(j * d + i)]);
        EXPECT_NEAR(x.row(r)[k * d + i], want, 1e-5) << k << " " << i;
      }
    }
  }
}

TEST(ResidualStreams, SpreadAndJoin) {
  auto ops = *make_cpu_ops({.threads = 1, .pin = false});
  const int32_t tokens[] = {0}, positions[] = {0}, start[] = {0, 1}, context[] = {1};
  ops->begin({.tokens = tokens, .positions = positions, .query_start = start, .context_len = context}, nullptr);
  const Tensor x = ops->empty(1, 3);
  std::copy_n((const float[]){1, -2, 3}, 3, x.row(0));
  const Tensor streams = ops->sparse()->spread(x, 2);
  EXPECT_EQ(std::vector<float>(streams.row(0), streams.row(0) + 6), (std::vector<float>{1, -2, 3, 1, -2, 3}));
  const std::vector<float> fn(12, 0.0f);
  Streams s{.base = {0, 2}, .scale = {1}, .streams = 2, .iterations = 1, .eps = 0.5f, .norm_eps = 1e-6f};
  s.mix.w = *ops->pack({.dtype = tensor::DType::f32, .data = fn.data(), .bytes = 48, .shape = {2, 6}, .rank = 2});
  const Tensor y = ops->sparse()->join(streams, s);
  const double weight = 0.5 + 0.5 + 1 / (1 + std::exp(-2.0)) + 0.5;
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(y.row(0)[i], weight * double(x.row(0)[i]), 1e-5);
}

/// Streams of every kind: those with a matrix, those that are not mixed, those of low rank.
struct StreamKind {
  const char* name;
  int iterations, rank;
};
constexpr StreamKind kStreamKinds[] = {{"mixed", 3, 0}, {"apart", 0, 0}, {"low rank", 0, 5}};

Linear packed(Ops& o, const std::vector<float>& v, int64_t n, int64_t k) {
  Linear l;
  l.w = *o.pack({.dtype = tensor::DType::f32, .data = v.data(), .bytes = v.size() * 4, .shape = {n, k}, .rank = 2});
  return l;
}

Streams streams_of(Ops& o, const StreamKind& kind, int n, int d, bool final) {
  const int width = n * d, rows = final || kind.rank ? n : kind.iterations ? (2 + n) * n : 2 * n;
  Streams s{.streams = n, .iterations = kind.iterations, .eps = 1e-3f, .norm_eps = 1e-5f, .magnitude = 1.5f, .added_eps = 0.25f};
  if (!(final && kind.rank)) s.mix = packed(o, numbers_of(1, 1, 1, int64_t{rows} * width), rows, width);
  if (kind.rank) {
    s.down = packed(o, numbers_of(1, 3, 1, int64_t{kind.rank} * width), kind.rank, width);
    s.up = packed(o, numbers_of(1, 4, 1, int64_t{kind.rank} * width), width, kind.rank);
    s.norm = numbers_of(1, 5, 1, width);
    return s;
  }
  s.base = numbers_of(1, 2, 1, rows);
  s.scale = final ? std::vector<float>{0.8f} : kind.iterations ? std::vector<float>{0.7f, 1.1f, 0.9f} : std::vector<float>{0.7f, 1.1f};
  return s;
}

/// What a step of tokens makes of streams: enter, leave, join, one after the other.
std::vector<float> through_streams(const StreamKind& kind, const CpuOpsOptions& options, std::vector<int32_t> starts) {
  constexpr int n = 3, d = 10;
  auto ops = *make_cpu_ops(options);
  const int64_t T = starts.back();
  std::vector<int32_t> tokens(size_t(T), 0), positions, context;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    for (int32_t i = starts[s]; i < starts[s + 1]; ++i) positions.push_back(i - starts[s]);
    context.push_back(starts[s + 1] - starts[s]);
  }
  ops->begin({.tokens = tokens, .positions = positions, .query_start = starts, .context_len = context}, nullptr);
  const Streams around = streams_of(*ops, kind, n, d, false), final = streams_of(*ops, kind, n, d, true);
  const Tensor x = ops->empty(T, n * d), y = ops->empty(T, d);
  for (int64_t r = 0; r < T; ++r) {
    const auto a = numbers_of(2, r, 1, n * d), b = numbers_of(2, r, 2, d);
    std::copy(a.begin(), a.end(), x.row(r)), std::copy(b.begin(), b.end(), y.row(r));
  }
  const StreamStep step = ops->sparse()->enter(x, around);
  ops->sparse()->leave(x, step, y);
  const Tensor joined = ops->sparse()->join(x, final);
  std::vector<float> out;
  for (const Tensor& t : {step.x, x, joined})
    for (int64_t r = 0; r < T; ++r) out.insert(out.end(), t.row(r), t.row(r) + t.cols);
  return out;
}

TEST(ResidualStreams, JoinedApartAndBySequenceAreTheSame) {
  for (const StreamKind& kind : kStreamKinds) {
    SCOPED_TRACE(kind.name);
    const std::vector<int32_t> starts = {0, 1, 20, 21, 300};
    const auto want = through_streams(kind, {.threads = 1, .pin = false}, starts);
    for (const SparseTuning& tuning : {SparseTuning{}, SparseTuning{.streams_apart = true}, SparseTuning{.streams_by_sequence = true}})
      for (int threads : {1, 3}) EXPECT_EQ(through_streams(kind, {.threads = threads, .pin = false, .sparse = tuning}, starts), want);
  }
}

TEST(ResidualStreams, OfLowRankAndUnmixedAgreeWithDoublePrecision) {
  constexpr int n = 3, d = 10, width = n * d;
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto x = numbers_of(2, 0, 1, width), y = numbers_of(2, 0, 2, d);
  for (const StreamKind& kind : {kStreamKinds[1], kStreamKinds[2]}) {
    SCOPED_TRACE(kind.name);
    auto ops = *make_cpu_ops({.threads = 1, .pin = false});
    const Streams s = streams_of(*ops, kind, n, d, false);
    const auto got = through_streams(kind, {.threads = 1, .pin = false}, {0, 1});
    const auto mix = numbers_of(1, 1, 1, int64_t{kind.rank ? n : 2 * n} * width);
    double normed[width], squares[n] = {}, all = 0;
    for (int i = 0; i < width; ++i) squares[i / d] += double(x[size_t(i)]) * double(x[size_t(i)]), all += double(x[size_t(i)]) * double(x[size_t(i)]);
    for (int i = 0; i < width; ++i)
      normed[i] = double(x[size_t(i)]) / std::sqrt((kind.rank ? squares[i / d] / d : all / width) + 1e-5) * (kind.rank ? double(s.norm[size_t(i)]) : 1);
    const auto number = [&](int row) {
      double v = 0;
      for (int i = 0; i < width; ++i) v += double(mix[size_t(row * width + i)]) * normed[i];
      return v;
    };
    double read[d] = {}, added[n];
    if (kind.rank) {
      const auto down = numbers_of(1, 3, 1, int64_t{kind.rank} * width), up = numbers_of(1, 4, 1, int64_t{kind.rank} * width);
      std::vector<double> low;
      for (int r = 0; r < kind.rank; ++r) {
        double v = 0;
        for (int i = 0; i < width; ++i) v += double(down[size_t(r * width + i)]) * normed[i];
        low.push_back(v / n * sigmoid(v / n));
      }
      for (int i = 0; i < width; ++i) {
        double v = 0;
        for (int r = 0; r < kind.rank; ++r) v += double(up[size_t(i * kind.rank + r)]) * low[size_t(r)];
        read[i % d] += sigmoid(v) * normed[i] / n;
      }
      for (int k = 0; k < n; ++k) added[k] = 2 * sigmoid(number(k) / n);
    } else {
      for (int i = 0; i < width; ++i) read[i % d] += (sigmoid(number(i / d) * 0.7 + double(s.base[size_t(i / d)])) + 1e-3) * double(x[size_t(i)]);
      for (int k = 0; k < n; ++k) added[k] = 1.5 * sigmoid(number(n + k) * 1.1 + double(s.base[size_t(n + k)])) + 0.25;
    }
    for (int i = 0; i < d; ++i) EXPECT_NEAR(got[size_t(i)], read[i], 2e-5);
    for (int i = 0; i < width; ++i) EXPECT_NEAR(got[size_t(d + i)], double(x[size_t(i)]) + added[i / d] * double(y[size_t(i % d)]), 2e-5);
  }
}

TEST(ResidualStreams, WithoutAMixtureTheMeanComesOut) {
  auto ops = *make_cpu_ops({.threads = 1, .pin = false});
  const int32_t tokens[] = {0}, positions[] = {0}, start[] = {0, 1}, context[] = {1};
  ops->begin({.tokens = tokens, .positions = positions, .query_start = start, .context_len = context}, nullptr);
  const Tensor x = ops->empty(1, 6);
  std::copy_n((const float[]){1, -2, 3, 5, 4, -3}, 6, x.row(0));
  const Tensor y = ops->sparse()->join(x, {.streams = 2, .iterations = 4});
  EXPECT_EQ(std::vector<float>(y.row(0), y.row(0) + 3), (std::vector<float>{3, 1, 0}));
}

}  // namespace
}  // namespace isotope::ops
