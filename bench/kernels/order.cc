// What the fixed order of additions costs (contract 1): the shipped kernels against variants whose order depends on the work at hand.
//
//   bench_order [--reps R]
//
// GEMM: one accumulator along k against two (even and odd blocks), which is what an order-free kernel would do to hide latencies. Both orders are the same
// code with another mask, so that nothing but the order differs; a second line says how far the shipped kernel is from that code in the same order.
// Attention: segments of fixed length that begin with a maximum of their own and are joined left to right, against one running maximum over the whole walk
// (the bits of a row then depend on where its walk over the context began).
// Both sides run in alternating pairs; the ratio is the middle one, below 1 where the fixed order is slower.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

#include "kernels/cpu/attention.inl"
#include "kernels/cpu/elementwise.inl"
#include "kernels/cpu/gemm.inl"

namespace isotope::kernels::cpu {
namespace {

/// gemm_panel with a choice of orders: block n goes to sum n & mask. 0 is the fixed order; 1 alternates between two sums.
template <Pack P, int H, int T>
void masked_panel(const TileSet<T>& s, const std::byte* record, int64_t mask) {
  constexpr PackRow L = pack_row(P);
  constexpr int kAdvance = L.unit_bytes() / L.blocks, kAhead = H <= 4 ? 256 : 2048;
  const int64_t units = (s.k + L.unit_k() - 1) / L.unit_k();
  alignas(T > 1 ? 4096 : 64) f32x16 acc[2][T][H];
  for (auto& half : acc)
    for (auto& tile : half)
      for (f32x16& sum : tile) sum = zero_f32();
  int64_t n = 0;
  for (int64_t u = 0; u < units; ++u)
    for (int b = 0; b < L.blocks; ++b, record += H * kRecordBytes) {
      auto& sums = acc[n++ & mask];
      Codes w[T];
      Scales scales[T];
      for (int t = 0; t < T; ++t) {
        const std::byte* unit = s.tile[t] + u * L.unit_bytes();
        for (int line = 0; line < kAdvance; line += 64) prefetch(unit + b * kAdvance + line + kAhead);
        w[t] = load_codes<P>(unit, b);
        scales[t] = load_scales<P>(unit, b);
      }
      steps<L.kind, L.bits, rows_together(L.kind, H, T, 1)>(sums, w, scales, record);
    }
  for (int t = 0; t < T; ++t) {
    for (int r = 0; r < H; ++r) acc[0][t][r] += acc[1][t][r];
    finish<H>(acc[0][t], s.out[t], s.out_stride, s.bias[t], s.lanes[t]);
  }
}

double seconds(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Ratios of the times of b and a, by turns, in order; and of a's times the middle one.
std::pair<std::vector<double>, double> ratios_of(int reps, const std::function<void()>& a, const std::function<void()>& b) {
  std::vector<double> ratios, times;
  for (int i = 0; i <= reps; ++i) {
    double ta = 0, tb = 0;
    if (i % 2) ta = seconds(a), tb = seconds(b);
    else tb = seconds(b), ta = seconds(a);
    if (i) ratios.push_back(tb / ta), times.push_back(ta);
  }
  std::sort(ratios.begin(), ratios.end());
  std::sort(times.begin(), times.end());
  return {ratios, times[times.size() / 2]};
}

void compare(const std::string& name, int reps, const std::function<void()>& fixed, const std::function<void()>& free) {
  const auto [ratios, time] = ratios_of(reps, fixed, free);
  fmt::print("{:44} {:9.1f} us   order-free / fixed {:.3f} ({:.3f} to {:.3f})   cost of the fixed order {:+.1f} %\n", name, time * 1e6,
             ratios[ratios.size() / 2], ratios[ratios.size() / 10], ratios[ratios.size() * 9 / 10], 100 * (1 / ratios[ratios.size() / 2] - 1));
}

/// T as gemm_int chooses it.
template <Pack P, int H, int T>
void gemm_pair(const char* name, int reps, int64_t k, int64_t tiles) {
  constexpr PackRow L = pack_row(P);
  std::mt19937 rng(1);
  const int64_t tile_bytes = int64_t(L.tile_bytes(k));
  std::vector<std::byte> weights(size_t(tile_bytes * tiles) + 4096);
  for (auto& b : weights) b = std::byte(rng() & 0x3f);
  std::vector<float> x(size_t(H * k)), out(size_t(T * H * kLanes));
  for (float& v : x) v = float(int32_t(rng())) * 0x1p-31f;
  std::vector<std::byte> record(quantized_bytes(H, k));
  quantize_panel(x.data(), k, H, k, record.data());
  const auto all = [&](auto panel) {
    for (int64_t tile = 0; tile < tiles; tile += T) {
      TileSet<T> s;
      for (int t = 0; t < T; ++t) {
        s.tile[t] = weights.data() + (tile + t) * tile_bytes;
        s.out[t] = out.data() + t * H * kLanes;
        s.bias[t] = nullptr;
        s.lanes[t] = kLanes;
      }
      s.k = k, s.out_stride = kLanes, s.tile_bytes = tile_bytes, s.skip = (T - 1) * tile_bytes;
      panel(s, record.data());
    }
  };
  const auto masked = [&](int64_t mask) { return [&all, mask] { all([mask](const TileSet<T>& s, const std::byte* r) { masked_panel<P, H, T>(s, r, mask); }); }; };
  compare(fmt::format("gemm {} {} row{}, k {}, {} MiB", name, H, H == 1 ? "" : "s", k, weights.size() >> 20), reps, masked(0), masked(1));
  const auto [ratios, time] = ratios_of(reps, masked(0), [&] { all(gemm_panel<P, H, T>); });
  fmt::print("{:44} {:9.1f} us   shipped / same order {:.3f} ({:.3f} to {:.3f})\n", "", time * 1e6, ratios[ratios.size() / 2], ratios[ratios.size() / 10],
             ratios[ratios.size() * 9 / 10]);
}

template <class F>
void attention_pair(const char* name, int reps, int d, int rows, int context) {
  using T = typename F::T;
  const int dp = padded_dim(d), chunks = context / kChunk;
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<T> keys(size_t(context * d)), values(size_t(context * dp));
  std::vector<KvTile> tiles(size_t(context / kTile));
  for (size_t i = 0; i < tiles.size(); ++i) tiles[i] = {&keys[i * size_t(kTile * d)], &values[i * size_t(kTile * dp)]};
  std::vector<float> row(static_cast<size_t>(d));
  const auto noise = [&] {
    for (float& v : row) v = normal(rng);
    return row.data();
  };
  for (int t = 0; t < context; ++t) {
    const std::vector<float> k(noise(), row.data() + d);
    write_token<F>(tiles[size_t(t / kTile)], t % kTile, k.data(), noise(), d);
  }
  std::vector<std::vector<float>> queries;
  std::vector<const float*> pointers;
  for (int r = 0; r < rows; ++r) queries.emplace_back(noise(), row.data() + d);
  for (const auto& q : queries) pointers.push_back(q.data());
  std::vector<float> q(kQueryBytes / sizeof(float));
  pack_q<F>(q.data(), pointers.data(), rows, d);
  std::vector<int> lo(size_t(rows), 0), hi(size_t(rows), kChunk);
  alignas(64) static float o_run[kMaxRows * kMaxHeadDim], o_segment[kMaxRows * kMaxHeadDim];
  Partial run, segment;
  run.o = o_run;
  segment.o = o_segment;
  const auto walk = [&](bool segments) {
    clear_partial(run, rows, d);
    for (int c = 0; c < chunks; ++c) {
      const KvTile* now = &tiles[size_t(c * (kChunk / kTile))];
      if (segments && c * kChunk % kSegment == 0) clear_partial(segment, rows, d);
      attend<F>(ChunkArgs{.q = q.data(), .rows = rows, .d = d, .tiles = now, .next = c + 1 < chunks ? now + kChunk / kTile : now, .lo = lo.data(), .hi = hi.data(),
                          .scale = 0.125f},
                segments ? segment : run);
      if (segments && (c + 1) * kChunk % kSegment == 0) merge_partial(run, segment, rows, d);
    }
  };
  const unsigned state = enter<F>();
  compare(fmt::format("attention {} d {}, {} row{}, context {}", name, d, rows, rows == 1 ? "" : "s", context), reps, [&] { walk(true); },
          [&] { walk(false); });
  leave<F>(state);
}

}  // namespace
}  // namespace isotope::kernels::cpu

int main(int argc, char** argv) {
  using namespace isotope::kernels::cpu;
  const int reps = argc > 2 && std::string(argv[1]) == "--reps" ? std::max(5, std::atoi(argv[2])) : 51;
  fmt::print("{}\n", kSimd);
  gemm_pair<Pack::q4_k, 1, 1>("Q4_K", reps, 2048, 2048);
  gemm_pair<Pack::q4_k, 16, kTilesAtOnce>("Q4_K", reps, 2048, 128);
  gemm_pair<Pack::q8_0, 1, 1>("Q8_0", reps, 2048, 2048);
  gemm_pair<Pack::q8_0, 16, kTilesAtOnce>("Q8_0", reps, 2048, 128);
  attention_pair<KvBf16>("bf16", reps, 64, 1, 4096);
  attention_pair<KvBf16>("bf16", reps, 64, 3, 4096);
  attention_pair<KvBf16>("bf16", reps, 64, 12, 4096);
  attention_pair<KvBf16>("bf16", reps, 256, 12, 4096);
  attention_pair<KvF32>("f32", reps, 64, 12, 4096);
}
