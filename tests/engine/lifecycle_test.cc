// Queueing, cancelling, ending, failing, shutting down.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

#include "fixture.h"

namespace isotope::engine::test {
namespace {

using namespace std::chrono_literals;
const SamplingParams kLong{.temperature = 0, .max_tokens = 200, .ignore_eos = true};

/// Waits until a condition on other threads' work holds.
template <class F>
bool eventually(F f) {
  for (int i = 0; i < 5000; ++i) {
    if (f()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

TEST(Cancel, AtAnyStageFreesItsBlocksWithinOneStep) {  // field report G19
  Layout setup{.groups = {{64, 0}, {64, 10}}};
  setup.options.max_num_seqs = 1;
  setup.options.max_num_batched_tokens = 8;
  Rig rig(setup);
  rig.runner->step_time = 2ms;
  Collector c;
  std::atomic<int64_t> ended_at{0};
  const auto submit = [&](uint64_t id, int64_t n) {
    Request r = request(id, prompt_of(n, uint32_t(id)), kLong);
    r.sampling.max_tokens = std::min<int64_t>(200, 256 - n);
    r.sink = [&, inner = c.sink(id)](const TokenEvent& e) {
      if (e.finish != FinishReason::none) ended_at = rig.runner->steps.load();
      inner(e);
    };
    ASSERT_TRUE(rig->submit(std::move(r)));
  };
  submit(1, 10);   // will be decoding
  submit(2, 200);  // queued, later in the middle of its prompt
  submit(3, 10);   // stays queued
  c.wait_tokens(1, 5);
  rig->finish(3, FinishReason::abort);
  ASSERT_TRUE(c.wait_ended(1));
  EXPECT_EQ(c.answer(3).finish, FinishReason::abort);
  rig->finish(1, FinishReason::stop);  // a stop string was found
  const int64_t asked_at = rig.runner->steps;
  ASSERT_TRUE(c.wait_ended(2));
  EXPECT_LE(ended_at, asked_at + 1);  // one step may have been about to begin
  EXPECT_EQ(c.answer(1).finish, FinishReason::stop);
  ASSERT_TRUE(eventually([&] { return rig->stats(2)->queue_s > 0 || rig->stats().running == 1; }));
  std::this_thread::sleep_for(10ms);
  rig->finish(2, FinishReason::abort);
  const int64_t asked_again_at = rig.runner->steps;
  ASSERT_TRUE(c.wait_ended(3));
  EXPECT_LE(ended_at, asked_again_at + 1);
  EXPECT_TRUE(c.answer(2).tokens.empty() ||
              rig.runner->steps > 25);  // 25 chunks of 8: still in its prompt, unless the machine stood still
  const auto s = rig->stats();
  EXPECT_EQ(s.blocks_free + s.blocks_evictable, s.blocks_total);
  EXPECT_EQ(s.running + s.waiting, 0);
  EXPECT_NE(rig->metrics().find("vllm:request_success_total{model_name=\"fake\",engine=\"0\",finished_reason=\"abort\"} 2.0"), std::string::npos);
  rig->finish(2, FinishReason::abort);  // unknown by now: ignored
  rig->finish(77, FinishReason::abort);
  EXPECT_EQ(run_one(*rig, request(9, prompt_of(5), {.temperature = 0, .max_tokens = 2, .ignore_eos = true})).tokens.size(), 2u);
}

TEST(Cancel, StormsLeaveNothingBehind) {
  for (const int preempt : {0, 3}) {
    Layout setup{.groups = {{40, 0}, {40, 6}}, .max_model_len = 80};
    setup.options.preempt_every = preempt;
    setup.options.max_num_batched_tokens = 16;
    Rig rig(setup);
    Collector c;
    std::map<uint64_t, Answer> want;
    std::mt19937 rng(5);
    constexpr int kRequests = 300;
    std::vector<std::thread> clients;
    std::atomic<int> refused{0};
    for (int t = 0; t < 3; ++t)
      clients.emplace_back([&, t] {
        std::mt19937 rng(static_cast<uint32_t>(t));
        for (uint64_t i = 0; i < kRequests; ++i) {
          const uint64_t id = uint64_t(t) * 1000 + i;
          Request r = request(id, prompt_of(1 + int64_t(i % 40), uint32_t(i % 5)),
                              {.temperature = 0, .max_tokens = 1 + int64_t(i % 30), .ignore_eos = true});
          r.priority = int(i % 3);
          r.sink = c.sink(id);
          if (!rig->submit(std::move(r))) ++refused;
          if (rng() % 2) rig->finish(id - rng() % 4 % (i + 1), FinishReason::abort);
          if (rng() % 16 == 0) (void)rig->reset_prefix_cache();
          if (rng() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(rng() % 300));
        }
      });
    for (auto& t : clients) t.join();
    EXPECT_EQ(refused, 0);
    ASSERT_TRUE(c.wait_ended(3 * kRequests));
    int full = 0;
    for (uint64_t t = 0; t < 3; ++t)
      for (uint64_t i = 0; i < kRequests; ++i) {
        const Answer a = c.answer(t * 1000 + i);
        EXPECT_EQ(a.finals, 1);
        const Answer w = expected(prompt_of(1 + int64_t(i % 40), uint32_t(i % 5)),
                                  {.temperature = 0, .max_tokens = 1 + int64_t(i % 30), .ignore_eos = true}, setup.groups);
        ASSERT_LE(a.tokens.size(), w.tokens.size());
        EXPECT_TRUE(std::equal(a.tokens.begin(), a.tokens.end(), w.tokens.begin()));  // what came is a prefix of the truth
        full += a.finish == FinishReason::length;
      }
    EXPECT_GT(full, 0);
    const auto s = rig->stats();
    EXPECT_EQ(s.blocks_free + s.blocks_evictable, s.blocks_total);
  }
}

TEST(Queue, LimitGivesAnErrorWorthRetrying) {
  Layout setup;
  setup.options.max_num_seqs = 1;
  setup.options.max_queue = 3;
  Rig rig(setup);
  rig.runner->step_time = 1ms;
  Collector c;
  int accepted = 0;
  std::optional<Error> error;
  for (uint64_t i = 0; i < 20 && !error; ++i) {
    Request r = request(i, prompt_of(4), kLong);
    r.sink = c.sink(i);
    if (auto ok = rig->submit(std::move(r)); ok)
      ++accepted;
    else
      error = ok.error();
  }
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::resource_exhausted);
  EXPECT_EQ(accepted, 4);
  EXPECT_NE(rig->metrics().find("vllm:admission_rejections_total{model_name=\"fake\",engine=\"0\",reason=\"queue_full\"} 1.0"),
            std::string::npos);
  for (uint64_t i = 0; i < 20; ++i) rig->finish(i, FinishReason::abort);
  ASSERT_TRUE(c.wait_ended(accepted));
  EXPECT_EQ(run_one(*rig, request(50, prompt_of(5), {.temperature = 0, .max_tokens = 2, .ignore_eos = true})).tokens.size(), 2u);
}

TEST(Queue, FreeSlotsAreNoQueue) {
  Layout setup;
  setup.options.max_num_seqs = 8;
  setup.options.max_queue = 1;
  Rig rig(setup);
  rig.runner->step_time = 1ms;
  Collector c;
  for (uint64_t i = 0; i < 10; ++i) {  // faster than a step can admit them
    Request r = request(i, prompt_of(4), kLong);
    r.sink = c.sink(i);
    EXPECT_EQ(rig->submit(std::move(r)).has_value(), i < 9) << i;
  }
  for (uint64_t i = 0; i < 9; ++i) rig->finish(i, FinishReason::abort);
  EXPECT_TRUE(c.wait_ended(9));
}

TEST(Queue, PriorityThenArrival) {
  Layout setup;
  setup.options.max_num_seqs = 1;
  Rig rig(setup);
  rig.runner->step_time = 1ms;
  std::mutex m;
  std::vector<uint64_t> order;
  Collector c;
  const int priorities[] = {0, 5, 1, 5, 1, -3};
  for (uint64_t i = 0; i < 6; ++i) {
    Request r = request(i, prompt_of(4), {.temperature = 0, .max_tokens = i == 0 ? 60 : 2, .ignore_eos = true});
    r.priority = priorities[i];
    r.sink = [&, i, inner = c.sink(i)](const TokenEvent& e) {
      if (e.finish != FinishReason::none) order.push_back(i);
      inner(e);
    };
    ASSERT_TRUE(rig->submit(std::move(r)));
    if (i == 0) c.wait_tokens(0, 1);
  }
  ASSERT_TRUE(c.wait_ended(6));
  EXPECT_EQ(order, (std::vector<uint64_t>{0, 5, 2, 4, 1, 3}));
}

TEST(Submit, IdsAreUniqueWhileAlive) {
  Rig rig({});
  rig.runner->step_time = 1ms;
  Collector c;
  const auto submit = [&](uint64_t id) {
    Request r = request(id, prompt_of(4), kLong);
    r.sink = c.sink(100 + uint64_t(c.ended()));
    return rig->submit(std::move(r));
  };
  ASSERT_TRUE(submit(1));
  const auto again = submit(1);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::invalid_argument);
  rig->finish(1, FinishReason::abort);
  ASSERT_TRUE(c.wait_ended(1));
  ASSERT_TRUE(submit(1));
  rig->finish(1, FinishReason::abort);
  ASSERT_TRUE(c.wait_ended(2));
}

TEST(Failure, OfTheModelEndsTheStepsRequestsOnly) {
  for (const bool throws : {false, true}) {
    Rig rig({});
    rig.runner->fail_at_seqs = 4;
    rig.runner->throws = throws;
    rig.runner->step_time = 2ms;
    auto got = run(*rig, [] {
      std::vector<Request> v;
      for (uint64_t i = 0; i < 4; ++i) v.push_back(request(i, prompt_of(6, uint32_t(i)), kLong));
      return v;
    }());
    for (auto& [id, a] : got) {
      EXPECT_EQ(a.finish, FinishReason::error);
      ASSERT_TRUE(a.error);
      EXPECT_EQ(a.error->code, Code::internal);
    }
    const SamplingParams p{.temperature = 0, .max_tokens = 9, .ignore_eos = true};
    const auto prompt = prompt_of(6, 1);
    rig.runner->step_time = 0ms;
    expect_same(run_one(*rig, request(9, prompt, p)), expected(prompt, p, rig.setup.groups), "after the failure");
  }
}

TEST(Failure, ThrowingSinkEndsItsOwnRequestOnly) {
  Rig rig({});
  Collector c;
  Request bad = request(1, prompt_of(6), kLong);
  std::atomic<int> calls{0};
  bad.sink = [&](const TokenEvent&) {
    ++calls;
    throw std::runtime_error("sink");
  };
  ASSERT_TRUE(rig->submit(std::move(bad)));
  const SamplingParams p{.temperature = 0, .max_tokens = 20, .ignore_eos = true};
  const auto prompt = prompt_of(9, 2);
  expect_same(run_one(*rig, request(2, prompt, p)), expected(prompt, p, rig.setup.groups), "neighbour");
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(eventually([&] { return rig->stats().running == 0; }));
}

struct Countdown : TokenMask {  // allows even tokens, then is finished
  int left;
  bool lies = false, throws = false;
  explicit Countdown(int n) : left(n) {}
  bool fill(std::span<uint32_t> bits) override {
    if (throws) throw std::runtime_error("mask");
    for (uint32_t& b : bits) b = 0x55555555;
    return true;
  }
  bool accept(int32_t) override { return --left, !lies; }
  bool finished() const override { return left <= 0; }
  void rollback(int) override {}
};

TEST(Mask, EndsTheTextWhenItIsComplete) {
  Rig rig({});
  Request r = request(1, prompt_of(6), {.temperature = 1, .seed = 3, .max_tokens = 50, .ignore_eos = true});
  r.mask = std::make_unique<Countdown>(7);
  const Answer a = run_one(*rig, std::move(r));
  EXPECT_EQ(a.finish, FinishReason::stop);
  EXPECT_EQ(a.tokens.size(), 7u);
  for (int32_t t : a.tokens) EXPECT_EQ(t % 2, 0);
}

TEST(Mask, ABrokenOneFailsItsOwnRequest) {
  Rig rig({});
  for (const bool throws : {false, true}) {
    auto mask = std::make_unique<Countdown>(7);
    mask->throws = throws;
    mask->lies = !throws;
    Request r = request(1, prompt_of(6), kLong);
    r.mask = std::move(mask);
    const Answer a = run_one(*rig, std::move(r));
    EXPECT_EQ(a.finish, FinishReason::error);
    ASSERT_TRUE(a.error);
    EXPECT_EQ(a.error->code, Code::internal);
  }
  const Answer none =
      run_one(*rig, request(2, prompt_of(4), {.temperature = 0, .allowed_token_ids = {5}, .bad_words = {{5}}, .max_tokens = 3}));
  EXPECT_EQ(none.finish, FinishReason::error);
  EXPECT_EQ(none.error->code, Code::invalid_argument);
}

TEST(Shutdown, DrainsThenAborts) {
  Rig rig({});
  rig.runner->step_time = 1ms;
  Collector c;
  for (uint64_t i = 0; i < 4; ++i) {
    Request r = request(i, prompt_of(4), kLong);
    r.sampling.max_tokens = i == 0 ? 5 : 200;
    r.sink = c.sink(i);
    ASSERT_TRUE(rig->submit(std::move(r)));
  }
  rig->shutdown(0.08);
  EXPECT_EQ(c.ended(), 4);
  EXPECT_EQ(c.answer(0).finish, FinishReason::length);
  EXPECT_EQ(c.answer(1).finish, FinishReason::abort);
  EXPECT_EQ(c.answer(1).error->code, Code::unavailable);
  rig->shutdown(1);  // idempotent
  const auto refused = rig->submit(request(9, prompt_of(4), kLong));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);
}

TEST(Shutdown, LetsRequestsEndInTime) {
  Rig rig({});
  Collector c;
  for (uint64_t i = 0; i < 40; ++i) {
    Request r = request(i, prompt_of(4), {.temperature = 0, .max_tokens = 10, .ignore_eos = true});
    r.sink = c.sink(i);
    ASSERT_TRUE(rig->submit(std::move(r)));
  }
  rig->shutdown(60);
  for (uint64_t i = 0; i < 40; ++i) EXPECT_EQ(c.answer(i).finish, FinishReason::length);
}

TEST(Shutdown, FromASinkDoesNotHang) {
  Rig rig({});
  Collector c;
  Request r = request(1, prompt_of(4), kLong);
  r.sink = [&, inner = c.sink(1)](const TokenEvent& e) {
    rig->shutdown(0);
    inner(e);
  };
  ASSERT_TRUE(rig->submit(std::move(r)));
  ASSERT_TRUE(c.wait_ended(1));
}

TEST(Idle, UsesNoCpu) {
  Rig rig({});
  run_one(*rig, request(1, prompt_of(4), {.temperature = 0, .max_tokens = 3}));
  std::this_thread::sleep_for(20ms);
  const auto cpu = [] {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return double(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + double(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
  };
  const double before = cpu();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(cpu() - before, 0.05);
  EXPECT_EQ(rig->stats().last_step_age_s, 0);
}

TEST(Stats, NeverWaitForAStepAndShowItsAge) {  // field report X02
  Rig rig({});
  std::atomic<bool> stuck{true};
  rig.runner->before_step = [&](const ops::Batch&) {
    while (stuck) std::this_thread::sleep_for(1ms);
  };
  Collector c;
  Request r = request(1, prompt_of(4), {.temperature = 0, .max_tokens = 3, .ignore_eos = true});
  r.sink = c.sink(1);
  ASSERT_TRUE(rig->submit(std::move(r)));
  std::this_thread::sleep_for(60ms);
  EXPECT_GT(rig->stats().last_step_age_s, 0.05);
  EXPECT_EQ(rig->stats().running + rig->stats().waiting, 1);
  EXPECT_FALSE(rig->metrics().empty());
  stuck = false;
  ASSERT_TRUE(c.wait_ended(1));
}

}  // namespace
}  // namespace isotope::engine::test
