// Joined ops against the same ops one after the other, bit for bit: every instruction set, formats with and without integer kernels, row counts around the
// panels, sizes that are no whole blocks, team sizes, every KV type.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/cpu/pick.h"
#include "ops/cpu/weight_samples.h"
#include "ops/ops.h"

namespace isotope::ops {
namespace {

using samples::DType;

constexpr Fusions kNone{.norm_quantize = false, .act_quantize = false, .qk_norm_rope_cache = false};
constexpr Fusions kAll{.norm_quantize = true, .act_quantize = true, .qk_norm_rope_cache = true};

struct Device {
  std::string isa;
  int threads;
};

std::vector<Device> devices() {
  std::vector<Device> all;
  for (const auto& s : kernels::cpu::isa_candidates())
    if (s.runnable)
      for (const int threads : {1, 2, 3}) all.push_back({std::string(s.isa), threads});
  return all;
}

std::unique_ptr<Ops> make(const Device& d, Fusions fusions, bool bf16_norms = false) {
  // Everything is worth the team's while, so that small shapes are cut as well.
  return *make_cpu_ops({.threads = d.threads, .isa = d.isa, .pin = false, .tuning = {.linear_alone = 0, .pass_bytes = 4096, .attention_alone = 0},
                        .fusions = fusions, .bf16_norms = bf16_norms});
}

std::vector<float> normal(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> d;
  std::vector<float> r(static_cast<size_t>(n));
  for (float& x : r) x = d(rng) * (rng() % 61 == 0 ? 30.0f : 1.0f);
  return r;
}

Tensor tensor_of(Ops& o, int64_t rows, int64_t cols, unsigned seed) {
  const Tensor t = o.empty(rows, cols);
  const auto data = normal(rows * cols, seed);
  for (int64_t r = 0; r < rows; ++r) std::memcpy(t.row(r), &data[size_t(r * cols)], size_t(cols) * 4);
  return t;
}

void append(std::vector<float>& out, Tensor t) {
  for (int64_t r = 0; r < t.rows; ++r) out.insert(out.end(), t.row(r), t.row(r) + t.cols);
}

::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " values";
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], 4) != 0) return ::testing::AssertionFailure() << "value " << i << ": " << a[i] << " and " << b[i];
  return ::testing::AssertionSuccess();
}

/// A batch of T tokens of one sequence in scattered blocks.
struct Step {
  std::vector<int32_t> tokens, positions, start, context, table, slots;
  Batch::Group group;
  Step(int64_t T, int32_t first, int block) : start{0, int32_t(T)}, context{first + int32_t(T)} {
    for (int32_t i = 0; i <= (first + T) / block; ++i) table.push_back(i * 7 % 16);
    for (int64_t t = 0; t < T; ++t) {
      const int32_t p = first + int32_t(t);
      tokens.push_back(int32_t(t)), positions.push_back(p), slots.push_back(table[size_t(p / block)] * block + p % block);
    }
    group = {table.data(), int64_t(table.size()), slots};
  }
  Batch batch() const { return {.tokens = tokens, .positions = positions, .query_start = start, .context_len = context, .groups = {&group, 1}}; }
};

Linear linear_of(Ops& o, DType type, int64_t n, int64_t k, uint32_t seed, bool bias) {
  const auto s = samples::tame(type, n, k, seed);
  return {.w = *o.pack(s.tensor), .bias = bias ? normal(n, seed + 1) : std::vector<float>()};
}

struct Formats {
  DType qkv, gate, up, down;
  int64_t D, F;
};
const Formats kFormats[] = {
    {DType::q4_1, DType::q4_1, DType::q4_1, DType::q4_1, 96, 160},
    {DType::q5_0, DType::q8_0, DType::q8_0, DType::q4_0, 64, 96},
    {DType::q4_k, DType::q4_k, DType::q4_k, DType::q6_k, 256, 512},
    {DType::q8_0, DType::q4_0, DType::q8_0, DType::q8_0, 96, 64},    // gate and up in different packs
    {DType::bf16, DType::q4_0, DType::q4_0, DType::f32, 96, 80},     // floating readers
    {DType::nvfp4, DType::f16, DType::f16, DType::q8_0, 64, 1056},
};

