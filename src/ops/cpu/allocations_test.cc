// A step that is warm asks the heap for nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "ops/ops.h"

namespace {
std::atomic<int64_t> allocations{0};
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::noinline]] void* operator new(size_t n) {
  ++allocations;
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t n, std::align_val_t align) {
  ++allocations;
  const size_t a = size_t(align);
  if (void* p = std::aligned_alloc(a, (n + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
#endif

namespace isotope::ops {
namespace {

Linear make_linear(Ops& o, int64_t n, int64_t k) {
  const std::vector<float> data(static_cast<size_t>(n * k), 0.01f);
  return {.w = *o.pack({.dtype = tensor::DType::f32, .data = data.data(), .bytes = data.size() * 4, .shape = {n, k}, .rank = 2})};
}

TEST(CpuOps, AWarmStepAllocatesNothing) {
  auto o = *make_cpu_ops({.threads = 2, .pin = false});
  constexpr int kHeads = 4, kDim = 16, kWidth = kHeads * kDim;
  const Linear square = make_linear(*o, kWidth, kWidth), wide = make_linear(*o, 4 * kWidth, kWidth), narrow = make_linear(*o, kWidth, 4 * kWidth);
  const std::vector<float> ones(kWidth, 1.0f);
  Moe moe{.routing = {.used = 2}, .router = make_linear(*o, 4, kWidth)};
  for (int e = 0; e < 4; ++e) moe.experts.push_back({make_linear(*o, 2 * kWidth, kWidth), make_linear(*o, 2 * kWidth, kWidth), make_linear(*o, kWidth, 2 * kWidth)});
  Rope rope{.rot = kDim};
  for (int i = 0; i < kDim / 2; ++i) rope.inv_freq.push_back(std::pow(10000.0f, -float(2 * i) / kDim));
  const KvLayerSpec layers[] = {{0, kHeads, kDim}, {0, kHeads, kDim}};
  const int64_t blocks[] = {64};
  auto kv = *o->make_kv(layers, blocks, 16, KvType::int8);
  std::vector<int32_t> table(64), tokens, positions, slots;
  for (int32_t i = 0; i < 64; ++i) table[size_t(i)] = i;
  for (int32_t i = 0; i < 700; ++i) tokens.push_back(i % kWidth), positions.push_back(i), slots.push_back(i);

  auto step = [&](int32_t first, int32_t n) {
    const int32_t start[] = {0, n}, context[] = {first + n}, rows[] = {n - 1};
    const Batch::Group groups[] = {{table.data(), 64, std::span(slots).subspan(size_t(first), size_t(n))}};
    const Batch b{.tokens = std::span(tokens).subspan(size_t(first), size_t(n)), .positions = std::span(positions).subspan(size_t(first), size_t(n)),
                  .query_start = start, .context_len = context, .logit_rows = rows, .groups = groups};
    o->begin(b, kv.get());
    const Tensor x = o->embed(*square.w, 2.0f);
    Tensor h = o->rms_norm(x, ones, 1e-5f);
    for (int l = 0; l < 2; ++l) {
      o->next_layer();
      const Linear* ws[] = {&square, &square, &square};
      Tensor qkv[3];
      o->linear_n(h, ws, qkv);
      o->head_norm(qkv[0], kDim, {}, 1e-5f);
      o->rope(qkv[0], kDim, rope);
      o->rope(qkv[1], kDim, rope);
      const Tensor a = o->attention({.q = qkv[0], .k = qkv[1], .v = qkv[2], .layer = l, .heads = kHeads, .kv_heads = kHeads, .head_dim = kDim, .scale = 0.25f});
      h = o->add_rms_norm(x, o->linear(a, square), ones, 1e-5f);
      h = o->add_rms_norm(x, o->linear(o->linear_act(h, wide, wide, Activation::silu), narrow), ones, 1e-5f);
      h = o->add_rms_norm(x, o->moe(h, moe), ones, 1e-5f);
    }
    return o->linear(o->gather(h, b.logit_rows), wide).row(0)[0];
  };
  for (int warm = 0; warm < 3; ++warm) step(0, 690);
  const int64_t before = allocations;
  step(0, 690);
  for (int32_t p = 690; p < 700; ++p) step(p, 1);
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace isotope::ops
