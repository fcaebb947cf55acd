// Same prompt, same bits on published models through the whole engine: alone, in a batch of 16, chunked at 7 and at 512, after
// prefix hits, after preemption, with 1, 2 and 3 threads. Tokens and log-probabilities are compared as bits.
#include <gtest/gtest.h>

#include "collector.h"
#include "levers/levers.h"
#include "support/models.h"

namespace isotope::engine::test {
namespace {

constexpr int kBlock = 16;

Request request(uint64_t id, std::vector<int32_t> prompt, SamplingParams p) {
  Request r;
  r.id = id;
  r.prompt = std::move(prompt);
  r.sampling = std::move(p);
  return r;
}

class RealModel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = isotope::test::cached_model(GetParam());
    if (path_.empty()) GTEST_SKIP() << "scripts/fetch-model " << GetParam() << " brings the model";
  }

  std::unique_ptr<Engine> open(EngineOptions o = {}, const std::map<std::string, std::string>& settings = {}) {
    o.model = path_;
    if (!o.kv_bytes) o.kv_bytes = 256 << 20;
    if (!o.threads) o.threads = 2;
    auto e = Engine::open(o, *levers::Levers::resolve({.environment = settings}));
    EXPECT_TRUE(e) << (e ? "" : e.error().message());
    return e ? std::move(*e) : nullptr;
  }

  /// Plain words of the vocabulary, the same for every run; prompts of one seed are prefixes of each other.
  static std::vector<int32_t> prompt(int64_t n, uint32_t seed) {
    std::vector<int32_t> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = int32_t(300 + (i * 7919 + seed * 104729 + i * i * 31) % 40000);
    return v;
  }

  static SamplingParams params(uint64_t i) {
    SamplingParams p{.temperature = 0, .seed = i, .max_tokens = 10, .ignore_eos = true, .logprobs = 2};
    if (i % 3 == 1) p.temperature = 0.8f, p.top_p = 0.95f, p.repetition_penalty = 1.1f, p.frequency_penalty = 0.2f;
    if (i % 3 == 2) p.temperature = 1.0f, p.top_k = 50, p.min_p = 0.01f, p.presence_penalty = 0.3f;
    return p;
  }

  /// Sixteen requests; lengths around block edges, one beyond Gemma's window of 512, some prefixes of others.
  static std::vector<Request> sixteen() {
    const int64_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 130, 7, 590};
    std::vector<Request> v;
    for (uint64_t i = 0; i < 16; ++i) {
      v.push_back(request(i, prompt(lengths[i], uint32_t(i % 2)), params(i)));
      if (i == 5 || i == 12) v.back().sampling.prompt_logprobs = 1;
    }
    return v;
  }

  /// Each request alone in the engine, nothing cached.
  std::map<uint64_t, Answer> alone(Engine& e) {
    std::map<uint64_t, Answer> out;
    for (Request& r : sixteen()) {
      const uint64_t id = r.id;
      r.use_prefix_cache = false;
      out[id] = run_one(e, std::move(r));
    }
    return out;
  }

  void expect_all(const std::map<uint64_t, Answer>& got, const std::map<uint64_t, Answer>& want, const std::string& where) {
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [id, a] : want) expect_same(got.at(id), a, where + ", request " + std::to_string(id));
  }

  static void expect_all_blocks_back(Engine& e) {
    const EngineStats s = e.stats();
    EXPECT_EQ(s.blocks_free + s.blocks_evictable, s.blocks_total);
  }

  std::string path_;
};

TEST_P(RealModel, SamePromptSameBits) {
  const auto plain = open();
  ASSERT_TRUE(plain);
  const auto want = alone(*plain);
  for (const auto& [id, a] : want) {
    ASSERT_EQ(a.tokens.size(), 10u);
    for (const auto& l : a.logprobs) ASSERT_TRUE(l.logprob <= 0 && l.logprob > -9999);
  }
  expect_all(run(*plain, sixteen()), want, "together");
  expect_all(run(*plain, sixteen()), want, "together, prefixes cached");
  EXPECT_GT(plain->stats().prefix_hits, 0);
  expect_all_blocks_back(*plain);

  const std::pair<const char*, EngineOptions> others[] = {
      {"one thread, chunks of 7", {.threads = 1, .long_prefill_token_threshold = 7}},
      {"three threads, budget of 512", {.threads = 3, .max_num_batched_tokens = 512}},
      {"two engines, one thread each", {.data_parallel_size = 2, .max_model_len = 1024}},
      {"five engines on two threads", {.data_parallel_size = 5, .dp_load_balance = "least_tokens", .max_model_len = 1024}},
      {"preempted every third step, budget of 100", {.max_num_batched_tokens = 100, .preempt_every = 3}},
  };
  for (const auto& [name, options] : others) {
    const auto e = open(options);
    ASSERT_TRUE(e);
    EXPECT_EQ(e->info().fingerprint, plain->info().fingerprint);
    expect_all(run(*e, sixteen()), want, name);
    EXPECT_EQ(e->stats().preemptions > 0, options.preempt_every > 0);
    expect_all_blocks_back(*e);
  }
}