/// A block as models call it: adds, norms, projections, feed-forward; all results and what became of x.
std::vector<float> block(Ops& o, const Formats& f, int64_t T, const RowSource& recipe) {
  const Linear q = linear_of(o, f.qkv, 48, f.D, 1, true), k = linear_of(o, f.qkv, 19, f.D, 3, false);
  const Linear gate = linear_of(o, f.gate, f.F, f.D, 5, true), up = linear_of(o, f.up, f.F, f.D, 7, true), down = linear_of(o, f.down, f.D, f.F, 9, true);
  const Step step(T, 0, 16);
  std::vector<float> out;
  o.begin(step.batch(), nullptr);
  for (const Activation act : {Activation::silu, Activation::gelu_tanh}) {
    RowSource s = recipe;
    s.x = tensor_of(o, T, f.D, 11);
    if (recipe.add_scale != 0) s.add = tensor_of(o, T, f.D, 12);
    Tensor x = s.x;
    const Linear* const ws[] = {&q, &k};
    Tensor outs[2];
    o.project(s, ws, outs);
    append(out, outs[0]), append(out, outs[1]), append(out, x);
    s.x = tensor_of(o, T, f.D, 13);
    if (recipe.add_scale != 0) s.add = tensor_of(o, T, f.D, 14);
    x = s.x;
    append(out, o.project(o.gated(s, {gate, up, act, down}), down));
    append(out, x);
  }
  return out;
}

TEST(Fusion, BlocksHaveTheBitsOfTheirOps) {
  const auto w1 = normal(256, 21), w2 = normal(256, 22);
  for (const Formats& f : kFormats) {
    const auto weight = [&](const std::vector<float>& w) { return std::span(w).first(size_t(f.D)); };
    const RowSource recipes[] = {
        {.add_scale = 0},
        {.add_scale = 0, .norm = Norm{weight(w1), 1e-5f}},
        {.add_scale = 0, .norm = Norm{{}, 1e-6f}},
        {.norm = Norm{weight(w1), 1e-5f}},
        {.add_scale = 0.22f, .norm = Norm{weight(w1), 1e-5f}},
        {.add_norm = Norm{weight(w2), 1e-6f}, .norm = Norm{weight(w1), 1e-6f}},
        {.add_norm = Norm{weight(w2), 1e-6f}},
    };
    for (const int64_t T : {1, 7, 27, 70})
      for (size_t r = 0; r < std::size(recipes); ++r)
        for (const bool bf16 : {false, true}) {
          if (bf16 && (T > 9 || r % 2)) continue;
          if (T == 70 && r != 1 && r != 5) continue;
          std::vector<float> want;
          for (const Device& d : devices()) {
            if (d.isa == "scalar" && (T > 9 || f.D > 100)) continue;  // slow, and there are no panels of several rows
            if (d.threads == 3 && T != 27) continue;
            SCOPED_TRACE(testing::Message() << "format " << (&f - kFormats) << " rows " << T << " recipe " << r << " " << d.isa << " threads " << d.threads << " bf16 " << bf16);
            for (const Fusions& fusions : {kNone, kAll, Fusions{.norm_quantize = true, .act_quantize = false}, Fusions{.norm_quantize = false, .act_quantize = true}}) {
              auto o = make(d, fusions, bf16);
              const auto got = block(*o, f, T, recipes[r]);
              if (want.empty()) want = got;
              ASSERT_TRUE(same_bits(got, want));
            }
          }
        }
  }
}

/// q as attention saw it, the result, and the cache's bytes.
struct Attended {
  std::vector<float> values;
  std::vector<std::byte> cache;
};

