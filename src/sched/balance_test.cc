#include "sched/balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace isotope::sched {

bool operator==(const PrefillChunk& a, const PrefillChunk& b) {
  return a.ref == b.ref && a.tokens == b.tokens && a.context == b.context;
}
void PrintTo(const PrefillChunk& c, std::ostream* o) {
  *o << "{" << c.ref << ", " << c.tokens << " after " << c.context << "}";
}

namespace {

using testing::ElementsAre;

TEST(Balance, CostOfAChunk) {
  EXPECT_EQ(chunk_cost({0, 100, 0}, 360'000), 100 * 360'050.0);
  EXPECT_EQ(chunk_cost({0, 100, 1000}, 10), 100 * 1060.0);
  EXPECT_EQ(chunk_cost({0, 0, 1000}, 10), 0);
  const PrefillChunk chunks[] = {{0, 100, 0}, {1, 10, 90}};
  EXPECT_EQ(prefill_cost(chunks, 0), 100 * 50.0 + 10 * 95.0);
  EXPECT_EQ(chunk_cost({0, int64_t(1) << 20, int64_t(1) << 30}, 360'000),
            double(1 << 20) * (360'000 + double(1 << 30) + (1 << 19)))
      << "no overflow";
}

TEST(Balance, Target) {
  EXPECT_EQ(balance_target(std::vector<double>{100, 300}, 0.1), 200 * 1.1);
  EXPECT_EQ(balance_target(std::vector<double>{100, 300}, 0), 200);
  EXPECT_EQ(balance_target(std::vector<double>{100, 300}, 5), 300) << "a large slack: nobody is above it";
  EXPECT_EQ(balance_target(std::vector<double>{100, 0, 300, 0}, 0), 200) << "idle ranks are left out of the mean";
  EXPECT_EQ(balance_target(std::vector<double>{7}, 0), 7);
  EXPECT_EQ(balance_target(std::vector<double>{0, 0}, 0.1), 0);
}

std::vector<PrefillChunk> shrunk(std::vector<PrefillChunk> chunks, double target, const BalanceOptions& o) {
  shrink_to_target(chunks, target, o);
  return chunks;
}

TEST(Balance, ShrinksInSchedulingOrder) {
  const BalanceOptions o{.token_weight = 0, .min_tokens = 1, .block_size = 4};
  // Costs 50, 50 and 50: the first fits, the second is cut to n with n * n / 2 <= 30 (n = 7), down to the grid; the third goes.
  EXPECT_THAT(shrunk({{0, 10, 0}, {1, 10, 0}, {2, 10, 0}}, 80, o), ElementsAre(PrefillChunk{0, 10, 0}, PrefillChunk{1, 4, 0}));
  EXPECT_THAT(shrunk({{0, 10, 0}}, 50, o), ElementsAre(PrefillChunk{0, 10, 0})) << "at the target nothing changes";
  // The grid is that of positions: 6 tokens of context and 2 new ones end at 8.
  EXPECT_THAT(shrunk({{0, 10, 6}}, 30, o), ElementsAre(PrefillChunk{0, 2, 6}));
}

TEST(Balance, HugeWeightBalancesByTokens) {
  const BalanceOptions o{.token_weight = 1'000'000'000, .min_tokens = 1, .block_size = 1};
  std::vector<PrefillChunk> chunks = {{0, 100, 50'000}, {1, 100, 0}};
  const double target = 150.0 * 1e9 * 1.0001;
  EXPECT_EQ(shrink_to_target(chunks, target, o), 50);
  EXPECT_THAT(chunks, ElementsAre(PrefillChunk{0, 100, 50'000}, PrefillChunk{1, 50, 0}));
}

TEST(Balance, NeverBelowTheFloor) {
  const BalanceOptions o{.token_weight = 10, .min_tokens = 64, .block_size = 16};
  EXPECT_THAT(shrunk({{0, 100, 0}, {1, 100, 0}}, 1, o), ElementsAre(PrefillChunk{0, 64, 0}));
  EXPECT_THAT(shrunk({{0, 20, 0}, {1, 30, 0}, {2, 100, 0}}, 1, o),
              ElementsAre(PrefillChunk{0, 20, 0}, PrefillChunk{1, 30, 0}, PrefillChunk{2, 14, 0}));
  EXPECT_THAT(shrunk({{0, 20, 0}, {1, 30, 0}}, 1, o), ElementsAre(PrefillChunk{0, 20, 0}, PrefillChunk{1, 30, 0}))
      << "a plan below the floor stays as it is";
}

TEST(Balance, ShrunkRanksMeetTheTarget) {
  std::mt19937 rng(3);
  for (int round = 0; round < 2000; ++round) {
    const BalanceOptions o{.token_weight = int64_t(1 + rng() % 400'000),
                           .slack = double(rng() % 5) / 10,
                           .min_tokens = 1,
                           .block_size = int(1 + rng() % 32)};
    std::vector<std::vector<PrefillChunk>> ranks(2 + rng() % 6);
    std::vector<double> costs;
    for (auto& chunks : ranks) {
      for (size_t i = rng() % 5; i > 0; --i) chunks.push_back({int32_t(i), int64_t(1 + rng() % 3000), int64_t(rng() % 100'000)});
      costs.push_back(prefill_cost(chunks, o.token_weight));
    }
    const double target = balance_target(costs, o.slack);
    for (size_t r = 0; r < ranks.size(); ++r) {
      const auto before = ranks[r];
      const int64_t removed = shrink_to_target(ranks[r], target, o);
      ASSERT_GE(removed, 0);
      ASSERT_EQ(before.empty(), ranks[r].empty()) << "somebody always advances";
      if (costs[r] <= target) ASSERT_EQ(removed, 0);
      if (removed > 0 && ranks[r].size() == 1 && ranks[r][0].tokens == 1) continue;  // the floor of one token
      ASSERT_LE(prefill_cost(ranks[r], o.token_weight), std::max(target * (1 + 1e-12), 0.0));
      for (size_t i = 0; i < ranks[r].size(); ++i) ASSERT_LE(ranks[r][i].tokens, before[i].tokens);
    }
  }
}

}  // namespace
}  // namespace isotope::sched
