#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace isotope::sample {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> noise(size_t n, float scale = 2, uint32_t seed = 1) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> d(0, scale);
  std::vector<float> v(n);
  for (float& x : v) x = d(rng);
  return v;
}

/// The tokens that 4000 draws give, with their shares.
std::map<int32_t, double> draws(std::span<const float> logits, const SamplingParams& p, int n = 4000) {
  Sampler s(int64_t(logits.size()));
  std::map<int32_t, double> seen;
  for (int i = 0; i < n; ++i) ++seen[s.choose({.logits = logits, .params = &p, .seed = uint64_t(i)})];
  for (auto& [id, share] : seen) share /= n;
  return seen;
}

const std::vector<float> kLogits{std::log(0.4f), std::log(0.3f), std::log(0.15f), std::log(0.1f), std::log(0.05f)};

struct TruncationCase {
  const char* name;
  SamplingParams params;
  std::vector<double> want;  ///< share of each token
};
void PrintTo(const TruncationCase& c, std::ostream* o) {
  *o << c.name;
}

class Truncation : public testing::TestWithParam<TruncationCase> {};

TEST_P(Truncation, SharesAreRenormalised) {
  auto seen = draws(kLogits, GetParam().params);
  for (size_t i = 0; i < kLogits.size(); ++i) {
    EXPECT_NEAR(seen[int32_t(i)], GetParam().want[i], 0.03) << i;
    if (GetParam().want[i] == 0) {
      EXPECT_EQ(seen[int32_t(i)], 0) << i;
    }
  }
}

const TruncationCase kCases[] = {
    {"none", {}, {0.4, 0.3, 0.15, 0.1, 0.05}},
    {"temperature", {.temperature = 0.5f}, {0.5614, 0.3158, 0.0789, 0.0351, 0.0088}},
    {"top_k", {.top_k = 2}, {0.5714, 0.4286, 0, 0, 0}},
    {"top_k_off", {.top_k = 5}, {0.4, 0.3, 0.15, 0.1, 0.05}},
    {"top_k_huge", {.top_k = 9999999}, {0.4, 0.3, 0.15, 0.1, 0.05}},
    {"top_k_minus_one", {.top_k = -1}, {0.4, 0.3, 0.15, 0.1, 0.05}},
    {"top_p", {.top_p = 0.6f}, {0.5714, 0.4286, 0, 0, 0}},
    {"top_p_tiny", {.top_p = 1e-4f}, {1, 0, 0, 0, 0}},
    {"top_p_after_top_k", {.top_k = 3, .top_p = 0.8f}, {0.5714, 0.4286, 0, 0, 0}},  // 0.47 + 0.35 of the three reach 0.8
    {"min_p", {.min_p = 0.3f}, {0.4706, 0.3529, 0.1765, 0, 0}},
    {"min_p_with_top_p", {.top_p = 0.99f, .min_p = 0.3f}, {0.4706, 0.3529, 0.1765, 0, 0}},
    {"typical", {.typical_p = 0.25f}, {0, 1, 0, 0, 0}},  // entropy 1.39; surprises 0.92, 1.20, 1.90 …: 0.3 is the most typical
    {"typical_two", {.typical_p = 0.4f}, {0.5714, 0.4286, 0, 0, 0}},
    {"xtc", {.xtc_probability = 1, .xtc_threshold = 0.12f}, {0, 0, 0.5, 0.3333, 0.1667}},
    {"xtc_with_one_above", {.xtc_probability = 1, .xtc_threshold = 0.35f}, {0.4, 0.3, 0.15, 0.1, 0.05}},
    {"xtc_half", {.xtc_probability = 0.5, .xtc_threshold = 0.12f}, {0.2, 0.15, 0.325, 0.2167, 0.1083}},
    {"allowed", {.allowed_token_ids = {1, 4, 1}}, {0, 0.8571, 0, 0, 0.1429}},
    {"bias", {.logit_bias = {{4, std::log(8.0f)}, {0, -100}}}, {0, 0.3158, 0.1579, 0.1053, 0.4211}},
    {"bad_word", {.bad_words = {{0}, {1, 2}}}, {0, 0.5, 0.25, 0.1667, 0.0833}},
};
INSTANTIATE_TEST_SUITE_P(Sampler, Truncation, testing::ValuesIn(kCases), [](const auto& i) { return std::string(i.param.name); });

