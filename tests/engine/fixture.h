// An engine on the fake runner, and the answers that it must give.
#pragma once

#include <memory>
#include <numeric>
#include <random>

#include "collector.h"
#include "engine/parts.h"
#include "fake_runner.h"
#include "sample/sampler.h"

namespace isotope::engine::test {

inline constexpr int64_t kVocab = 97;
inline constexpr int32_t kEos = 96;
inline constexpr int kBlock = 4;

struct Layout {
  std::vector<kv::GroupConfig> groups = {{256, 0}};
  int64_t max_model_len = 256;
  EngineOptions options = {.block_size = kBlock, .max_num_seqs = 16, .max_num_batched_tokens = 64};
  kv::ManagerOptions kv_options = {};
  bool frontend_hash = true;
  levers::PrefillDelayer delayer = {};
  kv::CheckpointOptions checkpoints = {.interval = 0};
  std::function<void(uint64_t, kv::Manager&, kv::SeqBlocks&)> planned = {};
};

struct Rig {
  explicit Rig(Layout s) : setup(std::move(s)) {
    Parts p;
    p.options = setup.options;
    p.options.block_size = kBlock;
    p.info = {.name = "fake",
              .vocab = kVocab,
              .context_length = setup.max_model_len,
              .max_model_len = setup.max_model_len,
              .eos_ids = {kEos}};
    p.groups = setup.groups;
    p.kv_options = setup.kv_options;
    p.frontend_hash = setup.frontend_hash;
    p.delayer = setup.delayer;
    p.checkpoints = setup.checkpoints;
    p.planned = setup.planned;
    p.check_every_step = true;
    auto r = std::make_unique<FakeRunner>(kVocab, kBlock, setup.groups);
    runner = r.get();
    p.runner = std::move(r);
    engine = make_engine(std::move(p));
  }
  ~Rig() {
    engine->shutdown(0);
    EXPECT_EQ(runner->bad_reads, 0);
    EXPECT_EQ(runner->bad_writes, 0);
    const EngineStats s = engine->stats();
    EXPECT_EQ(s.blocks_free + s.blocks_evictable, s.blocks_total) << "blocks were lost";
    EXPECT_NE(engine->metrics().find("isotope:kv_integrity_errors_total 0.0"), std::string::npos);
  }
  Engine* operator->() { return engine.get(); }
  Engine& operator*() { return *engine; }

  Layout setup;
  FakeRunner* runner = nullptr;
  std::unique_ptr<Engine> engine;
};

inline std::vector<int32_t> prompt_of(int64_t n, uint32_t seed = 1) {
  std::mt19937 rng(seed);
  std::vector<int32_t> v(static_cast<size_t>(n));
  for (auto& t : v) t = int32_t(rng() % (kVocab - 1));
  return v;
}

inline Request request(uint64_t id, std::vector<int32_t> prompt, SamplingParams p) {
  Request r;
  r.id = id;
  r.prompt = std::move(prompt);
  r.sampling = std::move(p);
  return r;
}

/// What a request must give, computed token by token without engine, cache or batch.
inline Answer expected(const std::vector<int32_t>& prompt, const SamplingParams& p, std::span<const kv::GroupConfig> groups) {
  Answer a;
  std::vector<int32_t> tokens = prompt;
  std::vector<float> logits(kVocab);
  sample::Sampler sampler(kVocab);
  sample::TokenCounts counts;
  std::vector<TokenLogprob> top;
  std::vector<sample::Item> scratch;
  for (const int32_t t : prompt) counts.add_prompt(t);
  if (p.prompt_logprobs >= 0) {
    a.prompt.resize(prompt.size());
    for (size_t i = 1; i < prompt.size(); ++i) {
      reference_logits(std::span(prompt).first(i), groups, logits);
      a.prompt[i].push_back(sample::logprobs_of(logits, prompt[i], p.prompt_logprobs, top, scratch));
      a.prompt[i].insert(a.prompt[i].end(), top.begin(), top.end());
    }
  }
  std::vector<int32_t> ends = p.stop_token_ids;
  if (!p.ignore_eos) ends.push_back(kEos);
  a.finish = FinishReason::length;
  while (int64_t(tokens.size() - prompt.size()) < p.max_tokens) {
    reference_logits(tokens, groups, logits);
    const sample::Row row{.logits = logits,
                          .params = &p,
                          .tokens = tokens,
                          .prompt_tokens = int64_t(prompt.size()),
                          .counts = &counts,
                          .end_tokens = ends,
                          .seed = p.seed.value_or(0)};
    const int32_t t = sampler.choose(row);
    if (p.logprobs >= 0) {
      a.logprobs.push_back(sample::logprobs_of(logits, t, p.logprobs, top, scratch));
      a.top.push_back(top);
    }
    if (std::find(ends.begin(), ends.end(), t) != ends.end()) {
      a.finish = FinishReason::stop;
      a.stop_token = t;
      return a;
    }
    a.tokens.push_back(t);
    tokens.push_back(t);
    counts.add_output(t);
  }
  return a;
}

}  // namespace isotope::engine::test
