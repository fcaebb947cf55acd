// Contract 1 on the scheduling side: whatever shares the step, however the prompt is cut, cached or preempted, the answer is the
// same.
#include <gtest/gtest.h>

#include "fixture.h"

namespace isotope::engine::test {
namespace {

const SamplingParams kParams[] = {
    {.temperature = 0, .max_tokens = 20, .ignore_eos = true, .logprobs = 0},
    {.temperature = 1, .seed = 7, .max_tokens = 25, .ignore_eos = true, .logprobs = 3},
    {.temperature = 0.8f,
     .top_k = 20,
     .top_p = 0.9f,
     .repetition_penalty = 1.3f,
     .presence_penalty = 0.5f,
     .frequency_penalty = 0.25f,
     .seed = 11,
     .max_tokens = 30,
     .logprobs = 2,
     .prompt_logprobs = 2},
    {.temperature = 1.2f,
     .min_p = 0.02f,
     .dry_multiplier = 0.8f,
     .dry_allowed_length = 1,
     .xtc_probability = 0.5f,
     .bad_words = {{3}, {1, 2}},
     .seed = 99,
     .max_tokens = 18,
     .min_tokens = 9,
     .stop_token_ids = {5, 6, 7},
     .logprobs = 1},
    {.temperature = 0, .max_tokens = 0, .prompt_logprobs = 5},
};

struct Config {
  const char* name;
  Layout setup;
};

std::vector<Config> configs() {
  std::vector<Config> all;
  const std::vector<kv::GroupConfig> full{{256, 0}}, mixed{{256, 0}, {80, 10}, {60, 3}}, sliding{{128, 9}};
  for (const auto& [groups_name, groups] : {std::pair{"full", full}, {"mixed", mixed}, {"sliding", sliding}}) {
    const Layout base{.groups = groups};
    const auto add = [&](const char* name, auto change) {
      Layout s = base;
      change(s);
      all.push_back({name, s});
    };
    (void)groups_name;
    add("plain", [](Layout&) {});
    add("chunks of 7", [](Layout& s) { s.options.long_prefill_token_threshold = 7; });
    add("budget of 7", [](Layout& s) { s.options.max_num_batched_tokens = 7; });
    add("budget of 512", [](Layout& s) { s.options.max_num_batched_tokens = 512; });
    add("no chunking", [](Layout& s) { s.options.chunked_prefill = false; });
    add("no cache", [](Layout& s) { s.options.prefix_caching = false; });
    add("one at a time", [](Layout& s) { s.options.max_num_seqs = 1; });
    for (int k : {1, 2, 3, 7}) add("forced preemption", [k](Layout& s) { s.options.preempt_every = k; });
    add("preemption and chunks", [](Layout& s) { s.options.preempt_every = 5, s.options.max_num_batched_tokens = 6; });
  }
  return all;
}

TEST(SameBits, AloneAndTogetherInEveryConfiguration) {
  for (const Config& c : configs()) {
    Rig rig(c.setup);
    std::vector<Request> together;
    std::map<uint64_t, Answer> want;
    for (uint64_t i = 0; i < 16; ++i) {
      const auto prompt = prompt_of(int64_t(1 + i * 5), uint32_t(i / 3));  // some are prefixes of others
      const SamplingParams& p = kParams[i % std::size(kParams)];
      want[i] = expected(prompt, p, c.setup.groups);
      together.push_back(request(i, prompt, p));
    }
    const auto got = run(*rig, std::move(together));
    for (const auto& [id, a] : want) expect_same(got.at(id), a, std::string(c.name) + ", request " + std::to_string(id));
    for (uint64_t i = 0; i < 16; ++i)
      expect_same(run_one(*rig, request(i, prompt_of(int64_t(1 + i * 5), uint32_t(i / 3)), kParams[i % std::size(kParams)])),
                  want[i], std::string(c.name) + " again and alone, request " + std::to_string(i));
    if (HasFailure()) return;
  }
}

TEST(SameBits, AfterAPrefixHitOfEveryLength) {
  const std::vector<kv::GroupConfig> layouts[] = {{{64, 0}}, {{64, 0}, {30, 10}}, {{40, 6}}};
  for (const auto& groups : layouts) {
    for (int64_t shared = 0; shared <= 17; ++shared)
      for (int64_t length : {16, 17, 18, 20}) {
        if (shared > length) continue;
        Rig rig({.groups = groups});
        auto first = prompt_of(length + 3, 5);
        run_one(*rig, request(1, first, kParams[0]));
        auto prompt = first;
        prompt.resize(size_t(length));
        if (shared < length) prompt[size_t(shared)] = (prompt[size_t(shared)] + 1) % kEos;
        expect_same(run_one(*rig, request(2, prompt, kParams[1])), expected(prompt, kParams[1], groups),
                    std::to_string(shared) + " of " + std::to_string(length));
        const auto cached = rig->stats(2)->cached_tokens;
        EXPECT_EQ(cached, std::min(shared, length - 1) / kBlock * kBlock) << shared << " of " << length;
      }
  }
}

TEST(SameBits, IdenticalRequestsThreeTimes) {  // field report X15
  for (int64_t n : {8, 12, 13, 64}) {          // also exact multiples of the block
    Rig rig({});
    const auto prompt = prompt_of(n);
    const Answer want = expected(prompt, kParams[1], rig.setup.groups);
    for (uint64_t i = 0; i < 3; ++i) {
      expect_same(run_one(*rig, request(i, prompt, kParams[1])), want, std::to_string(n));
      EXPECT_EQ(rig->stats(i)->cached_tokens, i == 0 ? 0 : (n - 1) / kBlock * kBlock);
    }
  }
}

TEST(SameBits, ChoicesDifferAndChoiceZeroIsTheSingleRun) {  // field report X16
  Rig rig({});
  const auto prompt = prompt_of(10);
  SamplingParams p{.temperature = 1, .seed = 7, .max_tokens = 12, .ignore_eos = true, .logprobs = 1};
  const Answer single = run_one(*rig, request(9, prompt, p));
  for (int round = 0; round < 2; ++round) {
    std::vector<Request> three;
    for (int32_t c = 0; c < 3; ++c) {
      p.choice = c;
      three.push_back(request(uint64_t(c), prompt, p));
    }
    auto got = run(*rig, std::move(three));
    expect_same(got[0], single, "choice 0");
    EXPECT_NE(got[0].tokens, got[1].tokens);
    EXPECT_NE(got[0].tokens, got[2].tokens);
    EXPECT_NE(got[1].tokens, got[2].tokens);
  }
}

TEST(SameBits, APoolForOneAndAHalfSequences) {  // field report G30
  const std::vector<kv::GroupConfig> layouts[] = {{{15, 0}}, {{15, 0}, {12, 8}}};
  for (const auto& groups : layouts) {
    Rig rig({.groups = groups, .max_model_len = 40});
    for (int round = 0; round < 3; ++round) {
      Collector c;
      std::map<uint64_t, Answer> want;
      std::optional<Gate> gate(*rig);
      for (uint64_t i = 0; i < 8; ++i) {
        SamplingParams p{.temperature = 0.9f,
                         .repetition_penalty = 1.2f,
                         .frequency_penalty = 0.4f,
                         .seed = i,
                         .max_tokens = 28,
                         .ignore_eos = true,
                         .logprobs = 2};
        if (i % 2) p.temperature = 0;
        const auto prompt = prompt_of(int64_t(6 + i % 4), uint32_t(i));
        want[i] = expected(prompt, p, groups);
        Request r = request(i, prompt, p);
        r.sink = c.sink(i);
        ASSERT_TRUE(rig->submit(std::move(r)));
      }
      gate.reset();
      c.wait_tokens(0, 3);
      rig->finish(2, FinishReason::abort);
      rig->finish(5, FinishReason::abort);
      ASSERT_TRUE(c.wait_ended(8));
      int preemptions = 0;
      for (uint64_t i = 0; i < 8; ++i) {
        const auto stats = rig->stats(i);
        preemptions += stats->preemptions;
        if (c.answer(i).finish == FinishReason::abort) continue;
        expect_same(c.answer(i), want[i], "request " + std::to_string(i));
        EXPECT_EQ(stats->output_tokens, 28);
      }
      EXPECT_GT(preemptions, 0);
      const auto s = rig->stats();
      EXPECT_EQ(s.blocks_free + s.blocks_evictable, s.blocks_total);
    }
  }
}

TEST(SameBits, SaltAndOptOutKeepPrefixesApart) {
  Rig rig({});
  const auto prompt = prompt_of(21);
  const Answer want = expected(prompt, kParams[0], rig.setup.groups);
  const auto go = [&](uint64_t id, const char* salt, bool use) {
    Request r = request(id, prompt, kParams[0]);
    r.cache_salt = salt;
    r.use_prefix_cache = use;
    expect_same(run_one(*rig, std::move(r)), want, salt);
    return rig->stats(id)->cached_tokens;
  };
  EXPECT_EQ(go(1, "a", true), 0);
  EXPECT_EQ(go(2, "b", true), 0);
  EXPECT_EQ(go(3, "a", true), 20);
  EXPECT_EQ(go(4, "", false), 0);
  EXPECT_EQ(go(5, "", true), 0);
  EXPECT_EQ(go(6, "", true), 20);
  ASSERT_TRUE(rig->reset_prefix_cache());
  EXPECT_EQ(go(7, "", true), 0);
}

}  // namespace
}  // namespace isotope::engine::test
