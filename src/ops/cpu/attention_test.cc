// Attention against a double-precision reference, and contract 1 bit for bit: the same prompt gives the same numbers however it is cut, with whom it
// shares a batch, on how many threads and in which blocks it lies.
#include "ops/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "kernels/cpu/pick.h"
#include "ops/cpu/kv_cache.h"
#include "ops/ops.h"

namespace isotope::ops {
namespace {

struct Shape {
  int heads = 4, kv_heads = 2, dim = 16;
  int64_t window = 0;
  float softcap = 0;
  bool sinks = false;
  KvType type = KvType::bf16;
  int block_size = 16;
  bool chunked = false;
  int64_t first(int64_t p) const { return window <= 0 ? 0 : chunked ? p - p % window : std::max<int64_t>(0, p - window + 1); }
  int value_dim = 0;  ///< of latent attention
  int values() const { return value_dim ? value_dim : dim; }
};

/// One sequence's queries, keys and values, made from its seed alone.
struct Sequence {
  int64_t length;
  std::vector<float> q, k, v;  ///< [length][heads or kv_heads][dim]
  Sequence(const Shape& s, int64_t n, unsigned seed) : length(n) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    q.resize(size_t(n * s.heads * s.dim));
    k.resize(size_t(n * s.kv_heads * s.dim));
    v.resize(k.size());
    for (auto* x : {&q, &k, &v}) {
      for (float& f : *x) f = normal(rng);
    }
  }
};

/// Feeds several sequences chunk by chunk through an Ops of its own and collects the outputs.
class Runner {
 public:
  Runner(const Shape& s, int threads, std::string isa = "", CpuTuning tuning = {}) : s_(s) {
    ops_ = *make_cpu_ops({.threads = threads, .isa = std::move(isa), .pin = false, .tuning = tuning});
    sinks_ = {0.5f, -1.0f, 2.0f, 0.0f, 1.5f, -0.25f, 3.0f, 0.125f, 0.0f};
    sinks_.resize(size_t(s.heads));
    const KvLayerSpec layer{.group = 0, .kv_heads = s.kv_heads, .head_dim = s.dim, .value_dim = s.value_dim}, layers[] = {layer, layer};
    const int64_t blocks[] = {kBlocks};
    kv_ = *ops_->make_kv(layers, blocks, s.block_size, s.type);
    for (int32_t b = 0; b < kBlocks; ++b) std::memset(kv_->block_bytes(1, b).data(), 0xff, kv_->block_bytes(1, b).size());  // NaN in every format but int8
    free_.resize(kBlocks);
    std::iota(free_.begin(), free_.end(), 0);
  }
  Runner& shuffled(unsigned seed) {
    std::shuffle(free_.begin(), free_.end(), std::mt19937(seed));
    return *this;
  }
  Runner& freeing_windows() { return free_windows_ = true, *this; }

  int add(const Sequence& seq) {
    live_.push_back({&seq, 0, {}, std::vector<float>(size_t(seq.length * s_.heads * s_.values()), NAN)});
    return int(live_.size()) - 1;
  }
  const std::vector<float>& out(int id) const { return live_[size_t(id)].out; }
  int64_t left(int id) const { return live_[size_t(id)].seq->length - live_[size_t(id)].done; }

