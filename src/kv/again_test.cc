// Hits of which the last windows are computed once more.
#include <gtest/gtest.h>

#include <numeric>

#include "kv/manager.h"

namespace isotope::kv {
namespace {

constexpr int B = 4;
constexpr int64_t kWindow = 6;

std::vector<int32_t> text(int64_t n, int32_t seed) {
  std::vector<int32_t> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), seed * 1000);
  return v;
}

struct Again : testing::Test {
  /// A prefix of 40 tokens is cached; of its windows nothing is left.
  explicit Again(int64_t full = 64, int64_t windows = 8)
      : m(B, std::vector<GroupConfig>{{full, 0}, {windows, kWindow}}, true,
          {.replay_tokens = 11, .clear_block = [this](int group, int32_t block) { cleared.emplace_back(group, block); }}) {
    for (int32_t seed : {1, 2}) {
      SeqBlocks s;
      const auto t = text(40, seed);
      compute(s, t, begin(s, t));
      m.release(s);
    }
  }
  int64_t begin(SeqBlocks& s, const std::vector<int32_t>& t) {
    base::extend_chain(s.links, t, B, s.key);
    m.claim(s, t, (int64_t(t.size()) - 1) / B);
    return s.start;
  }
  void compute(SeqBlocks& s, const std::vector<int32_t>& t, int64_t from, int64_t chunk = 5) {
    for (int64_t p = from; p < int64_t(t.size());) {
      p = std::min<int64_t>(p + chunk, int64_t(t.size()));
      ASSERT_TRUE(m.grow(s, p));
      ASSERT_EQ(m.check_integrity(std::vector<const SeqBlocks*>{&s}), nullptr) << p;
      const int64_t last = std::max<int64_t>(0, p - chunk - kWindow + 1) / B;
      for (int64_t b = std::max(last, s.live_from[1]); b * B < p; ++b) ASSERT_GE(s.tables[1][size_t(b)], 0) << "block " << b << " is looked at by tokens up to " << p;
      m.commit(s, t, p);
    }
  }
  std::vector<std::pair<int, int32_t>> cleared;
  Manager m;
};

TEST_F(Again, TheWholeHitIsClaimedAndItsEndComputed) {
  SeqBlocks s;
  const auto t = text(60, 1);
  base::extend_chain(s.links, t, B, s.key);
  const Hit hit = m.match(s, t, 59);
  EXPECT_EQ(hit.blocks, 10);
  EXPECT_EQ(hit.again, 11);
  EXPECT_EQ(hit.evictable[0], 10);
  EXPECT_EQ(begin(s, t), 29);
  EXPECT_EQ(s.hit_end, 40);
  EXPECT_EQ(s.blocks(), 10);
  EXPECT_EQ(s.ready(), 8);
  EXPECT_EQ(s.published, 10);
  ASSERT_EQ(cleared.size(), 2u);  // the block of token 29, and what stands for tokens 24 to 28
  EXPECT_EQ(s.tables[1][7], cleared[0].second);
  EXPECT_EQ(s.tables[1][6], cleared[1].second);
  EXPECT_EQ(s.tables[1][8], -1);
  const auto claimed = s.tables[0];
  compute(s, t, s.start);
  for (size_t b = 0; b < 10; ++b) EXPECT_EQ(s.tables[0][b], claimed[b]);
  EXPECT_EQ(s.hit_end, 0);
  m.release(s);
  EXPECT_EQ(m.check_integrity({}), nullptr);
  EXPECT_EQ(m.available()[0], 64);
  EXPECT_EQ(m.available()[1], 8);
}

/// Of the blocks below the hit only those are offered to others that hold nothing but true values.
TEST_F(Again, NothingUntrueIsPublished) {
  SeqBlocks s;
  const auto t = text(44, 1);
  begin(s, t);
  compute(s, t, s.start, 15);
  for (int64_t b = 0; b < 11; ++b) EXPECT_EQ(m.pool(1).indexed(s.links[size_t(b)]), b >= 9) << b;  // true from token 34 on
  m.release(s);
}

TEST_F(Again, ReleasedInTheMiddle) {
  for (int64_t until : {29, 30, 33, 40, 41}) {
    SeqBlocks s;
    const auto t = text(60, 1);
    const auto part = text(until, 1);
    ASSERT_EQ(begin(s, t), 29) << until;
    compute(s, part, s.start, 3);
    m.release(s);
    EXPECT_EQ(m.check_integrity({}), nullptr);
    EXPECT_EQ(m.available()[1], 8);
  }
}

TEST_F(Again, NotWhereTheWindowIsNearEnough) {
  SeqBlocks s;
  const auto t = text(60, 2);  // its last windows are there
  EXPECT_EQ(begin(s, t), 40);
  EXPECT_EQ(s.hit_end, 0);
  EXPECT_TRUE(cleared.empty());
  m.release(s);
}

struct AgainTight : Again {
  AgainTight() : Again(22) {}
};
TEST_F(AgainTight, WithoutRoomTheHitIsThatOfTheWindows) {
  SeqBlocks s;
  const auto t = text(80, 1);
  EXPECT_EQ(begin(s, t), 0);
  EXPECT_EQ(s.hit_end, 0);
  m.release(s);
  EXPECT_EQ(m.check_integrity({}), nullptr);
}

}  // namespace
}  // namespace isotope::kv