/// The set of tokens that survive, by sorting everything.
std::set<int32_t> survivors(std::vector<float> x, const SamplingParams& p) {
  std::vector<Item> all;
  const float max = *std::max_element(x.begin(), x.end());
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const float w = float(std::exp(double((x[i] - max) / p.temperature)));
    all.push_back({w, w, int32_t(i)});
  }
  std::sort(all.begin(), all.end(), before);
  if (p.top_k > 0 && size_t(p.top_k) < all.size()) all.resize(size_t(p.top_k));
  for (auto& i : all) total += double(i.mass);
  double sum = 0;
  for (size_t i = 0; i < all.size(); ++i)
    if ((sum += double(all[i].mass)) >= double(p.top_p) * total && p.top_p < 1) all.resize(i + 1);
  std::set<int32_t> out;
  for (auto& i : all)
    if (i.mass >= p.min_p * all[0].mass) out.insert(i.id);
  return out;
}

TEST(Sampler, LargeRowsNeverLeaveTheSortedTruncation) {
  const SamplingParams cases[] = {{.top_k = 7},
                                  {.top_k = 5000},
                                  {.top_p = 0.5f},
                                  {.temperature = 3, .top_p = 0.9f},
                                  {.top_k = 5000, .top_p = 0.7f},
                                  {.min_p = 0.05f},
                                  {.temperature = 2, .top_k = 50, .top_p = 0.95f, .min_p = 0.02f}};
  const auto x = noise(20000);
  for (const auto& p : cases) {
    const auto allowed = survivors(x, p);
    std::set<int32_t> seen;
    for (const auto& [id, share] : draws(x, p, 300)) {
      EXPECT_TRUE(allowed.contains(id)) << "top_k " << p.top_k << " top_p " << p.top_p << " min_p " << p.min_p << ": " << id;
      seen.insert(id);
    }
    EXPECT_GT(seen.size(), std::min<size_t>(3, allowed.size() - 1));
  }
}

TEST(Sampler, DrawDependsOnSeedChoiceAndPositionAlone) {
  const auto x = noise(500, 0.5f);
  Sampler s(500);
  std::set<int32_t> by_position, by_choice;
  for (int64_t position = 0; position < 20; ++position) {
    SamplingParams p;
    std::vector<int32_t> few(size_t(3 + position), 1), many(size_t(90 + position), 2);
    const int32_t t = s.choose({.logits = x, .params = &p, .tokens = few, .prompt_tokens = 3, .seed = 5});
    EXPECT_EQ(s.choose({.logits = x, .params = &p, .tokens = many, .prompt_tokens = 90, .seed = 5}), t);
    by_position.insert(t);
    p.choice = int32_t(position);
    by_choice.insert(s.choose({.logits = x, .params = &p, .tokens = few, .prompt_tokens = 3 + position, .seed = 5}));
  }
  EXPECT_GT(by_position.size(), 15u);
  EXPECT_GT(by_choice.size(), 15u);
}

TEST(Sampler, SmallTemperaturesConvergeToGreedy) {  // field report G06
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto x = noise(5000, 3, seed);
    const SamplingParams greedy{.temperature = 0};
    Sampler s(int64_t(x.size()));
    const int32_t want = s.choose({.logits = x, .params = &greedy});
    for (float t : {1e-4f, 1e-5f, 1e-6f, 1e-7f, 1e-8f, FLT_MIN, 1e-45f, 0.0f})
      for (float top_p : {1.0f, 1e-4f}) {
        const SamplingParams p{.temperature = t, .top_p = top_p};
        EXPECT_EQ(s.choose({.logits = x, .params = &p, .seed = seed}), want) << t << " " << top_p;
      }
  }
}