  /// One step: {sequence id, tokens} for each participant.
  void step(const std::vector<std::pair<int, int64_t>>& parts) {
    std::vector<int32_t> tokens, positions, start{0}, context, slots, table;
    const int64_t stride = kBlocks;
    for (const auto& [id, n] : parts) {
      Live& l = live_[size_t(id)];
      for (int64_t p = l.done; p < l.done + n; ++p) {
        if (p / s_.block_size >= int64_t(l.blocks.size())) l.blocks.push_back(take());
        positions.push_back(int32_t(p));
        slots.push_back(l.blocks[size_t(p / s_.block_size)] * s_.block_size + int32_t(p % s_.block_size));
        tokens.push_back(0);
      }
      if (free_windows_ && s_.window > 0) {  // blocks that the first query of this step can no longer see
        for (int64_t b = 0; (b + 1) * s_.block_size <= s_.first(l.done); ++b) {
          if (l.blocks[size_t(b)] >= 0) free_.push_back(l.blocks[size_t(b)]);
          l.blocks[size_t(b)] = -1;
        }
      }
      start.push_back(int32_t(tokens.size()));
      context.push_back(int32_t(l.done + n));
      std::vector<int32_t> row = l.blocks;
      row.resize(size_t(stride), -1);
      table.insert(table.end(), row.begin(), row.end());
    }
    const Batch::Group groups[] = {{table.data(), stride, slots}};
    const Batch batch{.tokens = tokens, .positions = positions, .query_start = start, .context_len = context, .groups = groups};
    ops_->begin(batch, kv_.get());
    const int64_t T = batch.T();
    Tensor q = ops_->empty(T, s_.heads * s_.dim), k = ops_->empty(T, s_.kv_heads * s_.dim), v = s_.value_dim ? Tensor{} : ops_->empty(T, s_.kv_heads * s_.dim);
    int64_t r = 0;
    for (const auto& [id, n] : parts) {
      const Live& l = live_[size_t(id)];
      for (int64_t p = l.done; p < l.done + n; ++p, ++r) {
        std::copy_n(&l.seq->q[size_t(p * q.cols)], q.cols, q.row(r));
        std::copy_n(&l.seq->k[size_t(p * k.cols)], k.cols, k.row(r));
        if (v) std::copy_n(&l.seq->v[size_t(p * v.cols)], v.cols, v.row(r));
      }
    }
    const Tensor o = ops_->attention({.q = q, .k = k, .v = v, .layer = 1, .heads = s_.heads, .kv_heads = s_.kv_heads, .head_dim = s_.dim,
                                      .scale = 1.0f / std::sqrt(float(s_.dim)), .softcap = s_.softcap, .window = s_.window, .chunked = s_.chunked,
                                      .sinks = s_.sinks ? std::span<const float>(sinks_) : std::span<const float>(), .value_dim = s_.value_dim});
    r = 0;
    for (const auto& [id, n] : parts) {
      Live& l = live_[size_t(id)];
      for (int64_t p = l.done; p < l.done + n; ++p, ++r) std::copy_n(o.row(r), o.cols, &l.out[size_t(p * o.cols)]);
      l.done += n;
    }
  }

  /// Runs a sequence alone in chunks of n.
  const std::vector<float>& alone(const Sequence& seq, int64_t n) {
    const int id = add(seq);
    while (left(id) > 0) step({{id, std::min(n, left(id))}});
    return out(id);
  }

  const std::vector<float>& sinks() const { return sinks_; }

 private:
  static constexpr int32_t kBlocks = 256;
  struct Live {
    const Sequence* seq;
    int64_t done;
    std::vector<int32_t> blocks;
    std::vector<float> out;
  };
  int32_t take() {
    const int32_t b = free_.back();
    free_.pop_back();
    return b;
  }

  Shape s_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<KvCache> kv_;
  std::vector<float> sinks_;
  std::vector<int32_t> free_;
  std::vector<Live> live_;
  bool free_windows_ = false;
};

std::vector<double> reference(const Shape& s, const Sequence& q, const std::vector<float>& sinks) {
  const int dv = s.values();
  std::vector<double> out(size_t(q.length * s.heads * dv));
  const int group = s.heads / s.kv_heads;
  for (int64_t p = 0; p < q.length; ++p) {
    for (int h = 0; h < s.heads; ++h) {
      const float* query = &q.q[size_t((p * s.heads + h) * s.dim)];
      auto part = [&](const std::vector<float>& x, int64_t t) { return &x[size_t((t * s.kv_heads + h / group) * s.dim)]; };
      const int64_t first = s.first(p);
      std::vector<double> w;
      double top = s.sinks ? double(sinks[size_t(h)]) : -INFINITY;
      for (int64_t t = first; t <= p; ++t) {
        double x = 0;
        for (int j = 0; j < s.dim; ++j) x += double(query[j]) * double(part(q.k, t)[j]);
        x /= std::sqrt(double(s.dim));
        if (s.softcap > 0) x = s.softcap * std::tanh(x / s.softcap);
        w.push_back(x);
        top = std::max(top, x);
      }
      double sum = s.sinks ? std::exp(double(sinks[size_t(h)]) - top) : 0;
      for (double& x : w) sum += x = std::exp(x - top);
      for (int64_t t = first; t <= p; ++t) {
        const float* value = s.value_dim ? part(q.k, t) + s.dim - dv : part(q.v, t);
        for (int j = 0; j < dv; ++j) out[size_t((p * s.heads + h) * dv + j)] += w[size_t(t - first)] / sum * double(value[j]);
      }
    }
  }
  return out;
}

double tolerance(KvType t) {
  switch (t) {
    case KvType::f32: return 3e-6;
    case KvType::f16: return 3e-3;
    case KvType::bf16: return 2e-2;
    case KvType::int8: return 4e-2;
    case KvType::fp8: return 2.5e-1;
  }
  return 0;
}

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  for (KvType t : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8, KvType::fp8}) out.push_back({.type = t});
  for (int d : {8, 24, 64, 80, 96, 128, 256, 512}) out.push_back({.heads = 3, .kv_heads = 1, .dim = d, .type = KvType::f32});
  for (int h : {1, 2, 5, 7, 8, 9, 12, 13, 16}) out.push_back({.heads = h, .kv_heads = 1, .dim = 8, .type = KvType::f32});
  for (int64_t w : {1, 5, 16, 64, 65, 100}) out.push_back({.heads = 3, .kv_heads = 3, .dim = 8, .window = w, .type = KvType::f32});
  for (int64_t w : {1, 7, 32, 100, 256}) out.push_back({.heads = 3, .kv_heads = 1, .dim = 8, .window = w, .type = KvType::bf16, .chunked = true});
  for (int b : {32, 64, 128}) out.push_back({.window = 50, .type = KvType::int8, .block_size = b});
  out.push_back({.softcap = 5, .type = KvType::f32});
  out.push_back({.window = 70, .softcap = 30, .sinks = true, .type = KvType::f32});
  out.push_back({.heads = 9, .kv_heads = 3, .dim = 64, .type = KvType::bf16});
  for (KvType t : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8, KvType::fp8}) out.push_back({.heads = 20, .kv_heads = 1, .dim = 48, .type = t, .value_dim = 40});
  for (int h : {1, 3, 16, 70}) out.push_back({.heads = h, .kv_heads = 1, .dim = 24, .type = KvType::bf16, .value_dim = 16});
  for (int v : {2, 18, 56, 64}) out.push_back({.heads = 5, .kv_heads = 1, .dim = 64, .type = v == 18 ? KvType::f32 : KvType::bf16, .value_dim = v});
  out.push_back({.heads = 8, .kv_heads = 2, .dim = 32, .window = 70, .softcap = 30, .sinks = true, .type = KvType::bf16, .block_size = 32, .value_dim = 24});
  return out;
}