/// Settings of the scheduler and of the prefix cache choose when and how a token comes about, never which.
TEST_P(RealModel, SettingsNeverChangeATokenOrABit) {
  const auto plain = open();
  ASSERT_TRUE(plain);
  const auto want = run(*plain, sixteen());
  struct Case {
    const char* name;
    EngineOptions options;
    std::map<std::string, std::string> settings;
  };
  const Case cases[] = {
      {"prefill delayer", {.max_num_seqs = 6, .max_num_batched_tokens = 256}, {{"ATOM_PREFILL_DECODE_INTERVAL", "3"}}},
      {"two engines that step together", {.data_parallel_size = 2, .max_model_len = 1024, .max_num_seqs = 4, .max_num_batched_tokens = 256},
       {{"ISOTOPE_DP_LOCKSTEP", "1"}, {"ATOM_DP_PREFILL_BALANCE_MIN_TOKENS", "16"}, {"ATOM_DP_PREFILL_BALANCE_SLACK", "0"}}},
      {"memo, fast walk and front-end hashes off", {},
       {{"ATOM_PREFIX_WALK_MEMO", "0"}, {"ATOM_PREFIX_FAST_WALK", "0"}, {"ATOM_FRONTEND_PREFIX_HASH", "0"}}},
  };
  for (const Case& c : cases) {
    const auto e = open(c.options, c.settings);
    ASSERT_TRUE(e);
    EXPECT_EQ(e->info().fingerprint, plain->info().fingerprint) << c.name;
    expect_all(run(*e, sixteen()), want, c.name);
    expect_all(run(*e, sixteen()), want, std::string(c.name) + ", prefixes cached");
    expect_all_blocks_back(*e);
  }
}

TEST_P(RealModel, PrefixHitsOfEveryLengthAroundBlockEdges) {
  const auto e = open();
  ASSERT_TRUE(e);
  const auto base = prompt(3 * kBlock + 2, 5);
  const SamplingParams p{.temperature = 0, .max_tokens = 4, .ignore_eos = true, .logprobs = 1};
  uint64_t id = 0;
  for (const int64_t shared : {0, 1, 15, 16, 17, 31, 32, 33, 47, 48, 49}) {
    auto mine = base;
    mine.resize(size_t(3 * kBlock + 1));
    if (shared < int64_t(mine.size())) mine[size_t(shared)] += 1;
    Request cold = request(id++, mine, p);
    cold.use_prefix_cache = false;
    const Answer want = run_one(*e, std::move(cold));
    ASSERT_TRUE(e->reset_prefix_cache());
    run_one(*e, request(id++, base, p));
    const uint64_t warm = id++;
    expect_same(run_one(*e, request(warm, mine, p)), want, "shared " + std::to_string(shared));
    EXPECT_EQ(e->stats(warm)->cached_tokens, std::min<int64_t>(shared, 3 * kBlock) / kBlock * kBlock);
  }
}

TEST_P(RealModel, TheSameRequestThreeTimes) {  // field report X15; the second and third find all of the prompt cached that may be
  const auto e = open();
  ASSERT_TRUE(e);
  uint64_t id = 0;
  for (const int64_t length : {3 * kBlock, 3 * kBlock + 5}) {
    const SamplingParams p{.temperature = 0, .max_tokens = 8, .ignore_eos = true, .logprobs = 2};
    const Answer first = run_one(*e, request(++id, prompt(length, 9), p));
    for (int again = 0; again < 2; ++again) {
      expect_same(run_one(*e, request(++id, prompt(length, 9), p)), first, "prompt of " + std::to_string(length));
      const auto s = e->stats(id);
      EXPECT_EQ(s->cached_tokens, (length - 1) / kBlock * kBlock) << "at least one token is computed";
      EXPECT_EQ(s->chunks, 1);
    }
    ASSERT_TRUE(e->reset_prefix_cache());
  }
}

TEST_P(RealModel, APoolForOneAndAHalfSequences) {  // field report G30
  const auto roomy = open();
  ASSERT_TRUE(roomy);
  const int64_t per_token = roomy->info().kv_bytes_per_token;
  // Sequences reach 64 tokens; the pool has room for about 96.
  const auto tight = open({.max_model_len = 64, .kv_bytes = per_token * 96 + per_token * kBlock / 2});
  ASSERT_TRUE(tight);
  const auto requests = [&] {
    std::vector<Request> v;
    for (uint64_t i = 0; i < 8; ++i) {
      SamplingParams p = params(i);
      p.max_tokens = 40;
      v.push_back(request(i, prompt(int64_t(8 + i), uint32_t(i)), p));
    }
    return v;
  };
  const auto want = run(*roomy, requests());
  expect_all(run(*tight, requests()), want, "pool of one and a half sequences");
  EXPECT_GT(tight->stats().preemptions, 0);
  expect_all_blocks_back(*tight);
}

INSTANTIATE_TEST_SUITE_P(Published, RealModel, testing::Values("smollm2-135m", "gemma3-270m"),
                         [](const auto& i) { return std::string(i.param).substr(0, std::string(i.param).find('-')); });

}  // namespace
}  // namespace isotope::engine::test