TEST(Sampler, OddLogitsNeverCrash) {
  const std::vector<std::vector<float>> rows{{kNan, kNan, kNan}, {-kInf, -kInf, -kInf},  {kInf, kInf, 0},
                                             {kNan, 1, kInf},    {FLT_MAX, -FLT_MAX, 0}, {kNan, -kInf, 2},
                                             {0, 0, 0},          {-kInf, -FLT_MAX, kNan}};
  const SamplingParams params[] = {{.temperature = 0},
                                   {},
                                   {.top_k = 1},
                                   {.top_k = 2, .top_p = 0.3f},
                                   {.top_p = 0.3f},
                                   {.min_p = 0.9f},
                                   {.typical_p = 0.2f},
                                   {.xtc_probability = 1, .xtc_threshold = 0.0f},
                                   {.temperature = 1e30f},
                                   {.temperature = 1e-30f},
                                   {.repetition_penalty = 1.5f, .dry_multiplier = 1}};
  for (const auto& x : rows)
    for (const auto& p : params) {
      Sampler s(3);
      TokenCounts counts;
      counts.add_prompt(0);
      const std::vector<int32_t> tokens{0, 1, 0, 1};
      const int32_t t = s.choose({.logits = x, .params = &p, .tokens = tokens, .prompt_tokens = 4, .counts = &counts, .seed = 3});
      EXPECT_TRUE(t >= 0 && t < 3);
      std::vector<TokenLogprob> top;
      std::vector<Item> scratch;
      const auto lp = logprobs_of(x, t, 3, top, scratch);
      EXPECT_TRUE(lp.logprob <= 0 && lp.logprob >= -9999) << lp.logprob;
      for (const auto& l : top) EXPECT_TRUE(l.logprob <= 0 && l.logprob >= -9999);
    }
}

TEST(Sampler, NothingAllowedIsSaid) {
  const SamplingParams p{.temperature = 0, .allowed_token_ids = {2}, .bad_words = {{2}}};
  EXPECT_EQ(Sampler(5).choose({.logits = kLogits, .params = &p}), -1);
}

TEST(Sampler, EndTokensWaitForMinTokens) {
  const SamplingParams p{.temperature = 0, .min_tokens = 2};
  const int32_t end[] = {0, 1};
  const std::vector<int32_t> tokens{4, 4, 4};
  Sampler s(5);
  for (int64_t out = 0; out < 4; ++out) {
    const Row r{
        .logits = kLogits, .params = &p, .tokens = tokens, .prompt_tokens = 3 - std::min<int64_t>(out, 3), .end_tokens = end};
    EXPECT_EQ(s.choose(r), out < 2 ? 2 : 0);
  }
}

struct EvenOnly : TokenMask {
  bool fill(std::span<uint32_t> bits) override {
    for (uint32_t& b : bits) b = 0x55555555;
    return true;
  }
  bool accept(int32_t t) override { return t % 2 == 0; }
  bool finished() const override { return false; }
  void rollback(int) override {}
};

TEST(Sampler, MaskIsObeyed) {
  EvenOnly mask;
  const auto x = noise(1001);
  Sampler s(1001);
  for (float t : {0.0f, 1.0f}) {
    const SamplingParams p{.temperature = t};
    for (uint64_t seed = 0; seed < 200; ++seed)
      EXPECT_EQ(s.choose({.logits = x, .params = &p, .mask = &mask, .seed = seed}) % 2, 0);
  }
}

TEST(Processors, Penalties) {
  std::vector<float> x{2, -2, 2, 2, 2};
  TokenCounts c;
  c.add_prompt(0);
  c.add_prompt(1);
  for (int i = 0; i < 3; ++i) c.add_output(2);
  apply_penalties({.repetition_penalty = 2, .presence_penalty = 0.25f, .frequency_penalty = 0.5f}, c, x);
  EXPECT_EQ(x, (std::vector<float>{1, -4, 1 - 1.5f - 0.25f, 2, 2}));
}

TEST(Processors, CountsSurviveGrowth) {
  TokenCounts c;
  for (int32_t i = 0; i < 5000; ++i) {
    c.add_prompt(i * 7);
    for (int j = 0; j < i % 3; ++j) c.add_output(i * 7);
  }
  int n = 0;
  for (const auto& e : c.entries()) {
    if (e.token < 0) continue;
    ++n;
    EXPECT_TRUE(e.prompt);
    EXPECT_EQ(e.output, e.token / 7 % 3);
  }
  EXPECT_EQ(n, 5000);
}

