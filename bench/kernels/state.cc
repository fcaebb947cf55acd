// Speed of layers with a matrix for a state: what a token of a prompt costs, which should not depend on the prompt's length, and what a step of one token
// costs, which should not depend on its position.
//
//   bench_state [--isa NAME] [--threads T] [--reps R] [--step N] [--only TEXT]
//
// A prompt goes in steps of N tokens, as the engine feeds it. Decoding visits `kSlots` states in turn, as a model's layers do, so that each comes from memory.
// Times are the best of --reps, of the process' own CPU time when one thread works.
//
// Ladder, one core of an AMD EPYC (Zen 4), a token and sixteen columns of a matrix of 128 rows, everything in the second-level cache (beside other work):
//   v1 token by token, one pass over the columns a token                                     gated delta rule 299 ns, Mamba 2 211 ns
//   v2 chunks of 8 anchored at position 0: columns read once and written once a chunk        gated delta rule 123 ns, Mamba 2  88 ns   <- shipped
// Kimi Delta Attention, a token of a prompt and one layer (32 heads of 128 × 128), one core beside much other work, CPU time:
//   v1 token by token 120 to 206 us · v2 chunks of 8, decays multiplied up along their rows 57 to 76 us  <- shipped.   One token: v1 131 to 149 us, v2 119 to 156 us
// Prompts of 2048: v2 with a panel over all tokens of the step 72 us a token and layer (Qwen3-Next) · spans of 64 tokens, all panels of a head 52 us  <- shipped
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ops/ops.h"
#include "timing.h"

using namespace isotope;
using bench::now;

namespace {

struct Settings {
  std::string isa, only;
  int threads = 1, reps = 3;
  int64_t step = 2048;
};

/// One layer of a model: layers, heads and widths as published.
struct Shape {
  const char* name;
  enum Rule { delta, scan, channels } rule;
  int layers, groups, heads, depth, width;
};
constexpr Shape kShapes[] = {{"Qwen3-Next gated delta rule", Shape::delta, 36, 16, 32, 128, 128},
                             {"Nemotron-H 8B Mamba 2", Shape::scan, 24, 8, 128, 128, 64},
                             {"Mamba 2 2.7B", Shape::scan, 64, 1, 80, 128, 64},
                             {"Kimi Linear delta rule by channel", Shape::channels, 20, 32, 32, 128, 128}};
constexpr int64_t kPrompts[] = {1024, 4096, 16384, 32768};
constexpr int64_t kDepths[] = {0, 32768};
constexpr int kSlots = 36;

class Bench {
 public:
  Bench(ops::Ops& o, const Shape& s, const Settings& set) : o_(o), s_(s), own_(set.threads == 1) {
    std::mt19937 rng(1);
    for (float& x : noise_) x = float(int32_t(rng())) * 0x1p-34f;
    delta_.neg_a = scan_.neg_a = rates_;
    delta_.dt_bias = scan_.dt_bias = scan_.d = bias_;
    delta_.key_heads = scan_.groups = s.groups;
    delta_.value_heads = scan_.heads = s.heads;
    delta_.dk = scan_.states = s.depth;
    delta_.dv = scan_.dim = s.width;
    scan_.dt_high = 1;
    channels_.rate = by_channel_, channels_.dt_bias = by_channel_;
    channels_.heads = s.heads, channels_.dk = s.depth, channels_.dv = s.width;
    const int64_t floats[] = {delta_.state_floats(), scan_.state_floats(), channels_.state_floats()};
    const ops::KvLayerSpec layer{.state_floats = floats[s.rule]};
    const int64_t slots[] = {kSlots};
    kv_ = *o.make_kv({&layer, 1}, slots, 16, KvType::bf16);
  }

  /// Seconds of a prompt of so many tokens.
  double prompt(int64_t tokens, int64_t step) {
    double sum = 0;
    for (int64_t at = 0; at < tokens; at += step) sum += run(at, std::min(step, tokens - at), 0);
    return sum;
  }
  /// Seconds of a step of one token, over one chunk of positions and all slots.
  double decode(int64_t depth) {
    constexpr int kTokens = 2 * ops::kStateChunk;
    double sum = 0;
    for (int t = 0; t < kTokens; ++t)
      for (int slot = 0; slot < kSlots; ++slot) sum += run(depth + t, 1, slot);
    return sum / (kTokens * kSlots);
  }
  int64_t state_bytes() const { return int64_t(kv_->bytes) / kSlots; }

