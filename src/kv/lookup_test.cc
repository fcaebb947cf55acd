// Lookups: fast and slow walks agree, remembered walks equal exact ones, collisions never hand out foreign blocks.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>

#include "kv/manager.h"

namespace isotope::kv {
namespace {

constexpr int B = 4;
using Tokens = std::vector<int32_t>;

Tokens iota(int64_t n) {
  Tokens v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

SeqBlocks chain_of(Manager& m, const Tokens& t) {
  SeqBlocks s;
  m.hash_prompt(s, t, nullptr);
  return s;
}

/// Computes the prompt as a request would and leaves its blocks behind as evictable.
void fill(Manager& m, const Tokens& t) {
  SeqBlocks s = chain_of(m, t);
  m.claim(s, t, int64_t(t.size()) / B);
  ASSERT_TRUE(m.grow(s, int64_t(t.size())));
  m.commit(s, t, int64_t(t.size()));
  m.release(s);
}

const std::vector<GroupConfig> kLayouts[] = {{{64, 0}}, {{64, 0}, {20, 6}}, {{24, 5}}, {{20, 9}, {64, 0}, {64, 0}}};

TEST(Walk, ColdPromptCostsOneLookup) {
  Manager m(B, kLayouts[0], true);
  SeqBlocks s = chain_of(m, iota(200));
  EXPECT_EQ(m.probe(s, iota(200), 199).blocks, 0);
  EXPECT_EQ(m.counters().fast_lookups, 1);
  EXPECT_EQ(m.counters().token_compares, 0);
}

TEST(Walk, FastComparesOneBlockAndSlowAll) {
  const auto t = iota(200);
  for (const bool fast : {true, false}) {
    Manager m(B, kLayouts[0], true, {.fast_walk = fast});
    fill(m, t);
    const auto before = m.counters();
    EXPECT_EQ(m.match(chain_of(m, t), t, 199).blocks, 49);
    const auto& c = m.counters();
    EXPECT_EQ(c.token_compares - before.token_compares, fast ? 1 : 49);
    EXPECT_EQ(c.fast_lookups - before.fast_lookups, fast ? 49 : 0);
    EXPECT_EQ(c.slow_lookups - before.slow_lookups, fast ? 0 : 49);
  }
}

TEST(Walk, EveryLengthGivesTheSameHitFastAndSlow) {
  for (const auto& groups : kLayouts) {
    Manager fast(B, groups, true), slow(B, groups, true, {.fast_walk = false});
    const auto t = iota(80);
    for (Manager* m : {&fast, &slow}) fill(*m, t);
    for (int64_t shared = 0; shared <= 80; ++shared) {
      auto other = t;
      if (shared < 80) other[size_t(shared)] = -1;
      for (const int64_t limit : {shared, int64_t(79)}) {
        const Hit a = fast.match(chain_of(fast, other), other, limit), b = slow.match(chain_of(slow, other), other, limit);
        EXPECT_EQ(a, b) << shared << ' ' << limit;
        EXPECT_LE(a.blocks, shared / B);
        EXPECT_EQ(fast.probe(*std::make_unique<SeqBlocks>(chain_of(fast, other)), other, limit), b);
      }
    }
  }
}

/// A forged collision: the chain of another prompt with the same hashes, in the middle only. Nothing of it may be reused.
TEST(Walk, CollisionInTheMiddleIsNeverClaimed) {
  for (const bool fast : {true, false}) {
    Manager m(B, kLayouts[0], true, {.fast_walk = fast});
    const auto t = iota(80);
    fill(m, t);
    auto other = t;
    other[21] = 999;  // block 5
    SeqBlocks s = chain_of(m, t);  // the links of `t`, the tokens of `other`
    s.links[5].check ^= 1;
    const Hit probed = m.probe(s, other, 79);
    EXPECT_EQ(probed.blocks, fast ? 19 : 5);
    EXPECT_EQ(m.claim(s, other, 19), 5);
    EXPECT_EQ(m.counters().fallbacks, fast ? 1 : 0);
    EXPECT_EQ(m.match(s, other, 79).blocks, probed.blocks);
    m.release(s);
    SeqBlocks same = chain_of(m, t);  // also when only the tokens betray it
    EXPECT_EQ(m.claim(same, other, 19), 5);
    m.release(same);
  }
}

TEST(Walk, RememberedBlocksAreVerifiedAtTheClaim) {
  Manager m(B, std::vector<GroupConfig>{{20, 0}}, true);
  const auto t = iota(80);
  fill(m, t);
  SeqBlocks s = chain_of(m, t), filler;
  EXPECT_EQ(m.probe(s, t, 79).blocks, 19);
  ASSERT_TRUE(m.grow(filler, 5 * B));  // evicts the five blocks freed first: the last of the chain
  EXPECT_EQ(m.claim(s, t, 19), 15);
  EXPECT_EQ(m.counters().fallbacks, 1);
  EXPECT_EQ(s.miss, (Miss{Miss::Cause::evicted, 15 * B}));
  m.release(s);
  m.release(filler);
}

TEST(Walk, ClaimFindsWhatWasFiledAfterTheProbe) {
  Manager m(B, kLayouts[0], true);
  const auto t = iota(80);
  SeqBlocks s = chain_of(m, t);
  EXPECT_EQ(m.probe(s, t, 79).blocks, 0);
  fill(m, t);
  EXPECT_EQ(m.claim(s, t, 19), 19);
  m.release(s);
}

TEST(Memo, RepeatedProbesReadOnlyTheChanges) {
  Manager m(B, std::vector<GroupConfig>{{4096, 0}}, true);
  const auto t = iota(8000);
  fill(m, t);
  SeqBlocks s = chain_of(m, t);
  m.probe(s, t, 7999);
  const auto walks = m.counters().walks, lookups = m.counters().fast_lookups;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(m.probe(s, t, 7999).blocks, 1999);
  EXPECT_EQ(m.counters().walks, walks);
  EXPECT_EQ(m.counters().fast_lookups, lookups);
  EXPECT_EQ(m.counters().memo_hits, 100);
  Tokens other(400, 5);
  fill(m, other);  // concerns others
  EXPECT_EQ(m.probe(s, t, 7999).blocks, 1999);
  EXPECT_EQ(m.counters().memo_hits, 101);
}

TEST(Memo, IsDroppedForTheRightReason) {
  using C = CacheCounters;
  const auto t = iota(80);
  const struct {
    C::Invalid why;
    void (*change)(Manager&, SeqBlocks&, const Tokens&);
  } cases[] = {
      {C::kChanged, [](Manager& m, SeqBlocks&, const Tokens&) {
         SeqBlocks f;
         ASSERT_TRUE(m.grow(f, 64 * B));
         m.release(f);
       }},
      {C::kPublished, [](Manager& m, SeqBlocks&, const Tokens& t) { fill(m, t); }},
      {C::kCleared, [](Manager& m, SeqBlocks&, const Tokens&) { m.forget_prefixes(); }},
      {C::kRequest, [](Manager&, SeqBlocks& s, const Tokens&) { s.key = 3; }},
      {C::kOverflow, [](Manager& m, SeqBlocks&, const Tokens&) {
         for (int i = 0; i < 600; ++i) fill(m, Tokens(48, 1000));
       }},
  };
  for (const auto& c : cases) {
    Manager m(B, kLayouts[0], true);
    fill(m, Tokens(t.begin(), t.begin() + 40));
    SeqBlocks s = chain_of(m, t);
    EXPECT_EQ(m.probe(s, t, 79).blocks, 10);
    c.change(m, s, t);
    const Hit again = m.probe(s, t, 79);
    EXPECT_EQ(again, m.match(s, t, 79));
    for (int i = 0; i < C::kInvalids; ++i) EXPECT_EQ(m.counters().memo_invalid[i], i == c.why) << c.why << ' ' << i;
  }
}

/// The property that matters: whatever happened in between, the remembered answer is the exact one, counts included.
TEST(Memo, EqualsAnExactProbeUnderRandomUse) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    std::mt19937 rng(seed);
    const auto& groups = kLayouts[seed % std::size(kLayouts)];
    Manager m(B, groups, true, {.fast_walk = seed % 3 != 0});
    struct Life {
      SeqBlocks s;
      Tokens t;
      int64_t computed = 0;
    };
    const auto draw = [&] {
      Tokens t = iota(int64_t(1 + rng() % 60));
      if (rng() % 2) t[rng() % t.size()] = 99 - int32_t(rng() % 2);
      return t;
    };
    std::vector<std::unique_ptr<Life>> waiting, running;
    for (int i = 0; i < 8; ++i) {
      auto l = std::make_unique<Life>();
      l->t = draw();
      m.hash_prompt(l->s, l->t, nullptr);
      waiting.push_back(std::move(l));
    }
    for (int step = 0; step < 1500; ++step) {
      if (running.size() < 3 && rng() % 3 == 0) {
        auto l = std::make_unique<Life>();
        l->t = draw();
        m.hash_prompt(l->s, l->t, nullptr);
        l->computed = m.claim(l->s, l->t, (int64_t(l->t.size()) - 1) / B) * B;
        running.push_back(std::move(l));
      } else if (!running.empty()) {
        auto& l = running[rng() % running.size()];
        const int64_t to = std::min<int64_t>(int64_t(l->t.size()), l->computed + 1 + rng() % 12);
        if (to > l->computed && m.grow(l->s, to)) {
          m.commit(l->s, l->t, l->computed = to);
          if (rng() % 4) continue;
        }
        m.release(l->s);
        l = std::move(running.back());
        running.pop_back();
      }
      if (rng() % 200 == 0) m.forget_prefixes();
      const auto& l = waiting[rng() % waiting.size()];
      const int64_t limit = int64_t(l->t.size()) - (rng() % 8 ? 1 : 5);
      ASSERT_EQ(m.probe(l->s, l->t, limit), m.match(l->s, l->t, limit)) << seed << ", step " << step;
    }
    EXPECT_GT(m.counters().memo_hits, 100);
    for (auto& l : running) m.release(l->s);
    ASSERT_EQ(m.check_integrity({}), nullptr);
  }
}

TEST(Adoption, AdoptedPromptsAreNotHashedAgain) {
  const auto t = iota(83);
  Manager m(B, kLayouts[0], true);
  fill(m, t);
  const auto hashed = m.counters().blocks_hashed;
  base::HashChain good = base::hash_prompt(t, B, {}), bad = good;
  ++bad.links[10].hash;  // the middle of 20
  SeqBlocks a, b;
  EXPECT_EQ(m.hash_prompt(a, t, &good), base::ChainFault::none);
  EXPECT_EQ(m.counters().blocks_hashed, hashed);
  EXPECT_EQ(m.hash_prompt(b, t, &bad), base::ChainFault::link);
  EXPECT_EQ(m.counters().blocks_hashed, hashed + 20);
  EXPECT_EQ(m.match(a, t, 82), m.match(b, t, 82));
  EXPECT_EQ(m.counters().chains_adopted, 1);
  EXPECT_EQ(m.counters().chains_rejected[size_t(base::ChainFault::link)], 1);
}

/// The first holder of a prefix goes and its blocks are evicted; the second one has computed its own copies.
TEST(Publish, CopiesAreFiledWhenTheFirstIsEvicted) {
  Manager m(B, std::vector<GroupConfig>{{10, 0}}, true);
  const auto t = iota(17);
  SeqBlocks a = chain_of(m, t), b = chain_of(m, t), filler;
  for (SeqBlocks* s : {&a, &b}) {
    ASSERT_TRUE(m.grow(*s, 16));
    m.commit(*s, t, 16);
  }
  m.release(a);
  ASSERT_TRUE(m.grow(filler, 6 * B));  // two were free, the four of `a` are evicted
  m.release(filler);
  EXPECT_EQ(m.match(b, t, 17).blocks, 0);
  auto longer = iota(21);
  ASSERT_TRUE(m.grow(b, 20));
  m.commit(b, longer, 20);
  SeqBlocks c = chain_of(m, longer);
  EXPECT_EQ(m.match(c, longer, 21).blocks, 5);
  m.release(b);
}

TEST(Publish, NothingOfBeforeAResetComesBack) {
  Manager m(B, kLayouts[0], true);
  const auto t = iota(40);
  SeqBlocks s = chain_of(m, t);
  m.claim(s, t, 9);
  ASSERT_TRUE(m.grow(s, 20));
  m.commit(s, t, 20);
  m.forget_prefixes();
  ASSERT_TRUE(m.grow(s, 40));
  m.commit(s, t, 40);  // computed on top of what was to be forgotten
  EXPECT_EQ(m.match(s, t, 39).blocks, 0);
  m.release(s);
  EXPECT_EQ(m.pool(0).free(), 64);
  fill(m, t);
  EXPECT_EQ(m.match(s, t, 39).blocks, 9);
}

}  // namespace
}  // namespace isotope::kv