Attended attend(Ops& o, int64_t T, int head_dim, KvType type, const Rope* rope, bool norms) {
  constexpr int kHeads = 6, kKv = 2;
  const KvLayerSpec layers[] = {{0, kKv, head_dim}};
  const int64_t blocks[] = {16};
  auto kv = *o.make_kv(layers, blocks, 16, type);
  const auto qw = normal(head_dim, 31), kw = normal(head_dim, 32);
  Attended a;
  for (int32_t first = 0; first < 2 * T; first += int32_t(T)) {
    const Step step(T, first, 16);
    o.begin(step.batch(), kv.get());
    AttentionArgs args{.q = tensor_of(o, T, kHeads * head_dim, 33), .k = tensor_of(o, T, kKv * head_dim, 34), .v = tensor_of(o, T, kKv * head_dim, 35),
                       .heads = kHeads, .kv_heads = kKv, .head_dim = head_dim, .scale = 0.125f, .rope = rope};
    if (norms) args.q_norm = Norm{qw, 1e-6f}, args.k_norm = Norm{kw, 1e-5f};
    append(a.values, o.attend(args));
    append(a.values, args.q);
  }
  for (int32_t b = 0; b < 16; ++b) {
    const auto bytes = kv->block_bytes(0, b);
    a.cache.insert(a.cache.end(), bytes.begin(), bytes.end());
  }
  return a;
}

TEST(Fusion, StoredKeysAndValuesHaveTheBitsOfTheirOps) {
  for (const int head_dim : {24, 64})
    for (const bool interleaved : {false, true})
      for (const int64_t T : {1, 5, 40}) {
        Rope rope{.scale = 1.1f, .rot = head_dim - 8, .interleaved = interleaved};
        for (int i = 0; i < rope.rot / 2; ++i) rope.inv_freq.push_back(std::pow(10000.0f, -2.0f * float(i) / float(rope.rot)));
        for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8, KvType::fp8})
          for (const bool norms : {false, true}) {
            Attended want;
            for (const Device& d : devices()) {
              SCOPED_TRACE(testing::Message() << d.isa << " threads " << d.threads << " tokens " << T << " kv " << int(type) << " norms " << norms);
              for (const Fusions& fusions : {kNone, kAll, Fusions{.qk_norm_rope_cache = true, .gemma_max_tokens = 0}}) {
                auto o = make(d, fusions);
                const Attended got = attend(*o, T, head_dim, type, T == 5 && norms ? nullptr : &rope, norms);
                if (want.values.empty()) want = got;
                ASSERT_TRUE(same_bits(got.values, want.values));
                ASSERT_EQ(got.cache, want.cache);
              }
            }
          }
      }
}