std::string name(const testing::TestParamInfo<Shape>& i) {
  const Shape& s = i.param;
  const char* types[] = {"f32", "f16", "bf16", "int8", "fp8"};
  return std::to_string(i.index) + "_h" + std::to_string(s.heads) + "_k" + std::to_string(s.kv_heads) + "_d" + std::to_string(s.dim) + "_w" +
         std::to_string(s.window) + "_b" + std::to_string(s.block_size) + (s.value_dim ? "_v" + std::to_string(s.value_dim) : "") +
         (s.softcap > 0 ? "_cap" : "") + (s.chunked ? "_chunked" : "") + (s.sinks ? "_sinks_" : "_") + types[int(s.type)];
}

class AttentionShapes : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(All, AttentionShapes, testing::ValuesIn(shapes()), name);

#define EXPECT_SAME_BITS(a, b) EXPECT_EQ(0, std::memcmp((a).data(), (b).data(), (a).size() * sizeof(float)))

/// Tokens that reach into a second segment, or at least into a second chunk where the heads are wide.
int64_t far(const Shape& s) { return s.heads * s.dim > 256 ? kernels::cpu::kChunk + 14 : kernels::cpu::kSegment + 60; }

TEST_P(AttentionShapes, MatchesTheReference) {
  const Shape& s = GetParam();
  const Sequence seq(s, far(s), 1);
  Runner run(s, 1);
  const auto& out = run.alone(seq, seq.length);
  const auto expected = reference(s, seq, run.sinks());
  double worst = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_TRUE(std::isfinite(out[i])) << i;
    worst = std::max(worst, std::abs(double(out[i]) - expected[i]));
  }
  EXPECT_LT(worst, tolerance(s.type));
}

TEST_P(AttentionShapes, ChunksDoNotMatter) {
  const Shape& s = GetParam();
  const Sequence seq(s, far(s), 2);
  Runner whole(s, 1);
  const auto& expected = whole.alone(seq, seq.length);
  for (int64_t n : {1, 7, 16, 33, 64, 150, 300}) {
    Runner run(s, 1);
    EXPECT_SAME_BITS(run.alone(seq, n), expected) << "chunks of " << n;
  }
}

