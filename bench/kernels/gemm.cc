// Speed of the weight kernels: Gop/s (two operations a product) and GB/s of packed weights, by format and number of rows.
//
//   bench_gemm [--isa NAME] [--format NAME]... [--m ROWS]... [--n N] [--k K] [--threads T] [--mib SIZE] [--reps R]
//
// With one row the weights do not fit the caches (--mib of them, one matrix after another), as when a model generates; with more they do as
// far as [n, k] does. Times are the best of --reps, of the calling thread's own CPU time when it is alone, so that a busy machine disturbs less.
//
// The ladder, on one Zen 4 core (int8 peak 469 Gop/s, float32 117 Gflop/s, about 34 GB/s from memory), [2048, 2048], CPU time on a busy machine:
//   Q4_1                                                                   1 row       16 rows     512 rows
//     v1  sixteen lanes as loops                                           1.5 GB/s    5 Gop/s     5 Gop/s
//     v2  AVX2, sums in 16 bits while exact                                33          168         168
//     v3  AVX-512 VNNI, tiles unpacked to bytes first, k in pieces         26          265         250
//     v4  codes taken apart in registers for each panel, whole k           28          292         272
//     v5  a panel meets eight tiles; prefetch 256 B / 2 KB ahead           33          310         295     <- shipped
//   Share of the int8 peak in the caches: one panel at a time, rows one by one | two panels at a time; up to eight rows four at a time  <- shipped
//     192 rows, k 2048: Q4_K 65 | 68 %, Q4_1 68 | 68, Q8_0 76 | 75, Q6_K 61 | 62.  128 rows, k 576: Q4_1 66 | 68, Q8_0 73 | 74
//     8 rows: Q4_K 67 | 69 %, Q4_1 69 | 69, Q8_0 67 | 76, Q6_K 58 | 61
//   Q6_K, 1 row       scales behind the codes of a unit  19 GB/s  ·  scales first, so that memory is one rising stream  32 GB/s  <- shipped
//   BF16              8 rows x 2 vectors, tiles apart  30 GB/s, 102 Gflop/s  ·  6 rows x 4 vectors, 64 rows interleaved  34 GB/s, 114  <- shipped
//   Q8_0, 16 rows, [262144, 640] from memory: 267 Gop/s; also fetched 8 KB ahead into the second-level cache 312  <- shipped (fewer bits: no difference)
//   lost: panels of 4, 8 and 12 rows (within 3 % for four-bit codes, 5 to 8 % slower for five and six bits), prefetch of 1 to 16 KB with one row
//   (- 10 %), k in pieces of 16 blocks with sums waiting in `out` (- 2 %).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/pick.h"
#include "ops/cpu/linear.h"
#include "timing.h"

using namespace isotope;
using bench::now;
using tensor::DType;

namespace {

struct Settings {
  std::string isa;
  std::vector<std::string> formats;
  std::vector<int64_t> rows;
  int64_t n = 2048, k = 2048, mib = 256;
  int threads = 1, reps = 9;
};

// Codes are random; scales are kept small so that no value overflows.
std::vector<uint8_t> random_weight(const tensor::Format& f, int64_t n, int64_t k) {
  std::vector<uint8_t> bytes(tensor::row_bytes(f.dtype, k) * size_t(n));
  std::mt19937 rng(1);
  for (auto& b : bytes) b = uint8_t(rng());
  for (size_t i = 1; i < bytes.size(); i += 2) bytes[i] &= 0xbf;  // no half or bfloat16 above 2
  if (f.dtype == DType::f32) for (size_t i = 3; i < bytes.size(); i += 4) bytes[i] = 0x3f;
  return bytes;
}

void measure(const kernels::cpu::KernelTable& t, const Settings& s, const tensor::Format& f, int64_t rows) {
  const auto bytes = random_weight(f, s.n, s.k);
  const tensor::HostTensor source{.dtype = f.dtype, .data = bytes.data(), .bytes = bytes.size(), .shape = {s.n, s.k}, .rank = 2};
  ops::WeightStore store;
  std::vector<std::unique_ptr<ops::Weight>> weights;
  size_t total = 0;
  do {
    auto w = ops::pack_weight(source, {}, Precision::fast, &store);
    if (!w) return void(fmt::print("{}: {}\n", f.name, w.error().message()));
    total += (*w)->bytes;
    weights.push_back(std::move(*w));
  } while (rows == 1 && total < size_t(s.mib) << 20);

  std::mt19937 rng(2);
  const int64_t x_stride = s.k + 16 * (s.k / 16 % 2 ? 2 : 1), out_stride = s.n + 16;
  std::vector<float> x(size_t(rows * x_stride)), out(size_t(rows * out_stride));
  for (auto& v : x) v = float(int32_t(rng())) * 0x1p-31f;
  std::vector<std::byte> scratch(ops::linear_scratch_bytes(rows, s.k));
  base::Team team(s.threads);
  double best = 1e30;
  for (int r = 0; r < s.reps; ++r) {
    const double begin = now(s.threads == 1);
    for (const auto& w : weights) {
      const ops::LinearJob job{w.get(), {out.data(), rows, s.n, out_stride}, {}};
      ops::linear(team, t, tensor::Tensor{x.data(), rows, s.k, x_stride}, scratch, {&job, 1});
    }
    best = std::min(best, now(s.threads == 1) - begin);
  }
  const double ops = 2.0 * double(s.n) * double(s.k) * double(rows) * double(weights.size());
  fmt::print("{:12} {:8} {:5} rows  {:8.1f} Gop/s  {:7.2f} GB/s  {:9.1f} us\n", t.isa, f.name, rows, ops / best * 1e-9, double(total) / best * 1e-9,
             best / double(weights.size()) * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string a = argv[i], v = argv[i + 1];
    if (a == "--isa") s.isa = v;
    else if (a == "--format") s.formats.push_back(v);
    else if (a == "--m") s.rows.push_back(std::atoll(v.c_str()));
    else if (a == "--n") s.n = std::atoll(v.c_str());
    else if (a == "--k") s.k = std::atoll(v.c_str());
    else if (a == "--mib") s.mib = std::atoll(v.c_str());
    else if (a == "--threads") s.threads = std::atoi(v.c_str());
    else if (a == "--reps") s.reps = std::atoi(v.c_str());
    else return fmt::print(stderr, "unknown option {}\n", a), 2;
  }
  if (s.formats.empty()) s.formats = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "F16", "BF16", "F32"};
  if (s.rows.empty()) s.rows = {1, 2, 4, 8, 16, 64, 512};
  const auto table = kernels::cpu::pick_isa(s.isa, "--isa");
  if (!table) return fmt::print(stderr, "{}\n", table.error().message()), 2;
  for (const auto& name : s.formats) {
    const tensor::Format* f = tensor::format_by_name(name);
    if (!f) return fmt::print(stderr, "unknown format {}\n", name), 2;
    for (const int64_t m : s.rows) measure(**table, s, *f, m);
  }
}
