// Timed ops give the bits of the ops inside, and count what they do.
#include "ops/metered.h"

#include <gtest/gtest.h>

#include <cstring>

namespace isotope::ops {
namespace {

struct Results {
  std::vector<float> norm, act, attended;
};

std::vector<float> copy(Tensor t) {
  std::vector<float> v;
  for (int64_t r = 0; r < t.rows; ++r) v.insert(v.end(), t.row(r), t.row(r) + t.cols);
  return v;
}

void fill(Tensor t) {
  for (int64_t r = 0; r < t.rows; ++r)
    for (int64_t c = 0; c < t.cols; ++c) t.row(r)[c] = 0.01f * float((r * 31 + c * 7) % 50 - 25);
}

Results run(Ops& ops) {
  std::vector<float> weights(size_t(64) * 32);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = 0.01f * float(i % 40) - 0.2f;
  const HostTensor t{.dtype = tensor::DType::f32, .data = weights.data(), .bytes = weights.size() * 4, .shape = {64, 32}, .rank = 2};
  Linear gate, up;
  gate.w = *ops.pack(t);
  up.w = *ops.pack(t);
  const KvLayerSpec layers[] = {{0, 2, 16}};
  const int64_t blocks[] = {2};
  auto kv = *ops.make_kv(layers, blocks, 16, KvType::bf16);
  const int32_t tokens[] = {1, 2, 3}, positions[] = {0, 1, 2}, start[] = {0, 3}, context[] = {3}, table[] = {1}, slots[] = {16, 17, 18};
  const Batch::Group groups[] = {{table, 1, slots}};
  ops.begin({.tokens = tokens, .positions = positions, .query_start = start, .context_len = context, .groups = groups}, kv.get());
  Results r;
  Tensor x = ops.empty(3, 32), q = ops.empty(3, 64), k = ops.empty(3, 32), v = ops.empty(3, 32);
  for (Tensor each : {x, q, k, v}) fill(each);
  r.norm = copy(ops.rms_norm(x, {}, 1e-5f));
  r.act = copy(ops.linear_act(x, gate, up, Activation::silu));
  r.attended = copy(ops.attention({.q = q, .k = k, .v = v, .heads = 4, .kv_heads = 2, .head_dim = 16, .scale = 0.25f}));
  return r;
}

TEST(Metered, GivesTheSameBitsAndCounts) {
  auto plain = *make_cpu_ops({.threads = 1, .pin = false});
  const Results want = run(*plain);
  auto profile = std::make_shared<StepProfile>();
  auto timed = make_metered(*make_cpu_ops({.threads = 1, .pin = false}), profile);
  const Results got = run(*timed);
  EXPECT_EQ(got.norm, want.norm);
  EXPECT_EQ(got.act, want.act);
  EXPECT_EQ(got.attended, want.attended);

  const StepTimes times = profile->take();
  ASSERT_EQ(times.ops.size(), 3u);
  for (const OpTime& o : times.ops) {
    EXPECT_EQ(o.calls, 1) << o.name;
    EXPECT_GT(o.bytes, 0) << o.name;
  }
  EXPECT_EQ(times.ops[1].name, "linear + activation F32 32>128");
  EXPECT_EQ(times.ops[1].operations, 2 * 3 * 128 * 32);
  EXPECT_EQ(times.ops[1].arithmetic, OpTime::Arithmetic::float32);
  EXPECT_EQ(times.ops[2].arithmetic, OpTime::Arithmetic::bf16);
  EXPECT_EQ(times.ops[2].operations, (1 + 2 + 3) * 4 * 16 * 4) << "a query sees itself and what was before it";
}

/// 2 of `experts` for each row.
Moe mixture(Ops& o, int experts) {
  const auto weight = [&](int64_t n, int64_t k) {
    std::vector<float> data(size_t(n * k));
    for (size_t i = 0; i < data.size(); ++i) data[i] = 0.01f * float(i % 37) - 0.2f;
    return Linear{.w = *o.pack({.dtype = tensor::DType::f32, .data = data.data(), .bytes = data.size() * 4, .shape = {n, k}, .rank = 2})};
  };
  Moe m{.routing = {.used = 2}, .router = weight(experts, 32)};
  for (int e = 0; e < experts; ++e) m.experts.push_back({weight(16, 32), weight(16, 32), weight(32, 16)});
  return m;
}

TEST(Metered, CountsAMixtureOfExpertsAsOneOperation) {
  auto profile = std::make_shared<StepProfile>();
  auto plain = *make_cpu_ops({.threads = 1, .pin = false}), timed = make_metered(*make_cpu_ops({.threads = 1, .pin = false}), profile);
  const Moe m = mixture(*plain, 4);
  std::vector<float> got[2];
  for (Ops* o : {plain.get(), timed.get()}) {
    o->begin({}, nullptr);
    const Tensor x = o->empty(5, 32);
    fill(x);
    got[o == timed.get()] = copy(o->moe(x, m));
  }
  EXPECT_EQ(got[0], got[1]);
  const StepTimes times = profile->take();
  ASSERT_EQ(times.ops.size(), 1u);
  EXPECT_NE(times.ops[0].name.find("2 of 4"), std::string::npos) << times.ops[0].name;
}

TEST(Metered, ReadsTheExpertsThatRowsMeetOnAverage) {
  auto profile = std::make_shared<StepProfile>();
  auto o = make_metered(*make_cpu_ops({.threads = 1, .pin = false}), profile);
  const Moe m = mixture(*o, 16);
  const auto bytes = [&](int64_t rows) {
    o->begin({}, nullptr);
    const Tensor x = o->empty(rows, 32);
    fill(x);
    o->moe(x, m);
    const int64_t expert = int64_t(m.experts[0].gate.w->bytes + m.experts[0].up.w->bytes + m.experts[0].down.w->bytes);
    const int64_t moved = 2 * rows * 32 * 4 + 2 * rows * (16 + 16 + 32) * 4 + int64_t(m.router.w->bytes);
    return double(profile->take().ops[0].bytes - moved) / double(expert);
  };
  EXPECT_EQ(bytes(1), 2);
  EXPECT_EQ(bytes(2), 4) << "16 (1 - (7/8)^2) = 3.75";
  EXPECT_EQ(bytes(8), 11) << "16 (1 - (7/8)^8) = 10.5";
  EXPECT_EQ(bytes(200), 16);
}

}  // namespace
}  // namespace isotope::ops
