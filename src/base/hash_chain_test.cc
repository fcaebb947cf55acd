#include "base/hash_chain.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <set>

namespace isotope::base {
namespace {

std::vector<int32_t> iota(int n) {
  std::vector<int32_t> v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 7);
  return v;
}

TEST(HashChain, IsTheEnginesOwnChain) {
  for (const int n : {0, 1, 15, 16, 17, 64, 1000}) {
    const auto t = iota(n);
    const HashChain c = hash_prompt(t, 16, 5);
    std::vector<BlockLink> own;
    extend_chain(own, t, 16, 5);
    EXPECT_EQ(c.links, own) << n;
    EXPECT_EQ(check_chain(c, t, 16, 5), ChainFault::none) << n;
  }
}

TEST(HashChain, EveryDamageIsFound) {
  const auto t = iota(100);
  const struct {
    ChainFault fault;
    std::function<void(HashChain&)> damage;
  } cases[] = {
      {ChainFault::block_size, [](HashChain& c) { c.block_size = 32; }},
      {ChainFault::seed, [](HashChain& c) { c.key = 6; }},
      {ChainFault::seed, [](HashChain& c) { c.key.salt = 1; }},
      {ChainFault::length, [](HashChain& c) { ++c.tokens; }},
      {ChainFault::length, [](HashChain& c) { c.links.pop_back(); }},
      {ChainFault::length, [](HashChain& c) { c.links.push_back({}); }},
      {ChainFault::fingerprint, [](HashChain& c) { ++c.fingerprint; }},
      {ChainFault::link, [](HashChain& c) { ++c.links[0].hash; }},
      {ChainFault::link, [](HashChain& c) { ++c.links[3].hash; }},
      {ChainFault::link, [](HashChain& c) { ++c.links[5].check; }},
  };
  for (const auto& k : cases) {
    HashChain c = hash_prompt(t, 16, 5);
    k.damage(c);
    EXPECT_EQ(check_chain(c, t, 16, 5), k.fault);
  }
  auto other = t;
  other[50] ^= 1;
  EXPECT_EQ(check_chain(hash_prompt(t, 16, 5), other, 16, 5), ChainFault::fingerprint);
}

TEST(ChainKey, SaltFromATokenOnSharesWhatComesBefore) {
  const auto t = iota(96);
  const auto chain = [&](const ChainKey& key) { return hash_prompt(t, 16, key).links; };
  const auto plain = chain({});
  for (const int64_t from : {16, 17, 31, 32, 95}) {
    ChainKey a, b;
    a.salt = 1, b.salt = 2;
    a.salted_from = b.salted_from = from;
    const auto ca = chain(a), cb = chain(b);
    for (size_t i = 0; i < plain.size(); ++i) {
      const bool shared = int64_t(i + 1) * 16 <= from;
      EXPECT_EQ(ca[i] == plain[i], shared) << from << ' ' << i;
      EXPECT_EQ(ca[i] == cb[i], shared) << from << ' ' << i;
      EXPECT_EQ(ca[i].hash == plain[i].hash, shared);
    }
    EXPECT_NE(parent_of(ca, from / 16, 16, a), parent_of(cb, from / 16, 16, b));
  }
}

/// Field report: a second-tier key left the adapter out. One function makes every key, and every field counts in it.
TEST(CacheIdentity, EveryFieldCounts) {
  const CacheIdentity base{.model = "m", .revision = "r", .salt = "s", .lora = "l", .lora_scale = 2, .kv_dtype = "bf16", .block_size = 16};
  std::set<std::optional<uint64_t>> seen{cache_seed(base)};
  const auto differs = [&](auto change) {
    CacheIdentity id = base;
    change(id);
    EXPECT_TRUE(seen.insert(cache_seed(id)).second);
  };
  differs([](CacheIdentity& i) { i.model = "n"; });
  differs([](CacheIdentity& i) { i.revision = "q"; });
  differs([](CacheIdentity& i) { i.salt = "t"; });
  differs([](CacheIdentity& i) { i.salt = ""; });
  differs([](CacheIdentity& i) { i.lora = "k"; });
  differs([](CacheIdentity& i) { i.lora_scale = 1; });
  differs([](CacheIdentity& i) { i.lora_scale = 0.5; });
  differs([](CacheIdentity& i) { i.kv_dtype = "f32"; });
  differs([](CacheIdentity& i) { i.block_size = 32; });
  differs([](CacheIdentity& i) { std::swap(i.model, i.revision); });
  differs([](CacheIdentity& i) { i.lora = {}; });
  EXPECT_EQ(cache_seed({.lora_scale = 3}), std::nullopt) << "a scale without an adapter says nothing";
}

}  // namespace
}  // namespace isotope::base
