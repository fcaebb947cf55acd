// Speed of attention: Gflop/s of a prompt and GB/s of keys and values while generating, for the shapes of real models.
//
//   bench_attention [--isa NAME] [--threads T] [--prompt N] [--reps R] [--only TEXT]
//
// Latent attention is compared with its roofline: the slower of reading the cache and of computing, at the speeds that this machine shows in the same run.
// Times are the best of --reps, of the process' own CPU time when one thread works, so that a busy machine disturbs less.
//
// Ladder, one core of an AMD EPYC (Zen 4), SmolLM2 (9 heads over 3, d 64), bf16 cache, prompt of 512:
//   v1 scores and sums blocked 12 rows by 2 vectors                                  57 Gflop/s
//   v2 exponential for x <= 0 alone, no masks on whole chunks, sums start at zero    75 Gflop/s; two thirds of the time is at the FMA limit
//   v3 pairs of bfloat16 through vdpbf16ps (avx512_bf16)                            118 Gflop/s
//   v4 exponential as exact as bfloat16 weights need, power of two by one instruction  130 Gflop/s
//   v5 a chunk that all rows see whole is joined in registers; denormals switched off once a walk, not once a chunk   prompt of 2048: 138 to 143
//   v6 maxima and sums of all rows at once, chunks of 128 instead of 64 tokens: half the joins           prompt of 2048: 149 to 151
//   v7 a running maximum within segments of 512 tokens, chunks of 256; 12 rows from the cache 4.5 % faster                          <- shipped
// One token at context 512 (cache-resident): v1 narrow heads one vector at a time 20.9 GB/s · v2 whole head in registers 22.9 GB/s · v3 pairs 34.4 GB/s
//   v4 running maximum, next chunk fetched into the second-level cache, two tiles at once 44.5 GB/s   <- shipped
// Latent attention, one token: v1 the vectors stored twice, as keys and values of one head with rows of twelve query heads that each read all of them
//   v2 stored once; 64 query heads together, for which each chunk is fetched once and turned into values panel by panel   <- shipped
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/team.h"
#include "kernels/cpu/pick.h"
#include "ops/cpu/limits.h"
#include "ops/ops.h"
#include "timing.h"

using namespace isotope;
using bench::now;

namespace {

struct Settings {
  std::string isa, only;
  int threads = 1, reps = 20;
  int64_t prompt = 512;
};

struct Shape {
  const char* name;
  int heads, kv_heads, dim;
  int64_t window;
  KvType type;
  int value_dim = 0;  ///< of latent attention
};

constexpr Shape kShapes[] = {{"SmolLM2 135M bf16", 9, 3, 64, 0, KvType::bf16},      {"SmolLM2 135M f32", 9, 3, 64, 0, KvType::f32},
                             {"SmolLM2 135M f16", 9, 3, 64, 0, KvType::f16},        {"SmolLM2 135M int8", 9, 3, 64, 0, KvType::int8},
                             {"SmolLM2 135M fp8", 9, 3, 64, 0, KvType::fp8},        {"Gemma 3 270M bf16", 4, 1, 256, 512, KvType::bf16},
                             {"Llama 3 8B bf16", 32, 8, 128, 0, KvType::bf16},
                             {"DeepSeek V2-Lite bf16", 16, 1, 576, 0, KvType::bf16, 512},
                             {"DeepSeek V3 bf16", 128, 1, 576, 0, KvType::bf16, 512}};
constexpr int64_t kContexts[] = {16, 128, 512, 4096, 16384};

/// One sequence in one layer's cache.
class Bench {
 public:
  Bench(ops::Ops& o, const Shape& s, const Settings& set) : o_(o), s_(s), set_(set), table_(size_t(kContexts[4]) / 16) {
    const ops::KvLayerSpec layers[] = {{.group = 0, .kv_heads = s.kv_heads, .head_dim = s.dim, .value_dim = s.value_dim}};
    const int64_t blocks[] = {int64_t(table_.size())};
    kv_ = *o.make_kv(layers, blocks, 16, s.type);
    std::iota(table_.begin(), table_.end(), 0);
    for (float& x : noise_) x = float(int32_t(rng_())) * 0x1p-31f;
  }

  /// Best time of attention for `tokens` tokens from position `first` on.
  double seconds(int64_t first, int64_t tokens, int reps) { return run(first, tokens, s_.window, reps); }

  /// Writes the cache up to `tokens`; each token looks at itself alone.
  void fill_cache(int64_t tokens) {
    for (int64_t at = 0; at < tokens; at += 256) run(at, std::min<int64_t>(256, tokens - at), 1, 1);
  }

