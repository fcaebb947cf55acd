// What the prefix cache costs the engine's thread, without a model: all that happens to a request from its arrival to the first
// forward pass and back, and what asking again costs. The pool is filled by many prompts in turns, so that a chain's blocks lie
// scattered, as they do after hours of service.
#include <benchmark/benchmark.h>

#include <memory>
#include <numeric>
#include <random>

#include "kv/manager.h"

namespace {

using namespace isotope;
using Tokens = std::vector<int32_t>;
constexpr int kBlock = 16;
constexpr int64_t kLongest = 186000;

Tokens prompt(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  Tokens t(static_cast<size_t>(n));
  for (auto& v : t) v = int32_t(rng() % 150000);
  return t;
}

struct Cache {
  explicit Cache(int64_t tokens, kv::ManagerOptions o = {})
      : manager(kBlock, std::vector<kv::GroupConfig>{{3 * (tokens / kBlock + 16), 0}}, true, o), own(prompt(tokens, 1)) {
    Tokens other = prompt(tokens, 2);
    kv::SeqBlocks a, b;
    manager.hash_prompt(a, own, nullptr);
    manager.hash_prompt(b, other, nullptr);
    for (int64_t p = 0; p < tokens;) {  // both grow in turns
      p = std::min<int64_t>(p + 5 * kBlock, tokens);
      for (auto [s, t] : {std::pair(&a, &own), std::pair(&b, &other)}) {
        manager.grow(*s, p);
        manager.commit(*s, *t, p);
      }
    }
    manager.release(b);
    manager.release(a);
  }
  kv::Manager manager;
  Tokens own;
};

/// A prompt whose prefix is cached: adoption test, probe, claim, growth, publishing, release.
void BM_FullHit(benchmark::State& state) {
  Cache c(state.range(0));
  base::HashChain shipped = base::hash_prompt(c.own, kBlock, {}, state.range(0) / kBlock + 64);
  int64_t hit = 0;
  for (auto _ : state) {
    state.PauseTiming();  // the front end's part
    base::HashChain chain = shipped;
    auto s = std::make_unique<kv::SeqBlocks>();
    s->expected_blocks = state.range(0) / kBlock + 64;
    state.ResumeTiming();
    c.manager.hash_prompt(*s, c.own, &chain);
    hit = c.manager.probe(*s, c.own, state.range(0) - 1).blocks;
    c.manager.claim(*s, c.own, hit);
    c.manager.grow(*s, state.range(0));
    c.manager.commit(*s, c.own, state.range(0));
    c.manager.release(*s);
    benchmark::DoNotOptimize(hit);
    state.PauseTiming();
    s.reset();
    state.ResumeTiming();
  }
  state.counters["hit_tokens"] = double(hit * kBlock);
}

/// The same up to the first forward pass: what delays the first token.
void BM_Admission(benchmark::State& state) {
  Cache c(state.range(0));
  base::HashChain shipped = base::hash_prompt(c.own, kBlock, {}, state.range(0) / kBlock + 64);
  for (auto _ : state) {
    state.PauseTiming();
    base::HashChain chain = shipped;
    auto s = std::make_unique<kv::SeqBlocks>();
    s->expected_blocks = state.range(0) / kBlock + 64;
    state.ResumeTiming();
    c.manager.hash_prompt(*s, c.own, &chain);
    const int64_t hit = c.manager.probe(*s, c.own, state.range(0) - 1).blocks;
    c.manager.claim(*s, c.own, hit);
    c.manager.grow(*s, state.range(0));
    state.PauseTiming();
    c.manager.commit(*s, c.own, state.range(0));
    c.manager.release(*s);
    s.reset();
    state.ResumeTiming();
  }
}

/// What the engine would pay without the front end's hashes.
void BM_HashOnEngine(benchmark::State& state) {
  Cache c(state.range(0));
  for (auto _ : state) {
    kv::SeqBlocks s;
    c.manager.hash_prompt(s, c.own, nullptr);
    benchmark::DoNotOptimize(s.links.data());
  }
}

/// Asking again about a waiting request when nothing has changed: with the memo constant, without it as long as the prompt.
void BM_ProbeAgain(benchmark::State& state) {
  Cache c(state.range(0), {.walk_memo = state.range(1) != 0});
  kv::SeqBlocks s;
  c.manager.hash_prompt(s, c.own, nullptr);
  for (auto _ : state) benchmark::DoNotOptimize(c.manager.probe(s, c.own, state.range(0) - 1).blocks);
}

/// Asking again after so many changes elsewhere, about a prompt of the greatest length.
void BM_ProbeAfterChanges(benchmark::State& state) {
  Cache c(kLongest);
  kv::SeqBlocks s;
  c.manager.hash_prompt(s, c.own, nullptr);
  c.manager.probe(s, c.own, kLongest - 1);
  const int64_t changes = state.range(0), blocks = changes / 2;  // a claim and a release are two changes for each block
  Tokens other = prompt(kLongest, 2);
  kv::SeqBlocks o;
  c.manager.hash_prompt(o, other, nullptr);
  for (auto _ : state) {
    state.PauseTiming();
    c.manager.claim(o, other, blocks);
    c.manager.release(o);
    state.ResumeTiming();
    benchmark::DoNotOptimize(c.manager.probe(s, c.own, kLongest - 1).blocks);
  }
}

BENCHMARK(BM_Admission)->Arg(1024)->Arg(4096)->Arg(16384)->Arg(65536)->Arg(kLongest)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_FullHit)->Arg(1024)->Arg(4096)->Arg(16384)->Arg(65536)->Arg(kLongest)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_HashOnEngine)->Arg(1024)->Arg(16384)->Arg(kLongest)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_ProbeAgain)->ArgsProduct({{1024, 16384, kLongest}, {1, 0}})->ArgNames({"tokens", "memo"})->Unit(benchmark::kNanosecond);
BENCHMARK(BM_ProbeAfterChanges)->Arg(0)->Arg(16)->Arg(128)->Arg(1024)->Arg(8192)->Arg(16384)->Unit(benchmark::kNanosecond);

}  // namespace

BENCHMARK_MAIN();