 private:
  double run(int64_t first, int64_t n, int32_t slot) {
    std::vector<int32_t> ids(size_t(n), 0), positions(ids.size());
    std::iota(positions.begin(), positions.end(), int32_t(first));
    const int32_t start[] = {0, int32_t(n)}, context[] = {int32_t(first + n)};
    const ops::Batch::Group groups[] = {{&slot, 1, {}}};
    o_.begin({.tokens = ids, .positions = positions, .query_start = start, .context_len = context, .groups = groups}, kv_.get());
    const auto q = fill(n, s_.groups * s_.depth), k = fill(n, s_.groups * s_.depth), x = fill(n, s_.heads * s_.width), a = fill(n, s_.heads), b = fill(n, s_.heads);
    const auto f = s_.rule == Shape::channels ? fill(n, s_.heads * s_.depth) : tensor::Tensor{};
    const double t = now(own_);
    if (s_.rule == Shape::channels) {
      channels_.q = q, channels_.k = k, channels_.v = x, channels_.f = f, channels_.b = b;
      o_.channel_delta(channels_);
    } else if (s_.rule == Shape::delta) {
      delta_.q = q, delta_.k = k, delta_.v = x, delta_.a = a, delta_.b = b;
      o_.gated_delta(delta_);
    } else {
      scan_.c = q, scan_.b = k, scan_.x = x, scan_.dt = a;
      o_.scan(scan_);
    }
    return now(own_) - t;
  }
  tensor::Tensor fill(int64_t rows, int64_t cols) {
    const auto t = o_.empty(rows, cols);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; c += 4096) std::copy_n(&noise_[size_t((r * 61 + c) % 4096)], std::min<int64_t>(4096, cols - c), t.row(r) + c);
    return t;
  }

  ops::Ops& o_;
  const Shape& s_;
  bool own_;
  std::vector<float> noise_ = std::vector<float>(8192), rates_ = std::vector<float>(size_t(s_.heads), -0.5f), bias_ = std::vector<float>(size_t(s_.heads), 0.1f);
  ops::DeltaArgs delta_;
  ops::ScanArgs scan_;
  std::vector<float> by_channel_ = std::vector<float>(size_t(s_.heads * s_.depth), 0.1f);
  ops::ChannelDeltaArgs channels_;
  std::unique_ptr<ops::KvCache> kv_;
};

template <class F>
double best(int reps, F f) {
  double t = 1e30;
  for (int r = 0; r < reps; ++r) t = std::min(t, f());
  return t;
}

void measure(const Shape& s, const Settings& set) {
  const auto made = ops::make_cpu_ops({.threads = set.threads, .isa = set.isa});
  if (!made) return void(fmt::print("{}\n", made.error().message()));
  Bench bench(**made, s, set);
  fmt::print("{}, {} MiB of state a layer, {} layers\n  a token of a prompt, one layer:", s.name, bench.state_bytes() >> 20, s.layers);
  double one = 0;
  for (const int64_t n : kPrompts) {
    one = best(n > 4096 ? 1 : set.reps, [&] { return bench.prompt(n, set.step); }) / double(n);
    fmt::print(" {}k {:.2f} us", n / 1024, one * 1e6);
  }
  fmt::print("  (all layers: {:.0f} tokens/s)\n  a step of one token, one layer:", 1 / (one * s.layers));
  for (const int64_t d : kDepths) {
    const double t = best(set.reps, [&] { return bench.decode(d); });
    fmt::print(" @{} {:.1f} us, state at {:.1f} GB/s", d, t * 1e6, double(bench.state_bytes()) / t * 1e-9);
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--isa") s.isa = value;
    else if (flag == "--only") s.only = value;
    else if (flag == "--threads") s.threads = std::atoi(value.c_str());
    else if (flag == "--reps") s.reps = std::max(1, std::atoi(value.c_str()));
    else if (flag == "--step") s.step = std::clamp<int64_t>(std::atoll(value.c_str()), 1, 32768);
    else return fmt::print(stderr, "unknown option {}\n", flag), 2;
  }
  for (const Shape& shape : kShapes)
    if (std::string(shape.name).find(s.only) != std::string::npos) measure(shape, s);
}
