#include "base/hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace isotope::base {
namespace {

std::vector<int32_t> iota(int n, int from = 0) {
  std::vector<int32_t> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), from);
  return v;
}

TEST(BlockHash, IsXxh64OverParentAndInt64Tokens) {
  const auto t = iota(8);
  std::vector<BlockLink> links;
  extend_chain(links, t, 4, {});
  const int64_t first[] = {0, 1, 2, 3};
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].hash, xxh64(first, sizeof first));
  const int64_t second[] = {int64_t(links[0].hash), 4, 5, 6, 7};
  EXPECT_EQ(links[1].hash, xxh64(second, sizeof second));
  EXPECT_EQ(xxh64("", 0), 0xEF46DB3751D8E999ull);  // published test vector
}

TEST(BlockHash, GrowsBlockByBlockToTheSameChain) {
  const auto t = iota(67);
  std::vector<BlockLink> once, grown;
  extend_chain(once, t, 16, 5);
  for (size_t n = 0; n <= t.size(); ++n) extend_chain(grown, std::span(t).first(n), 16, 5);
  EXPECT_EQ(once.size(), 4u);
  EXPECT_EQ(once, grown);
}

TEST(BlockHash, IdentityFieldsNeverRunTogether) {  // field report G18: all that a cached block depends on goes through this one function
  std::set<std::optional<uint64_t>> seen{cache_seed({})};
  EXPECT_FALSE(*seen.begin());
  const CacheIdentity ids[] = {
      {.salt = "abc"},  {.lora = "abc"},     {.model = "abc"}, {.salt = "ab", .lora = "c"}, {.salt = "a", .lora = "bc"}, {.lora = "abc", .lora_scale = 2},
      {.revision = "abc"}, {.kv_dtype = "abc"}, {.block_size = 16}, {.block_size = 32}};
  for (const auto& id : ids) EXPECT_TRUE(seen.insert(cache_seed(id)).second);
}

TEST(BlockHash, CheckChainTellsParentsApart) {
  std::vector<BlockLink> a, b;
  extend_chain(a, iota(4, 0), 4, {});
  extend_chain(b, iota(4, 100), 4, {});
  b[0].hash = a[0].hash;  // a made-up collision of the first block
  auto ta = iota(8, 0), tb = iota(8, 100);
  std::copy(ta.begin() + 4, ta.end(), tb.begin() + 4);
  extend_chain(a, ta, 4, {});
  extend_chain(b, tb, 4, {});
  EXPECT_EQ(a[1].hash, b[1].hash);
  EXPECT_NE(a[1].check, b[1].check);
}

}  // namespace
}  // namespace isotope::base