/// What runs joined follows the settings, the weights' formats and, for Gemma's norms, the number of tokens.
TEST(Fusion, SettingsChooseWhatIsJoined) {
  const auto ones = std::vector<float>(64, 1.0f);
  const RowSource normed{.norm = Norm{ones, 1e-5f}};
  const auto project = [&](Fusions f, DType type, bool recipe) {
    auto o = make({"", 1}, f);
    const Linear w = linear_of(*o, type, 32, 64, 1, false);
    const Step step(2, 0, 16);
    o->begin(step.batch(), nullptr);
    RowSource s = recipe ? normed : RowSource{};
    s.x = tensor_of(*o, 2, 64, 3);
    const Linear* const ws[] = {&w};
    Tensor out[1];
    return o->try_project(s, ws, out);
  };
  EXPECT_TRUE(project(kAll, DType::q8_0, true));
  EXPECT_FALSE(project(kAll, DType::q8_0, false)) << "there is nothing to join";
  EXPECT_FALSE(project(kAll, DType::bf16, true)) << "nothing is quantized";
  EXPECT_FALSE(project(kNone, DType::q8_0, true));

  const auto gated = [&](Fusions f, DType type, DType down_type) -> std::optional<bool> {
    auto o = make({"", 1}, f);
    const Linear gate = linear_of(*o, type, 32, 64, 1, false), up = linear_of(*o, type, 32, 64, 2, false), down = linear_of(*o, down_type, 64, 32, 3, false);
    const Step step(2, 0, 16);
    o->begin(step.batch(), nullptr);
    const auto out = o->try_gated({.x = tensor_of(*o, 2, 64, 3)}, {gate, up, Activation::silu, down});
    if (!out) return {};
    return out->quantized != nullptr;
  };
  EXPECT_EQ(gated(kAll, DType::q8_0, DType::q4_0), true);
  EXPECT_EQ(gated(kNone, DType::q8_0, DType::q4_0), std::nullopt);
  EXPECT_EQ(gated(kAll, DType::q8_0, DType::f16), std::nullopt) << "the down projection reads floats";
  EXPECT_EQ(gated(kAll, DType::f16, DType::q8_0), std::nullopt);

  const auto stored = [&](Fusions f, int64_t T, bool norms, bool gemma) {
    auto o = make({"", 1}, f);
    const KvLayerSpec layers[] = {{0, 1, 16}};
    const int64_t blocks[] = {16};
    auto kv = *o->make_kv(layers, blocks, 16, KvType::bf16);
    const Step step(T, 0, 16);
    o->begin(step.batch(), kv.get());
    AttentionArgs a{.q = tensor_of(*o, T, 16, 1), .k = tensor_of(*o, T, 16, 2), .v = tensor_of(*o, T, 16, 3), .heads = 1, .kv_heads = 1, .head_dim = 16, .gemma_norms = gemma};
    if (norms) a.q_norm = Norm{std::span(ones).first(16), 1e-5f};
    return o->try_store_kv(a);
  };
  const Fusions bound{.qk_norm_rope_cache = true, .gemma_max_tokens = 4};
  EXPECT_TRUE(stored(bound, 4, true, true));
  EXPECT_FALSE(stored(bound, 5, true, true)) << "one token above the bound";
  EXPECT_TRUE(stored(bound, 5, true, false)) << "the bound is about Gemma's norms";
  EXPECT_FALSE(stored(kNone, 4, true, false));
  EXPECT_TRUE(stored(kNone, 4, false, false)) << "without head norms there is no setting";
}

/// 1 + 2^-8 is halfway between two bfloat16 numbers: what the unit vectors of the two ways of rounding are made of.
TEST(Fusion, ModelSensitiveNormsRoundTwice) {
  const std::vector<float> weight(2, 1.0f + 3 * 0x1p-9f);
  const auto norm = [&](bool bf16) {
    auto o = make({"", 1}, kAll, bf16);
    const Step step(1, 0, 16);
    o->begin(step.batch(), nullptr);
    const Tensor x = o->empty(1, 2);
    x.row(0)[0] = 1.0f, x.row(0)[1] = 1.0f + 0x1p-7f;
    const Tensor y = o->rms_norm(x, weight, 0);
    return std::vector<float>{y.row(0)[0], y.row(0)[1]};
  };
  const auto plain = norm(false), rounded = norm(true);
  EXPECT_NE(plain, rounded);
  for (size_t i = 0; i < 2; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &rounded[i], 4);
    EXPECT_EQ(bits & 0xffffu, 0u) << "not a bfloat16 number";
    EXPECT_NEAR(rounded[i], plain[i], 0.01f);
  }
  const float factor = 1.0f / std::sqrt((1.0f + (1.0f + 0x1p-7f) * (1.0f + 0x1p-7f)) / 2.0f);
  const auto bf16 = [](float v) { return tensor::bf16_to_f32(tensor::f32_to_bf16(v)); };
  EXPECT_EQ(rounded[0], bf16(bf16(factor) * weight[0]));
  EXPECT_EQ(rounded[1], bf16(bf16((1.0f + 0x1p-7f) * factor) * weight[1]));
}

}  // namespace
}  // namespace isotope::ops