TEST_P(AttentionShapes, NeighboursThreadsAndBlocksDoNotMatter) {
  const Shape& s = GetParam();
  const Sequence seqs[] = {{s, 150, 3}, {s, 90, 4}, {s, far(s), 5}, {s, 1, 6}};
  std::vector<std::vector<float>> expected;
  for (const Sequence& q : seqs) {
    Runner run(s, 1);
    expected.push_back(run.alone(q, q.length));
  }
  for (int threads : {1, 2, 3}) {
    Runner run(s, threads);
    run.shuffled(unsigned(threads)).freeing_windows();
    std::vector<int> ids;
    for (const Sequence& q : seqs) ids.push_back(run.add(q));
    std::mt19937 rng(9);
    for (bool busy = true; busy;) {
      std::vector<std::pair<int, int64_t>> parts;
      for (int id : ids) {
        const int64_t n = std::min<int64_t>(run.left(id), rng() % 3 == 0 ? 1 + int64_t(rng() % 60) : 1);
        if (n > 0 && rng() % 4 != 0) parts.push_back({id, n});
      }
      if (!parts.empty()) run.step(parts);
      busy = std::any_of(ids.begin(), ids.end(), [&](int id) { return run.left(id) > 0; });
    }
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_SAME_BITS(run.out(ids[i]), expected[i]) << threads << " threads, sequence " << i;
  }
}

TEST_P(AttentionShapes, InstructionSetsAgree) {
  const Shape& s = GetParam();
  const Sequence seq(s, far(s), 7);
  Runner scalar(s, 1, "scalar");
  const auto& expected = scalar.alone(seq, 150);
  for (const auto& isa : kernels::cpu::isa_candidates()) {
    if (!isa.runnable) continue;
    Runner run(s, 1, std::string(isa.isa));
    EXPECT_SAME_BITS(run.alone(seq, seq.length), expected) << isa.isa;
  }
}

/// What two copies of the vectors gave: the keys as values, of which the results' first part is nobody's.
TEST(Attention, LatentValuesGiveTheBitsOfKeysAsValues) {
  for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8, KvType::fp8}) {
    for (const int heads : {2, 16, 29, 66}) {
      const Shape latent{.heads = heads, .kv_heads = 1, .dim = 72, .type = type, .value_dim = 62};
      Shape twice = latent;
      twice.value_dim = 0;
      Sequence seq(twice, 300, 4);
      seq.v = seq.k;
      Runner a(twice, 1), b(latent, 2);
      const auto &want = a.alone(seq, 300), &got = b.alone(seq, 41);
      for (size_t row = 0; row < got.size() / 62; ++row)
        ASSERT_EQ(0, std::memcmp(&got[row * 62], &want[row * 72 + 10], 62 * sizeof(float))) << heads << " heads, row " << row;
    }
  }
}

// A pair of tokens that a row sees half of: a window that begins, or a context that ends, in its middle. The other half is NaN.
TEST(Attention, HalfSeenPairsGiveTheSameBitsOnEveryInstructionSet) {
  for (const int64_t window : {0, 1, 2, 3, 33}) {
    const Shape s{.heads = 6, .kv_heads = 2, .dim = 24, .window = window, .type = KvType::bf16};
    Sequence seq(s, 530, 9);
    for (size_t i = 0; i < seq.q.size() / 2; ++i) seq.q[i] *= 60;  // weights down to where float32 ends
    Runner scalar(s, 1, "scalar");
    const auto expected = scalar.alone(seq, 1);
    for (const float x : expected) ASSERT_TRUE(std::isfinite(x));
    for (const auto& isa : kernels::cpu::isa_candidates()) {
      if (!isa.runnable) continue;
      for (const int64_t chunk : {1, 7, 530}) {
        for (const int64_t alone : {int64_t{0}, int64_t{1} << 40}) {
          Runner r(s, 2, std::string(isa.isa), {.attention_alone = alone});
          EXPECT_SAME_BITS(r.alone(seq, chunk), expected) << isa.isa << ", window " << window << ", chunks of " << chunk;
        }
      }
    }
  }
}

/// Long enough that one sequence is split over the team.
TEST(Attention, SplitContextsGiveTheSameBits) {
  for (const auto& [window, value_dim] : {std::pair{0, 0}, {1000, 0}, {0, 192}}) {
    const Shape s{.heads = 4, .kv_heads = 1, .dim = 256, .window = window, .type = KvType::bf16, .value_dim = value_dim};
    const Sequence seq(s, 2100, 8);
    Runner one(s, 1);
    const auto& expected = one.alone(seq, 2100);
    for (int threads : {2, 3}) {
      Runner run(s, threads);
      const int id = run.add(seq);
      run.step({{id, 2060}});
      while (run.left(id) > 0) run.step({{id, std::min<int64_t>(run.left(id), 1 + run.left(id) % 3)}});
      EXPECT_SAME_BITS(run.out(id), expected) << threads << " threads, window " << window;
    }
  }
}

}  // namespace
}  // namespace isotope::ops
