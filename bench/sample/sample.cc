// Time to choose a token from a row of logits, by settings and size of the vocabulary (49 152: SmolLM2; 262 144: Gemma 3).
#include <benchmark/benchmark.h>

#include <random>

#include "sample/sampler.h"

namespace {

using isotope::SamplingParams;

struct Setting {
  const char* name;
  SamplingParams params;
};
const Setting kSettings[] = {
    {"greedy", {.temperature = 0}},
    {"temperature 1", {}},
    {"top-k 40", {.top_k = 40}},
    {"top-p 0.95", {.top_p = 0.95f}},
    {"top-k 64, top-p 0.95", {.top_k = 64, .top_p = 0.95f}},
    {"min-p 0.05", {.min_p = 0.05f}},
    {"typical 0.9", {.typical_p = 0.9f}},
};

void choose(benchmark::State& state, const Setting& setting) {
  const int64_t vocab = state.range(0);
  std::mt19937 rng(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (float& x : logits) x = normal(rng);
  isotope::sample::Sampler sampler(vocab);
  uint64_t seed = 0;
  for (auto _ : state) benchmark::DoNotOptimize(sampler.choose({.logits = logits, .params = &setting.params, .seed = seed++}));
  state.counters["logits/s"] = benchmark::Counter(double(vocab), benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Setting& s : kSettings)
    benchmark::RegisterBenchmark(s.name, [&s](benchmark::State& state) { choose(state, s); })->Arg(49'152)->Arg(262'144)->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
