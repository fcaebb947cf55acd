// One matrix a head, against plain linear layers on the columns of each head, bit for bit.
#include <gtest/gtest.h>

#include <cstring>

#include "ops/cpu/weight_samples.h"
#include "ops/ops.h"

namespace isotope::ops {
namespace {

using tensor::DType;

struct Case {
  DType type;
  int64_t heads, k, n, lead, first, step;
};
const Case kCases[] = {
    {DType::f32, 4, 16, 32, 8, 0, 16}, {DType::bf16, 3, 48, 20, 0, 8, 56}, {DType::q8_0, 5, 64, 96, 16, 0, 64}, {DType::q4_k, 2, 256, 64, 0, 16, 272},
    {DType::q8_0, 128, 32, 16, 8, 0, 32},
};

Tensor input(Ops& o, int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> d;
  const Tensor x = o.empty(rows, cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) x.row(r)[c] = d(rng);
  return x;
}

TEST(LinearHeads, EqualsALinearLayerAHead) {
  for (const Case& c : kCases)
    for (int threads : {1, 2, 3}) {
      const auto o = *make_cpu_ops({.threads = threads, .pin = false});
      std::vector<Linear> ws;
      for (int64_t h = 0; h < c.heads; ++h) ws.push_back({.w = *o->pack(samples::tame(c.type, c.n, c.k, uint32_t(h + 1)).tensor)});
      for (int64_t T : {1, 5, 19, 40}) {
        o->begin({}, nullptr);
        const Tensor x = input(*o, T, c.first + (c.heads - 1) * c.step + c.k, 7), lead = c.lead ? input(*o, T, c.heads * c.lead, 8) : Tensor{};
        const Tensor out = o->linear_heads({.x = x, .first = c.first, .step = c.step, .ws = ws, .lead = lead});
        ASSERT_EQ(out.rows, T);
        ASSERT_EQ(out.cols, c.heads * (c.lead + c.n));
        for (int64_t h = 0; h < c.heads; ++h) {
          const Tensor alone = o->linear(x.columns(c.first + h * c.step, c.k), ws[size_t(h)]);
          for (int64_t r = 0; r < T; ++r) {
            const float* const head = out.row(r) + h * (c.lead + c.n);
            if (c.lead) ASSERT_EQ(0, std::memcmp(head, lead.row(r) + h * c.lead, size_t(c.lead) * 4)) << "head " << h << " row " << r;
            ASSERT_EQ(0, std::memcmp(head + c.lead, alone.row(r), size_t(c.n) * 4)) << "head " << h << " row " << r << " of " << T << ", " << threads << " threads";
          }
        }
      }
    }
}

}  // namespace
}  // namespace isotope::ops
