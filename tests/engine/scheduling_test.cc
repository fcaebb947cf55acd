// Scheduling as its users see it: the delayer's settings act and never touch an answer, urgent requests and modest keys go first, and who waits too long is told.
#include <gtest/gtest.h>

#include <functional>

#include "base/log.h"
#include "fixture.h"

namespace isotope::engine::test {
namespace {

using levers::PrefillDelayer;

constexpr SamplingParams kPlain{.temperature = 0, .max_tokens = 40, .ignore_eos = true};

double counter(const Engine& e, const std::string& outcome) {
  const std::string text = e.metrics(), name = "isotope:prefill_delayer_decisions_total{", label = "outcome=\"" + outcome + "\"";
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    if (line.find(label) != std::string::npos) return std::stod(line.substr(line.rfind(' ') + 1));
  }
  ADD_FAILURE() << "no counter for " << outcome;
  return -1;
}

/// One sequence decodes while five prompts arrive, each of them during a step.
std::map<uint64_t, Answer> trickle(Rig& rig) {
  Collector c;
  uint64_t next = 1;
  rig.runner->before_step = [&](const ops::Batch&) {
    if (rig.runner->steps < 5 || rig.runner->steps % 3 || next > 5) return;
    Request r = request(next, prompt_of(30, uint32_t(next)), kPlain);
    if (next % 2) r.sampling.temperature = 0.9f, r.sampling.seed = next;
    r.sink = c.sink(next++);
    EXPECT_TRUE(rig->submit(std::move(r)));
  };
  SamplingParams p = kPlain;
  p.max_tokens = 150;
  Request first = request(0, prompt_of(9), p);
  first.sink = c.sink(0);
  EXPECT_TRUE(rig->submit(std::move(first)));
  EXPECT_TRUE(c.wait_ended(6));
  std::map<uint64_t, Answer> out;
  for (uint64_t i = 0; i < 6; ++i) out[i] = c.answer(i);
  return out;
}

TEST(Delayer, EverySettingActsAndNoneChangesAnAnswer) {
  std::map<uint64_t, Answer> want;
  {
    Rig plain({});
    want = trickle(plain);
    for (const char* e : {"fill", "stall", "ttft", "kv", "vacuous", "hold", "hold_decode_interval"}) EXPECT_EQ(counter(*plain, e), 0) << e;
  }
  struct Case {
    const char* acts;  ///< the outcome that this setting brings about
    PrefillDelayer set;
    bool more = true;  ///< or rather, keeps away
  };
  const Case cases[] = {
      {"hold_decode_interval", {.decode_interval = 4}},
      {"hold", {.enabled = false, .decode_interval = 4}, false},
      {"hold", {}, false},  // a single scheduler has to ask for the interval
      {"fill", {.target_fill = 0.4, .stall_ticks = 100, .decode_interval = 1}},
      {"fill", {.target_fill = 1, .ttft_max_ticks = 2, .stall_ticks = 1, .decode_interval = 1}, false},
      {"ttft", {.ttft_max_ticks = 1, .stall_ticks = 100, .decode_interval = 1}},
      {"stall", {.stall_ticks = 1, .decode_interval = 1}},
      {"kv", {.kv_high = 0.01, .decode_interval = 1}},
      {"kv", {.kv_low = 0.99, .decode_interval = 1}},
      {"queue_ms", {.max_queue_ms = 0.0, .decode_interval = 1}},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    Rig rig({.delayer = cases[i].set});
    const auto got = trickle(rig);
    for (const auto& [id, a] : want) expect_same(got.at(id), a, "case " + std::to_string(i) + ", request " + std::to_string(id));
    EXPECT_EQ(counter(*rig, cases[i].acts) > 0, cases[i].more) << "case " << i;
    EXPECT_EQ(counter(*rig, "cost"), 0);  // one scheduler is never out of step with itself
    int holds = 0;
    for (uint64_t r = 1; r <= 5; ++r) holds += rig->stats(r)->delayer_holds;
    if (counter(*rig, "hold") + counter(*rig, "hold_decode_interval") == 0) EXPECT_EQ(holds, 0) << "case " << i;
  }
}

TEST(Delayer, LetsALongPromptGoOnAfterItsOwnBound) {
  Layout l{.delayer = {.partial_max_ticks = 2, .stall_ticks = 100, .decode_interval = 1}};
  l.options.max_num_batched_tokens = 16;
  l.options.long_prefill_token_threshold = 8;
  Rig rig(l);
  trickle(rig);
  EXPECT_GT(counter(*rig, "partial"), 0);
}

TEST(Delayer, SpeaksWhenAsked) {
  std::mutex mutex;
  std::string log;
  base::set_log_sink([&](base::LogLevel, std::string_view text) {
    const std::lock_guard lock(mutex);
    log += std::string(text) + "\n";
  });
  const auto lines = [&](const char* with) {
    const std::lock_guard lock(mutex);
    int n = 0;
    for (size_t at = log.find(with); at != std::string::npos; at = log.find(with, at + 1)) ++n;
    return n;
  };
  { Rig rig({.delayer = {.decode_interval = 1, .log_every = 0}}); trickle(rig); }
  EXPECT_EQ(lines("prefill delayer:"), 0);
  { Rig rig({.delayer = {.decode_interval = 1, .log_every = 20}}); trickle(rig); }
  EXPECT_GT(lines("20 verdicts:"), 0);
  EXPECT_EQ(lines("HOLD"), 0);
  { Rig rig({.delayer = {.decode_interval = 1, .debug = true, .log_every = 0}}); trickle(rig); }
  EXPECT_GT(lines("HOLD hold_decode_interval pending="), 0);
  EXPECT_GT(lines("FIRE vacuous"), 0);
  base::set_log_sink({});
}

/// The order in which requests that were all there before the first step get their first token.
std::vector<uint64_t> order(Rig& rig, std::vector<Request> requests) {
  std::mutex mutex;
  std::vector<uint64_t> seen;
  Collector c;
  const int n = int(requests.size());
  {
    Gate gate(*rig);
    for (Request& r : requests) {
      r.sink = [&, id = r.id, next = c.sink(r.id)](const TokenEvent& e) {
        {
          const std::lock_guard lock(mutex);
          if (std::find(seen.begin(), seen.end(), id) == seen.end()) seen.push_back(id);
        }
        next(e);
      };
      EXPECT_TRUE(rig->submit(std::move(r)));
    }
  }
  EXPECT_TRUE(c.wait_ended(n));
  return seen;
}

TEST(Order, PriorityKeysAndArrival) {
  const auto requests = [] {
    std::vector<Request> v;
    for (uint64_t i = 0; i < 6; ++i) {
      v.push_back(request(i, prompt_of(5, uint32_t(i)), {.temperature = 0, .max_tokens = 2, .ignore_eos = true}));
      v.back().share_key = i < 4 ? "greedy" : "modest";
    }
    v.push_back(request(6, prompt_of(5), {.temperature = 0, .max_tokens = 2, .ignore_eos = true}));
    v.back().priority = -1;
    return v;
  };
  Layout one;
  one.options.max_num_seqs = 1;
  one.options.prefix_caching = false;
  {
    Rig rig(one);
    EXPECT_EQ(order(rig, requests()), (std::vector<uint64_t>{6, 0, 4, 1, 5, 2, 3}));
  }
  one.options.fair_share = false;
  Rig rig(one);
  EXPECT_EQ(order(rig, requests()), (std::vector<uint64_t>{6, 0, 1, 2, 3, 4, 5}));
}

TEST(Limits, WhoHasNotStartedInTimeIsTold) {
  Layout one;
  one.options.max_num_seqs = 1;
  Rig rig(one);
  rig.runner->step_time = std::chrono::milliseconds(2);
  Collector c;
  SamplingParams p = kPlain;
  p.max_tokens = 60;
  for (uint64_t id = 0; id < 3; ++id) {
    Request r = request(id, prompt_of(5, uint32_t(id)), p);
    r.deadline_ms = id == 1 ? 20 : 0;
    r.sink = c.sink(id);
    ASSERT_TRUE(rig->submit(std::move(r)));
  }
  ASSERT_TRUE(c.wait_ended(3));
  EXPECT_EQ(c.answer(0).finish, FinishReason::length);
  EXPECT_EQ(c.answer(2).finish, FinishReason::length);
  const Answer late = c.answer(1);
  EXPECT_EQ(late.finish, FinishReason::error);
  ASSERT_TRUE(late.error);
  EXPECT_EQ(late.error->code, Code::unavailable);
  EXPECT_GE(rig->stats().retry_after_s, 1);
  EXPECT_NE(late.error->message().find("'deadline_ms'"), std::string::npos) << late.error->message();
  EXPECT_NE(rig->metrics().find("reason=\"deadline\"} 1.0"), std::string::npos);
  Request bad = request(9, prompt_of(3), p);
  bad.deadline_ms = -1;
  bad.sink = c.sink(9);
  EXPECT_FALSE(rig->submit(std::move(bad)));
}

TEST(Limits, TheEnginesOwnTimeoutAndAFullQueue) {
  Layout one;
  one.options.max_num_seqs = 1;
  one.options.max_queue = 3;
  one.options.queue_timeout_ms = 15;
  Rig rig(one);
  rig.runner->step_time = std::chrono::milliseconds(2);
  Collector c;
  int accepted = 0, refused = 0;
  {
    Gate gate(*rig);
    for (uint64_t id = 0; id < 6; ++id) {
      Request r = request(id, prompt_of(5), {.temperature = 0, .max_tokens = 40, .ignore_eos = true});
      r.sink = c.sink(id);
      const auto ok = rig->submit(std::move(r));
      accepted += bool(ok);
      if (ok) continue;
      ++refused;
      EXPECT_EQ(ok.error().code, Code::resource_exhausted);
      EXPECT_GE(rig->stats().retry_after_s, 1);
    }
  }
  EXPECT_EQ(accepted, 4) << "one may run at once, three may wait";
  EXPECT_EQ(refused, 2);
  ASSERT_TRUE(c.wait_ended(accepted));
  int late = 0;
  for (uint64_t id = 0; id < 3; ++id) late += c.answer(id).error && c.answer(id).error->message().find("--queue-timeout-ms") != std::string::npos;
  EXPECT_GE(late, 2);  // the first one may have started in time
}

TEST(Accounting, CachedAndComputedAddUpUnderPreemption) {  // field report X01
  Layout l{.groups = {{15, 0}}, .max_model_len = 40};
  Rig rig(l);
  Collector c;
  std::atomic<bool> done{false};
  bool sound = true;
  const auto value = [](const std::string& text, const std::string& name) {
    const size_t at = text.find("\n" + name + "{");
    return at == std::string::npos ? -1 : std::stod(text.substr(text.find("} ", at) + 2));
  };
  double last = 0;
  rig.runner->before_step = [&](const ops::Batch&) {  // a scrape before each step
    const std::string m = rig->metrics();
    const double cached = value(m, "vllm:prompt_tokens_cached_total"), all = value(m, "vllm:prompt_tokens_total");
    sound &= cached >= last && cached <= all;
    last = cached;
  };
  for (int round = 0; round < 4; ++round) {
    std::vector<Request> v;
    for (uint64_t i = 0; i < 6; ++i) v.push_back(request(uint64_t(round) * 10 + i, prompt_of(9, uint32_t(i % 2)), {.temperature = 0, .max_tokens = 25, .ignore_eos = true}));
    run(*rig, std::move(v));
  }
  EXPECT_TRUE(sound);
  const std::string m = rig->metrics();
  double sources = 0;
  for (const char* s : {"local_compute", "local_cache_hit", "external_kv_transfer"}) {
    const size_t at = m.find("vllm:prompt_tokens_by_source_total{");
    const size_t here = m.find(std::string("source=\"") + s + "\"", at);
    ASSERT_NE(here, std::string::npos) << s;
    sources += std::stod(m.substr(m.find("} ", here) + 2));
  }
  EXPECT_EQ(sources, value(m, "vllm:prompt_tokens_total"));
  EXPECT_GT(rig->stats().preemptions, 0);
  EXPECT_GT(last, 0);
}

TEST(Accounting, TheSameRequestThreeTimes) {  // field report X15
  for (const int64_t length : {int64_t(4 * kBlock), int64_t(4 * kBlock + 1), int64_t(kBlock)}) {
    Rig rig({});
    const auto prompt = prompt_of(length);
    const Answer want = expected(prompt, kPlain, rig.setup.groups);
    for (uint64_t id = 0; id < 3; ++id) {
      expect_same(run_one(*rig, request(id, prompt, kPlain)), want, std::to_string(length));
      EXPECT_EQ(rig->stats(id)->cached_tokens, id == 0 ? 0 : (length - 1) / kBlock * kBlock);  // at least one token is computed
    }
  }
}

}  // namespace
}  // namespace isotope::engine::test
