// Models with a recurrent state through the whole engine: the same tokens and log-probabilities, to the bit, however a request runs; and no state is ever
// left over from whoever had the slot before (field report G27).
#include <gtest/gtest.h>

#include <sstream>

#include "collector.h"
#include "levers/levers.h"

namespace isotope::engine::test {
namespace {

class Hybrid : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Engine> open(EngineOptions o = {}, const std::map<std::string, std::string>& settings = {}) {
    o.model = std::string(ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/") + GetParam();
    o.kv_bytes = 64 << 20;
    if (!o.threads) o.threads = 2;
    o.max_model_len = 512;
    auto e = Engine::open(o, *levers::Levers::resolve({.environment = settings}));
    EXPECT_TRUE(e) << (e ? "" : e.error().message());
    return e ? std::move(*e) : nullptr;
  }

  /// Prompts of one seed are prefixes of each other.
  static std::vector<int32_t> prompt(int64_t n, uint32_t seed) {
    std::vector<int32_t> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = int32_t(3 + (i * 7919 + seed * 104729 + i * i * 31) % 250);
    return v;
  }
  static Request request(uint64_t id, std::vector<int32_t> prompt) {
    Request r;
    r.id = id;
    r.prompt = std::move(prompt);
    r.sampling = {.temperature = id % 2 ? 0.8f : 0.0f, .seed = id, .max_tokens = 12, .ignore_eos = true, .logprobs = 2};
    return r;
  }
  static std::vector<Request> eight() {
    const int64_t lengths[] = {1, 2, 15, 17, 33, 64, 130, 200};
    std::vector<Request> v;
    for (uint64_t i = 0; i < 8; ++i) v.push_back(request(i, prompt(lengths[i], uint32_t(i % 3))));
    v[4].sampling.prompt_logprobs = 1;
    return v;
  }
  /// Each request in an engine of its own, so that no slot has been used before.
  std::map<uint64_t, Answer> alone() {
    std::map<uint64_t, Answer> out;
    for (Request& r : eight()) {
      const auto e = open();
      if (!e) return out;
      const uint64_t id = r.id;
      out[id] = run_one(*e, std::move(r));
      EXPECT_EQ(out[id].tokens.size(), 12u);
    }
    return out;
  }
  static void expect_all(const std::map<uint64_t, Answer>& got, const std::map<uint64_t, Answer>& want, const std::string& where) {
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [id, a] : want) expect_same(got.at(id), a, where + ", request " + std::to_string(id));
  }
  static void expect_all_blocks_back(Engine& e) {
    const EngineStats s = e.stats();
    EXPECT_EQ(s.blocks_free + s.blocks_evictable, s.blocks_total);
    EXPECT_NE(e.metrics().find("isotope:kv_integrity_errors_total 0.0"), std::string::npos);
  }
};

TEST_P(Hybrid, SamePromptSameBits) {
  const auto want = alone();
  const std::pair<const char*, EngineOptions> ways[] = {
      {"together", {}},
      {"one thread, chunks of 1", {.threads = 1, .long_prefill_token_threshold = 1}},
      {"three threads, chunks of 7", {.threads = 3, .long_prefill_token_threshold = 7}},
      {"chunks of 64, three at once", {.max_num_seqs = 3, .max_num_batched_tokens = 64}},
      {"preempted every third step", {.max_num_batched_tokens = 100, .preempt_every = 3}},
      {"without prefix cache", {.prefix_caching = false}},
  };
  for (const auto& [name, options] : ways) {
    const auto e = open(options);
    ASSERT_TRUE(e);
    expect_all(run(*e, eight()), want, name);
    expect_all(run(*e, eight()), want, std::string(name) + ", again");
    EXPECT_EQ(e->stats().preemptions > 0, options.preempt_every > 0);
    expect_all_blocks_back(*e);
  }
}

TEST_P(Hybrid, ASlotKeepsNothingOfItsLastUser) {
  const auto e = open({.max_num_seqs = 1});
  ASSERT_TRUE(e);
  const auto fresh = open();
  const Answer want = run_one(*fresh, request(2, prompt(41, 8)));
  run_one(*e, request(1, prompt(90, 7)));
  expect_same(run_one(*e, request(2, prompt(41, 8))), want, "the slot's second user");
  EXPECT_EQ(e->stats(2)->cached_tokens, 0);
  EXPECT_EQ(e->stats(2)->cache_reason, CacheReason::cold);
}

/// The value of the line of that name with that label; -1 if there is none.
double metric(const Engine& e, const std::string& name, const std::string& label = "") {
  std::istringstream text(e.metrics());
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("isotope:" + name) && line.find(label) != std::string::npos) return std::stod(line.substr(line.rfind(' ') + 1));
  return -1;
}