 private:
  double run(int64_t first, int64_t tokens, int64_t window, int reps) {
    std::vector<int32_t> ids(size_t(tokens), 0), positions(ids.size());
    std::iota(positions.begin(), positions.end(), int32_t(first));
    const int32_t start[] = {0, int32_t(tokens)}, context[] = {int32_t(first + tokens)};
    const ops::Batch::Group groups[] = {{table_.data(), int64_t(table_.size()), positions}};
    const ops::Batch batch{.tokens = ids, .positions = positions, .query_start = start, .context_len = context, .groups = groups};
    double best = 1e30;
    for (int r = 0; r < reps; ++r) {
      o_.begin(batch, kv_.get());
      const auto q = fill(tokens, s_.heads), k = fill(tokens, s_.kv_heads), v = s_.value_dim ? tensor::Tensor{} : fill(tokens, s_.kv_heads);
      const double t = now(set_.threads == 1);
      o_.attention({.q = q, .k = k, .v = v, .heads = s_.heads, .kv_heads = s_.kv_heads, .head_dim = s_.dim, .scale = 0.125f, .window = window,
                    .value_dim = s_.value_dim});
      best = std::min(best, now(set_.threads == 1) - t);
    }
    return best;
  }

  tensor::Tensor fill(int64_t rows, int heads) {
    const auto t = o_.empty(rows, heads * s_.dim);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < t.cols; c += 8192) std::copy_n(&noise_[size_t((r * 61 + c / 64) % 4096)], std::min<int64_t>(8192, t.cols - c), t.row(r) + c);
    return t;
  }

  ops::Ops& o_;
  const Shape& s_;
  const Settings& set_;
  std::mt19937 rng_{1};
  std::vector<float> noise_ = std::vector<float>(16384);
  std::vector<int32_t> table_;
  std::unique_ptr<ops::KvCache> kv_;
};

/// What this machine allows, measured once.
const ops::MachineLimits& limits(const Settings& set) {
  static const ops::MachineLimits found = [&] {
    base::Team team(set.threads);
    return ops::measure_limits(team, **kernels::cpu::pick_isa(set.isa), 2);
  }();
  return found;
}

void measure(const Shape& s, const Settings& set) {
  const auto made = ops::make_cpu_ops({.threads = set.threads, .isa = set.isa});
  if (!made) return void(fmt::print("{}\n", made.error().message()));
  Bench bench(**made, s, set);
  double flops = 0;
  const double added = s.dim + (s.value_dim ? s.value_dim : s.dim), stored = s.value_dim ? s.dim : 2 * s.dim;
  for (int64_t p = 0; p < set.prompt; ++p) flops += 2.0 * s.heads * added * double(s.window ? std::min(s.window, p + 1) : p + 1);
  const double t = bench.seconds(0, set.prompt, set.reps);
  fmt::print("{:18} prompt {} {:9.1f} us {:6.1f} Gflop/s |", s.name, set.prompt, t * 1e6, flops / t * 1e-9);
  constexpr double kBytes[] = {4, 2, 2, 1, 1};
  for (const int64_t context : kContexts) {
    bench.fill_cache(context);
    const double one = bench.seconds(context - 1, 1, set.reps * 4);
    const double bytes = double(s.window ? std::min(s.window, context) : context) * stored * s.kv_heads * kBytes[int(s.type)];
    fmt::print(" @{} {:.1f} us {:.1f} GB/s", context, one * 1e6, bytes / one * 1e-9);
    if (!s.value_dim) continue;
    const double least = std::max(bytes / limits(set).read_bytes, 2.0 * s.heads * added * double(context) / limits(set).bf16_ops);
    fmt::print(" {:.0f} % of its roofline", 100 * least / one);
  }
  if (s.value_dim) fmt::print(" | {:.0f} GB/s and {:.0f} Gflop/s of bf16 measured", limits(set).read_bytes * 1e-9, limits(set).bf16_ops * 1e-9);
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
    else if (flag == "--prompt") s.prompt = std::clamp<int64_t>(std::atoll(value.c_str()), 1, kContexts[4]);
    else if (flag == "--reps") s.reps = std::max(1, std::atoi(value.c_str()));
    else return fmt::print(stderr, "unknown option {}\n", flag), 2;
  }
  for (const Shape& shape : kShapes)
    if (std::string(shape.name).find(s.only) != std::string::npos) measure(shape, s);
}
