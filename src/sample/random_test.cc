#include "sample/random.h"

#include <gtest/gtest.h>

namespace isotope::sample {
namespace {

TEST(Philox, KnownAnswers) {  // kat_vectors of the Random123 distribution
  using C = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (C{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (C{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (C{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, EveryPartOfTheKeyCounts) {
  const double u = uniform(1, 2, 3, Purpose::token);
  EXPECT_EQ(u, uniform(1, 2, 3, Purpose::token));
  EXPECT_NE(u, uniform(1ull << 40 | 1, 2, 3, Purpose::token));
  EXPECT_NE(u, uniform(1, 3, 3, Purpose::token));
  EXPECT_NE(u, uniform(1, 2, 4, Purpose::token));
  EXPECT_NE(u, uniform(1, 2, 3, Purpose::xtc));
  double sum = 0;
  for (uint64_t i = 0; i < 10000; ++i) {
    const double v = uniform(9, 0, i, Purpose::token);
    ASSERT_TRUE(v >= 0 && v < 1);
    sum += v;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
}

}  // namespace
}  // namespace isotope::sample
