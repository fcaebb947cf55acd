#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace isotope::kv {
namespace {

using base::BlockLink;
const std::vector<int32_t> kTokens{1, 2, 3, 4};

TEST(BlockPool, TakesFreeBlocksLowestFirstThenLeastRecentlyFreed) {
  BlockPool p(4, 4);
  EXPECT_EQ(p.take(), 0);
  EXPECT_EQ(p.take(), 1);
  EXPECT_EQ(p.take(), 2);
  EXPECT_TRUE(p.publish(2, {12, 0}, kTokens));
  EXPECT_TRUE(p.publish(0, {10, 0}, kTokens));
  p.unref(2);
  p.unref(0);
  p.unref(1);  // unpublished: free
  EXPECT_EQ(p.free(), 2);
  EXPECT_EQ(p.evictable(), 2);
  EXPECT_EQ(p.take(), 1);
  EXPECT_EQ(p.take(), 3);
  EXPECT_EQ(p.evictions(), 0);
  EXPECT_EQ(p.take(), 2);  // freed before 0
  EXPECT_EQ(p.evictions(), 1);
  EXPECT_EQ(p.find({12, 0}, kTokens), -1);
  EXPECT_EQ(p.find({10, 0}, kTokens), 0);
  EXPECT_EQ(p.take(), 0);
  EXPECT_EQ(p.take(), -1);
}

TEST(BlockPool, RevivedBlockIsNotEvicted) {
  BlockPool p(2, 4);
  for (int b = 0; b < 2; ++b) {
    p.take();
    p.publish(b, {uint64_t(b), 0}, kTokens);
    p.unref(b);
  }
  p.ref(0);
  EXPECT_EQ(p.available(), 1);
  EXPECT_EQ(p.take(), 1);
  EXPECT_EQ(p.take(), -1);
  EXPECT_EQ(p.check(std::vector<int32_t>{1, 1}), nullptr);
  EXPECT_NE(p.check(std::vector<int32_t>{1, 0}), nullptr);
}

TEST(BlockPool, CollidingHashIsNeverReturned) {
  BlockPool p(2, 4);
  p.take();
  p.take();
  EXPECT_TRUE(p.publish(0, {7, 1}, kTokens));
  EXPECT_FALSE(p.publish(1, {7, 2}, kTokens));  // the first stays canonical
  EXPECT_EQ(p.find({7, 1}, kTokens), 0);
  EXPECT_EQ(p.find({7, 2}, kTokens), -1);                           // same hash, another chain
  EXPECT_EQ(p.find({7, 1}, std::vector<int32_t>{1, 2, 3, 5}), -1);  // same link, other tokens
}

TEST(BlockPool, ForgetAllKeepsUsers) {
  BlockPool p(3, 4);
  p.take();
  p.take();
  p.publish(0, {1, 0}, kTokens);
  p.publish(1, {2, 0}, kTokens);
  p.unref(1);
  p.forget_all();
  EXPECT_EQ(p.refs(0), 1);
  EXPECT_EQ(p.find({1, 0}, kTokens), -1);
  EXPECT_EQ(p.free(), 2);
  EXPECT_EQ(p.check(std::vector<int32_t>{1, 0, 0}), nullptr);
  p.unref(0);
  EXPECT_EQ(p.free(), 3);
}

TEST(BlockIndex, AgreesWithAMapUnderRandomUse) {
  BlockIndex index(64);
  std::map<uint64_t, int32_t> map;
  std::mt19937_64 rng(1);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t h = (rng() % 100) << (rng() % 3 * 20);  // clustered
    if (const auto it = map.find(h); it != map.end()) {
      EXPECT_EQ(index.find(h), it->second);
      index.erase(h);
      map.erase(it);
    } else {
      EXPECT_EQ(index.find(h), -1);
      if (map.size() < 64) {
        index.insert(h, i);
        map[h] = i;
      }
    }
    ASSERT_EQ(index.size(), int64_t(map.size()));
  }
  for (const auto& [h, b] : map) EXPECT_EQ(index.find(h), b);
}

}  // namespace
}  // namespace isotope::kv
