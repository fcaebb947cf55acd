// A warm decode step allocates nothing, but for the rare doubling of an array that grows with the text. Counted by replacing
// operator new, which the sanitizers need for themselves.
#include <gtest/gtest.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <cstdlib>
#include <new>

#include "fixture.h"

#pragma GCC diagnostic ignored \
    "-Wmismatched-new-delete"  // malloc and free do match, but the compiler sees only one of them inlined

namespace {
thread_local int64_t allocations = 0;
}

void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}

namespace isotope::engine::test {
namespace {

TEST(Allocation, WarmStepsAllocateNothing) {
  Layout layout{.groups = {{256, 0}, {100, 10}}};
  Parts p;
  p.options = layout.options;
  p.info = {.name = "fake", .vocab = kVocab, .context_length = 256, .max_model_len = 256, .eos_ids = {kEos}};
  p.groups = layout.groups;
  p.runner = std::make_unique<FakeRunner>(kVocab, kBlock, layout.groups);
  const auto engine = make_engine(std::move(p));

  struct Seen {
    int64_t tokens = 0, before = 0, steps_with_allocations = 0;
  };
  Seen seen[4];
  std::atomic<int> ended{0};
  for (uint64_t i = 0; i < 4; ++i) {
    SamplingParams params{.temperature = i % 2 ? 0.8f : 0.0f, .seed = i, .max_tokens = 150, .ignore_eos = true};
    if (i == 1) params.top_p = 0.9f;
    if (i == 2) params.repetition_penalty = 1.2f;
    if (i == 3) params.logprobs = 2;
    Request r = request(i, prompt_of(9, uint32_t(i)), params);
    r.sink = [&s = seen[i], &ended](const TokenEvent& e) {  // on the engine's thread
      if (s.tokens > 80 && allocations != s.before) ++s.steps_with_allocations;
      s.before = allocations;
      s.tokens += int64_t(e.tokens.size());
      if (e.finish != FinishReason::none) ++ended;
    };
    ASSERT_TRUE(engine->submit(std::move(r)));
  }
  while (ended < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (const Seen& s : seen) {
    EXPECT_EQ(s.tokens, 150);
    EXPECT_LE(s.steps_with_allocations, 4);  // of 69
  }
}

}  // namespace
}  // namespace isotope::engine::test

#endif