TEST(Processors, BadWordsLookAtTheOutput) {
  std::vector<float> x(5, 1);
  const std::vector<std::vector<int32_t>> words{{1, 2, 3}, {4}, {2, 0}, {9, 9, 9, 9, 9}};
  const std::vector<int32_t> output{0, 1, 2};
  forbid_bad_words(words, output, x);
  EXPECT_EQ(x, (std::vector<float>{-kInf, 1, 1, -kInf, -kInf}));
}

/// DRY as its author wrote it down: for each earlier place of the last token, walk back while the texts agree.
std::map<int32_t, int64_t> dry_lengths(std::span<const int32_t> t, const std::set<int32_t>& breakers) {
  std::map<int32_t, int64_t> best;
  if (t.empty() || breakers.contains(t.back())) return best;
  const int64_t n = int64_t(t.size());
  for (int64_t i = 0; i + 1 < n; ++i) {
    if (t[size_t(i)] != t.back() || breakers.contains(t[size_t(i + 1)])) continue;
    int64_t len = 1;
    for (; i - len >= 0; ++len) {
      const int32_t previous = t[size_t(n - 1 - len)];
      if (t[size_t(i - len)] != previous || breakers.contains(previous)) break;
    }
    int64_t& b = best[t[size_t(i + 1)]];
    b = std::max(b, len);
  }
  return best;
}

TEST(Processors, DryMatchesItsDefinition) {
  std::mt19937 rng(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> t(rng() % 60 + 1);
    for (auto& x : t) x = int32_t(rng() % 4);
    SamplingParams p{.dry_multiplier = 0.8f, .dry_base = 1.5f, .dry_allowed_length = int32_t(1 + rng() % 3)};
    std::set<int32_t> breakers;
    if (rng() % 2) {
      breakers = {3};
      p.dry_sequence_breakers = {{3}};
    }
    if (rng() % 3 == 0) p.dry_penalty_last_n = int32_t(rng() % 30);
    std::span<const int32_t> text(t);
    if (p.dry_penalty_last_n >= 0 && text.size() > size_t(p.dry_penalty_last_n)) text = text.last(size_t(p.dry_penalty_last_n));
    std::vector<float> want(5, 1), got(5, 1);
    for (const auto& [id, len] : dry_lengths(text, breakers))
      if (len >= p.dry_allowed_length) want[size_t(id)] -= float(0.8f * std::pow(1.5, double(len - p.dry_allowed_length)));
    Processors{}.apply({.logits = got, .params = &p, .tokens = t, .prompt_tokens = int64_t(t.size())}, got);
    for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * std::abs(want[i])) << round << " " << i;
  }
}

TEST(Processors, DryStopsAtLongBreakers) {
  const std::vector<std::vector<int32_t>> breakers{{7, 8}};
  EXPECT_EQ(breaker_distance(std::vector<int32_t>{1, 7, 8, 2, 3}, breakers), 2);
  EXPECT_EQ(breaker_distance(std::vector<int32_t>{1, 7, 8}, breakers), 0);
  EXPECT_EQ(breaker_distance(std::vector<int32_t>{8, 7, 1}, breakers), 3);
}

TEST(Logprobs, RankAndTop) {
  std::vector<TokenLogprob> top;
  std::vector<Item> scratch;
  const auto own = logprobs_of(kLogits, 3, 2, top, scratch);
  EXPECT_NEAR(own.logprob, std::log(0.1), 1e-6);
  EXPECT_EQ(own.rank, 4);
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].token, 0);
  EXPECT_EQ(top[1].token, 1);
  EXPECT_NEAR(top[1].logprob, std::log(0.3), 1e-6);
  EXPECT_EQ(top[1].rank, 2);
  const std::vector<float> cold{0, -kInf, -1e30f};
  EXPECT_EQ(logprobs_of(cold, 1, 3, top, scratch).logprob, -9999.0f);
  EXPECT_EQ(top.size(), 2u);
}

}  // namespace
}  // namespace isotope::sample
