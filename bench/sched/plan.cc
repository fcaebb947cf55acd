// One pass of the scheduler against the number of running and of waiting requests, with real block bookkeeping. The cost must follow what runs, never what
// waits: the queue is ordered and only its head is looked at.
//   build/release/bench/sched/bench_sched --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <deque>

#include "base/hash.h"
#include "kv/manager.h"
#include "sched/scheduler.h"

namespace {

using namespace isotope;
using namespace isotope::sched;

constexpr int kBlockSize = 16;

struct Seq : Entry {
  std::vector<int32_t> tokens;
  int64_t computed = 0;
  kv::SeqBlocks kv;
};

/// `running` requests that decode and `waiting` ones, prompts of 512 tokens that share the first 256 with each other.
class Desk : Owner {
 public:
  Desk(int64_t running, int64_t waiting, bool slots, bool delayer)
      : kv_(kBlockSize, std::vector<kv::GroupConfig>{{.blocks = (running + 64) * 48}}, true),
        sched_({.limits = {.token_budget = 2048, .max_seqs = int(running + (slots ? 64 : 0)), .block_size = kBlockSize},
                .delayer = {.ttft_max_ticks = 1 << 30, .stall_ticks = 1 << 30, .decode_interval = delayer ? 1 : 0}},
               *this) {
    for (int64_t i = 0; i < running; ++i) run(add(i));
    for (int64_t i = 0; i < waiting; ++i) add(running + i);
    pass_ = {.available = kv_.available(), .total = {kv_.pool(0).total()}};
  }
  const StepPlan& plan() { return sched_.plan(pass_); }
  int64_t probed() const { return sched_.probed(); }

 private:
  Seq& add(int64_t i) {
    Seq& s = all_.emplace_back();
    for (int64_t t = 0; t < 512; ++t) s.tokens.push_back(int32_t(t < 256 ? t : i * 512 + t));
    s.prompt_size = 512;
    s.output_limit = 256;
    base::extend_chain(s.kv.links, s.tokens, kBlockSize, {});
    sched_.add(s);
    return s;
  }
  void run(Seq& s) {
    sched_.admit(s);
    s.computed = kv_.claim(s.kv, s.tokens, kv_.match(s.kv, s.tokens, 511).blocks) * kBlockSize;
    kv_.grow(s.kv, 513);
    kv_.commit(s.kv, s.tokens, s.computed = 512);
    s.tokens.push_back(1);
  }
  SeqState running_state(const Entry& e) const override {
    const Seq& s = static_cast<const Seq&>(e);
    return {.computed = s.computed, .known = int64_t(s.tokens.size()), .blocks = s.kv.blocks()};
  }
  kv::Counts held(const Entry& e) const override { return kv_.held(static_cast<const Seq&>(e).kv); }
  SeqState waiting_state(Entry& e) override {
    Seq& s = static_cast<Seq&>(e);
    const kv::Hit hit = kv_.match(s.kv, s.tokens, 511);
    return {.computed = hit.blocks * kBlockSize, .known = 512, .blocks = hit.blocks, .held = hit.evictable};
  }

  kv::Manager kv_;
  Scheduler sched_;
  std::deque<Seq> all_;
  Pass pass_;
};

void plan(benchmark::State& state, bool slots, bool delayer) {
  Desk desk(state.range(0), state.range(1), slots, delayer);
  for (auto _ : state) benchmark::DoNotOptimize(desk.plan());
  state.counters["probed"] = double(desk.probed());
}

void full(benchmark::State& s) { plan(s, false, false); }     // no slot is free: decodes only
void admitting(benchmark::State& s) { plan(s, true, false); } // slots are free: the head is looked up and admitted
void delayed(benchmark::State& s) { plan(s, true, true); }    // and the delayer looks at it before

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"running", "waiting"})->Unit(benchmark::kMicrosecond);
  for (const int64_t waiting : {0, 100, 1000, 10'000, 40'000}) b->Args({256, waiting});
  for (const int64_t running : {1, 16, 64, 1024}) b->Args({running, 10'000});
}

BENCHMARK(full)->Apply(sizes);
BENCHMARK(admitting)->Apply(sizes);
BENCHMARK(delayed)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
