// Why a hit ends where it ends.
#include <gtest/gtest.h>

#include <numeric>

#include "kv/manager.h"

namespace isotope::kv {
namespace {

constexpr int B = 4;
using Tokens = std::vector<int32_t>;
using Cause = Miss::Cause;

Tokens iota(int64_t n) {
  Tokens v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

struct Who {
  const char* salt = "";
  const char* lora = "";
  int64_t salted_from = 0;
};

struct Result {
  int64_t hit;
  Miss miss;
};

Result request(Manager& m, const Tokens& t, Who who = {}) {
  SeqBlocks s;
  if (who.salted_from) {
    s.key.salt = base::cache_seed({.salt = who.salt});
    s.key.salted_from = who.salted_from;
  } else {
    s.key = base::cache_seed({.salt = who.salt, .lora = who.lora});
  }
  s.labels = {.salt = who.salt, .lora = who.lora};
  m.hash_prompt(s, t, nullptr);
  const int64_t hit = m.claim(s, t, (int64_t(t.size()) - 1) / B) * B;
  for (int64_t p = hit; p < int64_t(t.size());) {
    p = std::min<int64_t>(p + B, int64_t(t.size()));
    EXPECT_TRUE(m.grow(s, p));
    m.commit(s, t, p);
  }
  m.release(s);
  return {hit, s.miss};
}

void expect(Manager& m, const Tokens& t, Who who, int64_t hit, Miss miss, const char* what) {
  const Result r = request(m, t, who);
  EXPECT_EQ(r.hit, hit) << what;
  EXPECT_EQ(int(r.miss.cause), int(miss.cause)) << what;
  EXPECT_EQ(r.miss.position, miss.position) << what;
}

TEST(Explain, NamesCauseAndPosition) {
  Manager m(B, std::vector<GroupConfig>{{64, 0}}, true);
  auto t = iota(22);
  expect(m, t, {}, 0, {Cause::cold, 0}, "an empty cache");
  expect(m, t, {}, 20, {}, "all whole blocks are reused, and nothing more was there");
  auto u = t;
  u[13] = 99;
  expect(m, u, {}, 12, {Cause::token, 13}, "differs inside a block");
  u = t;
  u[12] = 98;
  expect(m, u, {}, 12, {Cause::token, 12}, "differs at a block's edge");
  expect(m, Tokens(t.begin(), t.begin() + 20), {}, 16, {Cause::block_edge, 20}, "the last block is never matched");
  expect(m, Tokens(t.begin(), t.begin() + 18), {}, 16, {Cause::block_edge, 18}, "shares a part of the next block");
  expect(m, iota(40), {}, 20, {Cause::block_edge, 20}, "goes on where the cached prefix ends");
  expect(m, Tokens{50, 51, 52, 53, 54, 55}, {}, 0, {Cause::cold, 0}, "begins otherwise");
  expect(m, Tokens{0, 1}, {}, 0, {Cause::block_edge, 0}, "shorter than a block");
  u = Tokens(t.begin(), t.begin() + 18);
  u[17] = 97;
  expect(m, u, {}, 16, {Cause::token, 17}, "differs in the last, incomplete block");
}

TEST(Explain, SaltAndAdapterKeepApart) {
  Manager m(B, std::vector<GroupConfig>{{64, 0}}, true);
  const auto t = iota(22);
  request(m, t);
  expect(m, t, {.salt = "a"}, 0, {Cause::salt, 0}, "nothing under this salt");
  expect(m, t, {.salt = "a"}, 20, {}, "now there is");
  expect(m, t, {.salt = "b"}, 0, {Cause::salt, 0}, "another salt");
  expect(m, t, {.lora = "x"}, 0, {Cause::lora, 0}, "nothing under this adapter");
  expect(m, t, {.lora = "x"}, 20, {}, "now there is");
  expect(m, t, {}, 20, {}, "the plain one is still there");
  expect(m, t, {.salt = "a", .salted_from = 12}, 12, {Cause::salt, 12}, "public until token 12");
  expect(m, t, {.salt = "a", .salted_from = 12}, 20, {}, "and now private after it");
  expect(m, t, {.salt = "b", .salted_from = 12}, 12, {Cause::salt, 12}, "another tenant");
  expect(m, t, {.salt = "b", .salted_from = 15}, 20, {}, "the block that holds token 15 begins at 12");
}

TEST(Explain, EvictedAndWindow) {
  Manager m(B, std::vector<GroupConfig>{{12, 0}}, true);
  const auto t = iota(40);
  request(m, t);
  request(m, Tokens(24, 7));  // takes two free blocks, then evicts four: the tail of `t` went first
  expect(m, t, {}, 24, {Cause::evicted, 24}, "evicted");
  Manager w(B, std::vector<GroupConfig>{{64, 0}, {5, 8}}, true);
  request(w, t);
  expect(w, Tokens(t.begin(), t.begin() + 21), {}, 0, {Cause::window, 0}, "the window before token 20 is gone");
}

TEST(Explain, OptOutAndNoCacheSayNothing) {
  Manager off(B, std::vector<GroupConfig>{{64, 0}}, false);
  EXPECT_EQ(request(off, iota(22)).miss, Miss{});
  Manager m(B, std::vector<GroupConfig>{{64, 0}}, true);
  SeqBlocks s;
  s.cacheable = false;
  const auto t = iota(22);
  m.hash_prompt(s, t, nullptr);
  EXPECT_EQ(m.claim(s, t, 5), 0);
  EXPECT_EQ(s.miss, Miss{});
}

TEST(Pins, KeepAPrefixWhileThereIsAnotherToGiveUp) {
  Manager m(B, std::vector<GroupConfig>{{12, 0}}, true);
  const auto t = iota(20);
  m.set_time(1000);
  SeqBlocks s;
  s.pin_blocks = 4;
  s.pin_ns = 500;
  m.hash_prompt(s, t, nullptr);
  m.claim(s, t, 4);
  ASSERT_TRUE(m.grow(s, 20));
  m.commit(s, t, 20);
  m.release(s);
  EXPECT_EQ(m.pool(0).pinned(), 4);
  const auto hit = [&] { return m.match(s, t, 19).blocks; };
  for (int i = 0; i < 8; ++i) request(m, Tokens(28, 100 + i));
  EXPECT_EQ(hit(), 4) << "others were evicted";
  request(m, Tokens(44, 50));  // eleven blocks: three pinned ones have to go all the same
  EXPECT_EQ(hit(), 1);
  EXPECT_EQ(m.check_integrity({}), nullptr);
  m.set_time(1500);
  EXPECT_EQ(m.pool(0).pinned(), 0);
  request(m, Tokens(8, 60));
  EXPECT_EQ(hit(), 0) << "the pin has ended, so the oldest goes first";
  EXPECT_EQ(m.check_integrity({}), nullptr);
}

TEST(Pins, AreRenewedAndEnd) {
  Manager m(B, std::vector<GroupConfig>{{16, 0}}, true);
  const auto t = iota(9);
  const auto pinned_request = [&](int64_t now, int64_t ttl) {
    m.set_time(now);
    SeqBlocks s;
    s.pin_blocks = 2;
    s.pin_ns = ttl;
    m.hash_prompt(s, t, nullptr);
    m.claim(s, t, 2);
    ASSERT_TRUE(m.grow(s, 9));
    m.commit(s, t, 9);
    m.release(s);
  };
  pinned_request(0, 100);
  pinned_request(50, 100);  // a full hit renews it
  m.set_time(120);
  EXPECT_EQ(m.pool(0).pinned(), 2);
  pinned_request(121, 5);  // a shorter one takes nothing away
  m.set_time(130);
  EXPECT_EQ(m.pool(0).pinned(), 2);
  m.set_time(150);
  EXPECT_EQ(m.pool(0).pinned(), 0);
  for (int i = 0; i < 1000; ++i) pinned_request(200 + i, 1000);
  EXPECT_EQ(m.pool(0).pinned(), 2);
  m.forget_prefixes();
  EXPECT_EQ(m.pool(0).pinned(), 0);
  EXPECT_EQ(m.check_integrity({}), nullptr);
}

}  // namespace
}  // namespace isotope::kv
