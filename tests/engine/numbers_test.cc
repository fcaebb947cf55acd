// The engine's numbers and records: consistent at every moment, and what their settings say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "fixture.h"
#include "support/metrics_watch.h"

namespace isotope::engine::test {
namespace {

using isotope::test::MetricsWatch;
using Kind = Decision::Kind;

std::unique_ptr<Engine> engine_with(levers::Housekeeping settings, EngineOptions options = {.max_num_seqs = 8, .max_num_batched_tokens = 64}) {
  Parts p;
  const std::vector<kv::GroupConfig> groups = {{70, 0}};
  p.options = options;
  p.options.block_size = kBlock;
  p.info = {.name = "fake", .vocab = kVocab, .context_length = 256, .max_model_len = 256, .eos_ids = {kEos}};
  p.groups = groups;
  p.housekeeping = settings;
  auto runner = std::make_unique<FakeRunner>(kVocab, kBlock, groups);
  runner->step_time = std::chrono::milliseconds(1);
  p.runner = std::move(runner);
  return make_engine(std::move(p));
}

TEST(Numbers, CountersNeverFallAndSourcesAddUpUnderPreemptionAndCacheHits) {  // field report X01
  const auto e = engine_with({}, {.max_num_seqs = 8, .max_num_batched_tokens = 32, .preempt_every = 3});
  MetricsWatch watch;
  Collector c;
  int sent = 0;
  for (uint64_t id = 0; id < 60; ++id) {
    Request r = request(id, prompt_of(10 + int64_t(id % 4) * 30, uint32_t(id % 3)), {.temperature = 0, .max_tokens = 12});
    r.sink = [&, inner = c.sink(id)](const TokenEvent& event) {
      if (event.id % 7 == 0 && !event.tokens.empty()) e->finish(event.id, FinishReason::abort);
      inner(event);
    };
    ASSERT_TRUE(e->submit(std::move(r)));
    ++sent;
    EXPECT_EQ(watch.look(e->metrics()), "");
  }
  while (c.ended() < sent) {
    ASSERT_EQ(watch.look(e->metrics()), "");
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  for (int i = 0; i < 1000 && e->stats().running + e->stats().waiting > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(watch.look(e->metrics()), "");
  EXPECT_EQ(watch.settle(), "");
  EXPECT_GT(watch.sum("vllm:prompt_tokens_cached_total"), 0);
  EXPECT_GT(watch.sum("vllm:num_preemptions_total"), 0);
}

TEST(Numbers, TheDeviceTimerMeasuresEveryStepAndEveryPrompt) {
  for (const bool on : {false, true}) {
    const auto e = engine_with({.device_timer = on});
    std::vector<Request> requests;
    for (uint64_t id = 0; id < 6; ++id) requests.push_back(request(id, prompt_of(50, uint32_t(id)), {.temperature = 0, .max_tokens = 4, .ignore_eos = true}));
    const auto answers = run(*e, std::move(requests));
    MetricsWatch watch;
    EXPECT_EQ(watch.look(e->metrics()), "");
    EXPECT_EQ(e->metrics().find("atom:gpu_forward_seconds") != std::string::npos, on) << "off means no such samples at all";
    if (!on) continue;
    EXPECT_EQ(watch.sum("atom:gpu_forward_seconds_count"), watch.sum("vllm:iteration_tokens_total_count"));
    EXPECT_EQ(watch.sum("atom:prefill_request_gpu_forward_seconds_count"), 6 + 1) << "the gate's prompt as well";
    EXPECT_GE(watch.sum("atom:gpu_forward_seconds_sum"), 0.001 * double(e->stats().steps));
    EXPECT_NE(e->metrics().find("dp_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\",engine_role=\"standard\""), std::string::npos);
  }
}

TEST(Numbers, GaugesOfTheSnapshotAdvanceAtTheirInterval) {
  const auto refreshes = [](double interval_s) {
    const auto e = engine_with({.metrics_interval_s = interval_s});
    Collector c;
    Request r = request(1, prompt_of(5), {.temperature = 0, .max_tokens = 150, .ignore_eos = true});
    r.sink = c.sink(1);
    EXPECT_TRUE(e->submit(std::move(r)));
    std::set<double> seen;
    while (c.ended() == 0) {
      MetricsWatch watch;
      watch.look(e->metrics());
      seen.insert(watch.sum("atom:metrics_last_refresh_timestamp_seconds"));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return seen.size();
  };
  const size_t rare = refreshes(1000), often = refreshes(0.001);
  EXPECT_LE(rare, 3u) << "at the start, at most once while it works, and when it falls idle";
  EXPECT_GT(often, 10u);
}

TEST(Records, TellWhatShapedARequest) {
  const auto e = engine_with({}, {.max_num_seqs = 8, .max_num_batched_tokens = 16, .preempt_every = 9});
  Request r = request(5, prompt_of(40), {.temperature = 0, .max_tokens = 30, .ignore_eos = true});
  r.label = "cmpl-x";
  run_one(*e, std::move(r));
  const auto records = e->records("cmpl-x", 10);
  ASSERT_EQ(records.size(), 1u);
  const RequestRecord& record = records[0];
  EXPECT_EQ(record.finish, FinishReason::length);
  EXPECT_EQ(record.stats.output_tokens, 30);
  int64_t computed = 0, preempted = 0;
  double at = 0;
  for (const Decision& d : record.decisions) {
    EXPECT_GE(d.at_s, at);
    at = d.at_s;
    if (d.kind == Kind::chunk) computed += d.tokens;
    preempted += d.kind == Kind::preempted;
  }
  EXPECT_EQ(record.decisions.front().kind, Kind::admitted);
  EXPECT_EQ(record.decisions.back().kind, Kind::finished);
  EXPECT_EQ(preempted, record.stats.preemptions);
  EXPECT_GT(preempted, 0);
  EXPECT_GE(computed, 40) << "the prompt, and what preemptions gave up";
}

TEST(Records, OfARunningRequestAndOfOneThatWasCancelled) {
  const auto e = engine_with({});
  Collector c;
  for (uint64_t id : {1, 2}) {
    Request r = request(id, prompt_of(5), {.temperature = 0, .max_tokens = 200, .ignore_eos = true});
    r.label = "two";
    r.sink = c.sink(id);
    ASSERT_TRUE(e->submit(std::move(r)));
  }
  ASSERT_TRUE(c.wait_tokens(1, 3));
  for (const RequestRecord& r : e->records("two", 10))
    if (r.id == 1) EXPECT_GE(r.stats.output_tokens, 2) << "of this moment";
  EXPECT_EQ(e->records("two", 1).size(), 1u);
  e->finish(1, FinishReason::abort);
  e->finish(2, FinishReason::abort);
  ASSERT_TRUE(c.wait_ended(2));
  for (const RequestRecord& r : e->records("two", 10)) EXPECT_EQ(r.finish, FinishReason::abort);
}

}  // namespace
}  // namespace isotope::engine::test