/// A conversation that grows: each turn begins with all that was said before.
TEST_P(Hybrid, TurnsGoOnFromAStoredState) {
  const auto e = open();
  ASSERT_TRUE(e);
  int64_t before = 0;
  for (uint64_t turn = 1; turn <= 4; ++turn) {
    const int64_t n = 70 * int64_t(turn);
    const auto cold = open();
    const Answer want = run_one(*cold, request(turn, prompt(n, 3)));
    expect_same(run_one(*e, request(turn, prompt(n, 3))), want, "turn " + std::to_string(turn));
    EXPECT_EQ(e->stats(turn)->cached_tokens, before) << "turn " << turn;
    before = (n - 1) / 16 * 16;
  }
  EXPECT_EQ(e->stats(4)->cache_reason, CacheReason::block_edge);
  expect_all_blocks_back(*e);
}

/// Two prompts that part inside what is cached: the second finds blocks but no state, says so, and leaves a state for the third.
TEST_P(Hybrid, AHitWithoutAStateLeavesOneForTheNext) {
  for (const bool demand : {true, false}) {
    const auto e = open({}, {{"ATOM_STATE_CHECKPOINT_DEMAND", demand ? "1" : "0"}});
    ASSERT_TRUE(e);
    const auto with_tail = [&](int32_t tail) {
      auto p = prompt(150, 4);
      for (size_t i = 100; i < p.size(); ++i) p[i] = 3 + (p[i] + tail) % 250;
      return p;
    };
    run_one(*e, request(1, with_tail(0)));
    for (uint64_t id : {2, 3}) {
      const auto cold = open();
      const Answer want = run_one(*cold, request(id, with_tail(int32_t(id))));
      expect_same(run_one(*e, request(id, with_tail(int32_t(id)))), want, "request " + std::to_string(id));
    }
    EXPECT_EQ(e->stats(2)->cached_tokens, 0);
    EXPECT_EQ(e->stats(2)->cache_reason, CacheReason::no_checkpoint);
    EXPECT_EQ(e->stats(3)->cached_tokens, demand ? 96 : 0);
    EXPECT_GT(metric(*e, "state_checkpoint_demands_total"), demand ? 0 : -1);
  }
}

TEST_P(Hybrid, SettingsOfCheckpointsDecideWhereStatesAreStored) {
  struct Case {
    const char *interval, *margin;
    int64_t cached;  ///< of the same prompt of 100 tokens with another end, from token `parts` on
    size_t parts;
  };
  const Case cases[] = {{"-1", "0", 96, 99}, {"-1", "20", 80, 99}, {"32", "0", 64, 70}, {"-1", "0", 0, 70}, {"0", "0", 0, 99}, {"40", "0", 64, 70}};
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << c.interval << ", margin " << c.margin);
    const auto e = open({}, {{"ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS", c.interval}, {"ATOM_STATE_CHECKPOINT_END_MARGIN", c.margin}});
    ASSERT_TRUE(e);
    run_one(*e, request(1, prompt(100, 5)));
    auto other = prompt(100, 5);
    for (size_t i = c.parts; i < other.size(); ++i) other[i] = 3 + other[i] % 250;
    const auto cold = open();
    const Answer want = run_one(*cold, request(2, std::vector<int32_t>(other)));
    expect_same(run_one(*e, request(2, std::move(other))), want, "answer");
    EXPECT_EQ(e->stats(2)->cached_tokens, c.cached);
    EXPECT_EQ(metric(*e, "state_checkpoints_total", "outcome=\"kept\"") > 0, std::string(c.interval) != "0");
  }
}

/// More prefixes than slots: the oldest states go, requests never fail or wait for them, and answers stay.
TEST_P(Hybrid, StatesGiveWayToRequests) {
  const auto want = alone();
  const auto e = open({.max_num_seqs = 2, .max_num_batched_tokens = 64}, {{"ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS", "16"}});
  ASSERT_TRUE(e);
  for (int round = 0; round < 3; ++round) expect_all(run(*e, eight()), want, "round " + std::to_string(round));
  expect_all_blocks_back(*e);
}

INSTANTIATE_TEST_SUITE_P(Models, Hybrid, testing::Values("qwen3_next", "qwen3_5", "lfm2", "mamba", "mamba2", "granitemoehybrid", "nemotron_h_latent", "falcon_h1", "jamba",
                                         "kimi_linear", "minimax", "olmo_hybrid", "bailing_hybrid"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace isotope::engine::test
