// Several engines on fake runners behind one router.
#pragma once

#include "fixture.h"

namespace isotope::engine::test {

struct Ranks {
  explicit Ranks(sched::RouterOptions routing, EngineOptions options = {.max_num_seqs = 4, .max_num_batched_tokens = 64}, levers::PrefillDelayer delayer = {},
                 sched::BalanceOptions balancing = {}, bool lockstep = false) {
    std::vector<Parts> parts(static_cast<size_t>(routing.ranks));
    const std::vector<kv::GroupConfig> groups = {{64, 0}, {64, 20}};
    for (size_t r = 0; r < parts.size(); ++r) {
      Parts& p = parts[r];
      p.options = options;
      p.options.block_size = kBlock;
      p.options.first_rank = int(r);
      p.info = {.name = "fake", .vocab = kVocab, .context_length = 200, .max_model_len = 200, .eos_ids = {kEos}};
      p.groups = groups;
      p.lockstep = lockstep;
      p.delayer = delayer;
      p.balancing = balancing;
      p.check_every_step = true;
      auto runner = std::make_unique<FakeRunner>(kVocab, kBlock, groups);
      runners.push_back(runner.get());
      p.runner = std::move(runner);
    }
    engine = make_data_parallel_engine(std::move(parts), routing);
  }
  ~Ranks() {
    engine->shutdown(0);
    for (const FakeRunner* r : runners) EXPECT_EQ(r->bad_reads + r->bad_writes, 0);
    const EngineStats s = engine->stats();
    EXPECT_EQ(s.blocks_free + s.blocks_evictable, s.blocks_total) << "blocks were lost";
  }
  Engine* operator->() { return engine.get(); }

  /// Value of a metric, labels included in the name.
  double metric(const std::string& name) const {
    const std::string text = engine->metrics();
    const size_t at = text.find("\n" + name + " ");
    EXPECT_NE(at, std::string::npos) << name << " is not in\n" << text;
    return at == std::string::npos ? -1 : std::stod(text.substr(at + 2 + name.size()));
  }

  std::vector<FakeRunner*> runners;
  std::unique_ptr<Engine> engine;
};

inline std::vector<Request> mixed(int n) {
  std::vector<Request> v;
  for (int i = 0; i < n; ++i) {
    SamplingParams p{.temperature = i % 2 ? 0.9f : 0.0f, .seed = uint64_t(i), .max_tokens = 5 + i % 30, .logprobs = 1};
    if (i % 3 == 0) p.repetition_penalty = 1.2f, p.frequency_penalty = 0.3f;
    v.push_back(request(uint64_t(i), prompt_of(1 + (i * 37) % 120, uint32_t(i % 5)), p));
  }
  return v;
}

}  // namespace isotope::engine::test
