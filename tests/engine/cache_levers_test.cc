// Memo, fast walk and front-end hashing on and off: the same tokens and the same hits, by other ways.
#include <gtest/gtest.h>

#include "fixture.h"

namespace isotope::engine::test {
namespace {

struct Setting {
  const char* name;
  bool frontend, fast, memo;
};
constexpr Setting kSettings[] = {{"all on", true, true, true},
                                 {"engine hashes", false, true, true},
                                 {"slow walk", true, false, true},
                                 {"no memo", true, true, false},
                                 {"all off", false, false, false}};

double metric(const Engine& e, const std::string& name) {
  const std::string text = e.metrics();
  const size_t at = text.find("\n" + name);
  if (at == std::string::npos) return -1;
  return std::stod(text.substr(text.find(' ', at) + 1));
}
double count(Rig& rig, const char* name, const char* labels = "") {
  return metric(*rig, std::string("isotope:") + name + "_total" + (*labels ? std::string("{") + labels : std::string()));
}

/// Cached tokens and reasons of a mixed crowd: shared prefixes of every length around block edges, little memory, few slots.
std::vector<std::string> crowd(Rig& rig, const char* name) {
  std::vector<Request> all;
  const SamplingParams p{.temperature = 1, .seed = 5, .max_tokens = 6, .ignore_eos = true, .logprobs = 1};
  std::map<uint64_t, std::vector<int32_t>> prompts;
  for (uint64_t i = 0; i < 40; ++i) {
    auto prompt = prompt_of(40, uint32_t(i % 3));
    prompt.resize(size_t(9 + i % 30));
    if (i % 4 == 1) prompt[prompt.size() / 2] = 1;
    prompts[i] = prompt;
    all.push_back(request(i, prompt, p));
  }
  const auto got = run(*rig, std::move(all));
  std::vector<std::string> shape;
  for (const auto& [id, prompt] : prompts) {
    expect_same(got.at(id), expected(prompt, p, rig.setup.groups), name);
    const auto s = rig->stats(id);
    shape.push_back(std::to_string(s->cached_tokens) + "/" + std::to_string(int(s->cache_reason)) + "@" + std::to_string(s->cache_position));
  }
  return shape;
}

TEST(CacheLevers, SameTokensAndSameHitsByOtherWays) {
  const std::vector<kv::GroupConfig> layouts[] = {{{26, 0}}, {{26, 0}, {24, 10}}, {{24, 9}}};  // little enough that some wait
  for (const auto& groups : layouts) {
    std::vector<std::string> first;
    for (const Setting& s : kSettings) {
      Layout l{.groups = groups, .max_model_len = 64};
      l.options.max_num_seqs = 4;
      l.kv_options = {.fast_walk = s.fast, .walk_memo = s.memo};
      l.frontend_hash = s.frontend;
      Rig rig(l);
      const auto shape = crowd(rig, s.name);
      if (first.empty()) first = shape;
      EXPECT_EQ(shape, first) << s.name;
      EXPECT_EQ(count(rig, "prefix_hash_adopted", "") > 0, s.frontend) << s.name;
      EXPECT_EQ(count(rig, "prefix_hash_engine_blocks") > 0, !s.frontend) << s.name;
      if (s.memo) EXPECT_GT(count(rig, "prefix_walk_memo_hits"), 0) << s.name;
      if (!s.memo) EXPECT_EQ(count(rig, "prefix_walk_memo_hits"), 0) << s.name;
    }
  }
}

TEST(CacheLevers, ReasonsReachTheStatistics) {
  Rig rig({});
  const SamplingParams p{.temperature = 0, .max_tokens = 2, .ignore_eos = true};
  auto prompt = prompt_of(30);
  const auto go = [&](uint64_t id, std::vector<int32_t> t, const char* salt, int64_t from) {
    Request r = request(id, std::move(t), p);
    r.cache_salt = salt;
    r.salt_from = from;
    run_one(*rig, std::move(r));
    return *rig->stats(id);
  };
  EXPECT_EQ(go(1, prompt, "", 0).cache_reason, CacheReason::cold);
  auto other = prompt;
  other[17] = 3 + (other[17] == 3);
  const RequestStats s = go(2, other, "", 0);
  EXPECT_EQ(s.cached_tokens, 16);
  EXPECT_EQ(s.cache_reason, CacheReason::token);
  EXPECT_EQ(s.cache_position, 17);
  EXPECT_EQ(go(3, prompt, "me", 0).cache_reason, CacheReason::salt);
  EXPECT_EQ(go(4, prompt, "me", 0).cached_tokens, 28);
  const RequestStats later = go(5, prompt, "you", 12);  // private from token 12 on
  EXPECT_EQ(later.cached_tokens, 12);
  EXPECT_EQ(later.cache_reason, CacheReason::salt);
  EXPECT_EQ(later.cache_position, 12);
  EXPECT_EQ(go(6, prompt, "you", 12).cached_tokens, 28);
  EXPECT_EQ(go(7, prompt, "them", 12).cached_tokens, 12);
}

/// Field report G17: the prefix of one tenant (or adapter) is never reused for another, whatever the order, and answers do not mix.
TEST(CacheLevers, TenantsNeverShareWhatIsTheirs) {
  Rig rig({.groups = {{512, 0}}});
  const SamplingParams p{.temperature = 0, .max_tokens = 8, .ignore_eos = true, .logprobs = 0};
  const auto prompt = prompt_of(41);
  const Answer want = expected(prompt, p, rig.setup.groups);
  uint64_t id = 1;
  for (int round = 0; round < 3; ++round)
    for (const char* salt : {"a", "b", "", "ab"}) {
      Request r = request(id, prompt, p);
      r.cache_salt = salt;
      expect_same(run_one(*rig, std::move(r)), want, salt);
      EXPECT_EQ(rig->stats(id++)->cached_tokens, round ? 40 : 0) << salt;
    }
}

TEST(CacheLevers, PinnedPrefixesOutliveTheCrowd) {
  Layout l{.groups = {{24, 0}}, .max_model_len = 64};
  Rig rig(l);
  const SamplingParams p{.temperature = 0, .max_tokens = 1, .ignore_eos = true};
  const auto prompt = prompt_of(33, 9);
  for (const double ttl : {0.0, 60.0}) {
    Request r = request(1, prompt, p);
    r.pin_tokens = 32;
    r.pin_s = ttl;
    run_one(*rig, std::move(r));
    for (uint64_t i = 0; i < 6; ++i) run_one(*rig, request(10 + i, prompt_of(60, uint32_t(100 + i + uint64_t(ttl))), p));
    run_one(*rig, request(2, prompt, p));
    EXPECT_EQ(rig->stats(2)->cached_tokens, ttl > 0 ? 32 : 0);
    ASSERT_TRUE(rig->reset_prefix_cache());
  }
}

}  // namespace
}  // namespace isotope::engine::test
