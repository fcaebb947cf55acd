#include "kv/manager.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace isotope::kv {
namespace {

constexpr int B = 4;

std::vector<int32_t> iota(int64_t n) {
  std::vector<int32_t> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

/// Runs a sequence over its tokens in chunks, as the engine does.
void run(Manager& m, SeqBlocks& s, std::span<const int32_t> tokens, int64_t from, int64_t chunk) {
  for (int64_t p = from; p < int64_t(tokens.size());) {
    p = std::min<int64_t>(p + chunk, int64_t(tokens.size()));
    ASSERT_TRUE(m.grow(s, p));
    m.commit(s, tokens, p);
  }
}

int64_t hit_after(Manager& m, std::span<const int32_t> tokens, int64_t limit) {
  SeqBlocks s;
  base::extend_chain(s.links, tokens, B, s.key);
  return m.match(s, tokens, limit).blocks;
}

TEST(KvManager, HitIsWholeBlocksBelowTheLimit) {
  Manager m(B, std::vector<GroupConfig>{{64, 0}}, true);
  const auto t = iota(23);
  SeqBlocks s;
  run(m, s, t, 0, 5);
  for (int64_t limit = 0; limit <= 23; ++limit) EXPECT_EQ(hit_after(m, t, limit), limit / B) << limit;
  m.release(s);
  EXPECT_EQ(m.pool(0).evictable(), 5);  // the sixth block was not complete
  EXPECT_EQ(hit_after(m, t, 22), 5);
  auto other = t;
  other[9] = 77;
  EXPECT_EQ(hit_after(m, other, 22), 2);
  SeqBlocks salted;
  salted.key = 5;
  base::extend_chain(salted.links, t, B, salted.key);
  EXPECT_EQ(m.match(salted, t, 22).blocks, 0);
  SeqBlocks shy;
  shy.cacheable = false;
  base::extend_chain(shy.links, t, B, shy.key);
  EXPECT_EQ(m.match(shy, t, 22).blocks, 0);
}

TEST(KvManager, SlidingGroupGivesBlocksBackAndFullGroupKeepsThem) {
  Manager m(B, std::vector<GroupConfig>{{64, 0}, {64, 6}}, true);
  const auto t = iota(40);
  SeqBlocks s;
  run(m, s, t, 0, 1);
  ASSERT_EQ(s.blocks(), 10);
  for (int b = 0; b < 10; ++b) {
    EXPECT_GE(s.tables[0][size_t(b)], 0);
    EXPECT_EQ(s.tables[1][size_t(b)] >= 0, b >= 8) << b;  // the query at 40 reads keys 35..40
  }
  EXPECT_EQ(m.pool(0).available(), 54);
  EXPECT_EQ(m.pool(1).available(), 62);
  const SeqBlocks* all[] = {&s};
  EXPECT_EQ(m.check_integrity(all), nullptr);
  m.release(s);
  EXPECT_EQ(m.check_integrity({}), nullptr);
  EXPECT_EQ(m.available()[0], 64);
  EXPECT_EQ(m.available()[1], 64);
}

TEST(KvManager, SlidingHitNeedsTheLastWindowOnly) {
  // Pool of the sliding group so small that early blocks are evicted.
  Manager m(B, std::vector<GroupConfig>{{64, 0}, {5, 8}}, true);
  const auto t = iota(40);
  SeqBlocks s;
  run(m, s, t, 0, 4);
  m.release(s);
  EXPECT_EQ(hit_after(m, t, 40), 10);
  EXPECT_EQ(hit_after(m, t, 28), 7);  // blocks 5 and 6 are still there
  EXPECT_EQ(hit_after(m, t, 24), 0);  // block 4 is gone, and so is everything before
  SeqBlocks again;
  base::extend_chain(again.links, t, B, {});
  EXPECT_EQ(m.claim(again, t, 10), 10);
  EXPECT_EQ(again.tables[1][7], -1);
  EXPECT_GE(again.tables[1][8], 0);
  EXPECT_GE(again.tables[0][0], 0);
  const SeqBlocks* all[] = {&again};
  EXPECT_EQ(m.check_integrity(all), nullptr);
}

TEST(KvManager, HitCountsWhatItTakesFromTheAvailable) {
  Manager m(B, std::vector<GroupConfig>{{16, 0}}, true);
  const auto t = iota(16);
  SeqBlocks a, b;
  run(m, a, t, 0, 16);
  base::extend_chain(b.links, t, B, {});
  EXPECT_EQ(m.match(b, t, 15).evictable[0], 0);
  EXPECT_EQ(m.claim(b, t, 3), 3);
  EXPECT_EQ(m.held(a)[0], 1);
  m.release(a);
  EXPECT_EQ(m.held(b)[0], 3);
  m.release(b);
  EXPECT_EQ(m.match(b, t, 15).evictable[0], 3);
}

TEST(KvManager, GrowTakesAllGroupsOrNone) {
  Manager m(B, std::vector<GroupConfig>{{8, 0}, {2, 8}}, true);
  SeqBlocks s;
  EXPECT_FALSE(m.grow(s, 9));
  EXPECT_EQ(m.available()[0], 8);
  EXPECT_TRUE(m.grow(s, 8));
}

TEST(KvManager, RandomLivesKeepIntegrity) {
  std::mt19937 rng(3);
  Manager m(B, std::vector<GroupConfig>{{40, 0}, {24, 10}, {24, 3}}, true);
  struct Life {
    SeqBlocks s;
    std::vector<int32_t> tokens;
    int64_t computed = 0;
  };
  std::vector<std::unique_ptr<Life>> lives;
  for (int i = 0; i < 4000; ++i) {
    if (lives.size() < 4 && rng() % 4 == 0) {
      auto l = std::make_unique<Life>();
      l->tokens = iota(1 + rng() % 60);
      if (rng() % 2) l->tokens[rng() % l->tokens.size()] = 99;
      base::extend_chain(l->s.links, l->tokens, B, {});
      const auto hit = m.match(l->s, l->tokens, int64_t(l->tokens.size()) - 1);
      l->computed = m.claim(l->s, l->tokens, hit.blocks) * B;
      EXPECT_EQ(l->computed, hit.blocks * B);
      lives.push_back(std::move(l));
    } else if (!lives.empty()) {
      auto& l = lives[rng() % lives.size()];
      const int64_t to = std::min<int64_t>(int64_t(l->tokens.size()), l->computed + 1 + rng() % 9);
      if (rng() % 10 == 0 || l->computed == int64_t(l->tokens.size()) || !m.grow(l->s, to)) {
        m.release(l->s);
        l = std::move(lives.back());
        lives.pop_back();
      } else {
        m.commit(l->s, l->tokens, l->computed = to);
      }
    }
    std::vector<const SeqBlocks*> all;
    for (auto& l : lives) all.push_back(&l->s);
    ASSERT_EQ(m.check_integrity(all), nullptr) << i;
  }
  for (auto& l : lives) m.release(l->s);
  EXPECT_EQ(m.available(), (Counts{40, 24, 24}));
  m.forget_prefixes();
  EXPECT_EQ(m.pool(0).free(), 40);
  EXPECT_EQ(m.check_integrity({}), nullptr);
}

}  // namespace
}  // namespace isotope::kv
