// What a prompt that is cached whole costs the engine's thread on the real way through the engine: inbox, scheduler, claim, batch, commit, events, release. The
// model is null: it computes nothing. Measured is the CPU time of that thread from before the request is submitted until after its end has been told.
//   build/release/bench/kv/bench_engine --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <random>
#include <vector>

#include "engine/parts.h"

namespace {

using namespace isotope;

constexpr int kBlock = 16;
constexpr int64_t kVocab = 64, kLongest = 186'000;

class NullRunner final : public engine::Runner {
 public:
  Result<tensor::Tensor> forward(const ops::Batch& b) override {
    logits_.resize(size_t(std::max<int64_t>(1, b.R()) * kVocab));
    return tensor::Tensor{logits_.data(), b.R(), kVocab, kVocab};
  }
  void adopt_caller() override { pthread_getcpuclockid(pthread_self(), &clock_); }
  double seconds() const {
    timespec t{};
    clock_gettime(clock_, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
  }

 private:
  std::vector<float> logits_;
  clockid_t clock_{};
};

struct Rig {
  explicit Rig(int64_t tokens) {
    engine::Parts p;
    p.options = {.block_size = kBlock, .max_num_seqs = 4, .max_num_batched_tokens = 8192};
    p.info = {.name = "null", .vocab = kVocab, .context_length = kLongest + 64, .max_model_len = kLongest + 64};
    p.groups = {{.blocks = 2 * (tokens / kBlock + 64)}};
    auto r = std::make_unique<NullRunner>();
    runner = r.get();
    p.runner = std::move(r);
    engine = engine::make_engine(std::move(p));
    std::mt19937 rng(1);
    for (int64_t i = 0; i < tokens; ++i) prompt.push_back(int32_t(rng() % kVocab));
  }
  /// One request, from its submission to its end.
  void run() {
    Request r;
    r.id = ++id;
    r.prompt = prompt;
    r.sampling = {.temperature = 0, .max_tokens = 1, .ignore_eos = true};
    std::atomic<bool> over{false};
    r.sink = [&](const TokenEvent& e) {
      if (e.finish == FinishReason::none) return;
      over = true;
      over.notify_all();
    };
    if (!engine->submit(std::move(r))) std::abort();
    over.wait(false);
    while (engine->stats().running + engine->stats().waiting > 0) {
    }
  }
  NullRunner* runner = nullptr;
  std::unique_ptr<Engine> engine;
  std::vector<int32_t> prompt;
  uint64_t id = 0;
};

void full_hit(benchmark::State& state) {
  Rig rig(state.range(0));
  rig.run();  // computes it
  for (auto _ : state) {
    const double before = rig.runner->seconds();
    rig.run();
    state.SetIterationTime(rig.runner->seconds() - before);
  }
  state.counters["cached"] = double(rig.engine->stats(rig.id)->cached_tokens);
}

BENCHMARK(full_hit)->Arg(1024)->Arg(4096)->Arg(16384)->Arg(65536)->Arg(kLongest)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
