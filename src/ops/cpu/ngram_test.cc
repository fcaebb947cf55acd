// Embeddings of n-grams against a plain reading of the tokens; the same however the prompt is cut.
#include "ops/ngram.h"

#include <numeric>

#include "ops/cpu/state_walk.h"
#include "ops/sparse.h"

namespace isotope::ops {
namespace {

using namespace test;

constexpr int32_t kEnd = 2;
constexpr int kSize = 3, kHeads = 2, kDim = 5;
const std::vector<int64_t> kMultipliers = {0x7fffffffffffff1, 0x123456789abcdef, 0x55555555555555}, kVocabularies = {7, 11, 13, 17}, kOffsets = {0, 7, 18, 31};
const std::vector<int32_t> kTokens = {5, 9, kEnd, 4, 4, 9, 5, kEnd, kEnd, 8, 7, 6, 5, 9, 3};

std::vector<float> table_row(int64_t row) { return random(size_t(kDim), uint32_t(row)); }

/// The table in parts of twenty rows, as files have it.
std::vector<Linear> tables(Ops& o) {
  std::vector<Linear> out;
  for (int64_t first = 0; first < 48; first += 20) {
    std::vector<float> v;
    const int64_t n = std::min<int64_t>(20, 48 - first);
    for (int64_t r = first; r < first + n; ++r) {
      const auto row = table_row(r);
      v.insert(v.end(), row.begin(), row.end());
    }
    out.emplace_back().w = *o.pack({.dtype = tensor::DType::f32, .data = v.data(), .bytes = v.size() * 4, .shape = {n, kDim}, .rank = 2});
  }
  return out;
}

std::vector<float> expected() {
  std::vector<float> out;
  for (size_t t = 0; t < kTokens.size(); ++t)
    for (int n = 2; n <= kSize; ++n)
      for (int h = 0; h < kHeads; ++h) {
        uint64_t mixed = 0;
        for (int back = 0; back < n; ++back) {
          bool seen = true;
          for (int i = 1; i <= back; ++i) seen = seen && int64_t(t) - i >= 0 && kTokens[t - size_t(i)] != kEnd;
          const int32_t token = seen ? kTokens[t - size_t(back)] : kEnd;
          mixed ^= uint64_t(token) * uint64_t(kMultipliers[size_t(back)]);
        }
        const size_t head = size_t((n - 2) * kHeads + h);
        const auto row = table_row(kOffsets[head] + int64_t(mixed) % kVocabularies[head]);
        out.insert(out.end(), row.begin(), row.end());
      }
  return out;
}

/// Tokens in steps that begin and end anywhere; the slot held another sequence's before.
std::vector<float> run(int64_t chunk, int threads) {
  auto ops = *make_cpu_ops({.threads = threads, .pin = false});
  const auto parts = tables(*ops);
  const NgramArgs args{.tables = parts, .size = kSize, .heads = kHeads, .multipliers = kMultipliers, .vocabularies = kVocabularies, .offsets = kOffsets,
                       .separator = kEnd, .at = {0, 3}};
  const KvLayerSpec spec{.group = 0, .state_floats = 3 + args.state_floats()};
  const int64_t slots[] = {1};
  const auto kv = ops->make_kv({&spec, 1}, slots, 16, KvType::f32);
  std::fill_n(reinterpret_cast<float*>((*kv)->block_bytes(0, 0).data()), 5, 77.0f);
  std::vector<float> out;
  const int32_t slot = 0;
  for (int64_t at = 0; at < int64_t(kTokens.size()); at += chunk) {
    const int64_t n = std::min<int64_t>(chunk, int64_t(kTokens.size()) - at);
    std::vector<int32_t> positions(static_cast<size_t>(n));
    std::iota(positions.begin(), positions.end(), int32_t(at));
    const int32_t start[] = {0, int32_t(n)}, context[] = {int32_t(at + n)};
    const Batch::Group group{&slot, 1, {}};
    ops->begin({std::span(kTokens).subspan(size_t(at), size_t(n)), positions, start, context, {}, {&group, 1}}, kv->get());
    const Tensor t = ops->sparse()->embed_ngrams(args);
    for (int64_t r = 0; r < t.rows; ++r) out.insert(out.end(), t.row(r), t.row(r) + t.cols);
  }
  return out;
}

TEST(Ngrams, RowsAreThoseOfTheLastTokens) {
  const auto want = expected();
  for (int64_t chunk : {100, 1, 2, 4, 7})
    for (int threads : {1, 3}) EXPECT_EQ(run(chunk, threads), want) << "steps of " << chunk;
}

TEST(StreamGates, AgreeWithDoublePrecision) {
  constexpr int n = 2, d = 8;
  auto ops = *make_cpu_ops({.threads = 1, .pin = false});
  const int32_t tokens[] = {0}, positions[] = {0}, start[] = {0, 1}, context[] = {1};
  ops->begin({.tokens = tokens, .positions = positions, .query_start = start, .context_len = context}, nullptr);
  const auto k = random(n * d, 1), q = random(n * d, 2), v = random(d, 3);
  const Tensor out = ops->sparse()->gate_streams({.keys = rows(*ops, k, {0}, n * d), .queries = rows(*ops, q, {0}, n * d), .values = rows(*ops, v, {0}, d), .streams = n});
  for (int s = 0; s < n; ++s) {
    double sum = 0;
    for (int i = 0; i < d; ++i) sum += double(k[size_t(s * d + i)]) * double(q[size_t(s * d + i)]);
    sum /= std::sqrt(double(d));
    const double gate = sigmoid(std::copysign(std::sqrt(std::abs(sum)), sum));
    for (int i = 0; i < d; ++i) EXPECT_NEAR(out.row(0)[s * d + i], gate * double(v[size_t(i)]), 1e-5);
  }
  const std::vector<float> zeros(n * d, 0.0f);
  const Tensor half = ops->sparse()->gate_streams({.keys = rows(*ops, zeros, {0}, n * d), .queries = rows(*ops, q, {0}, n * d), .values = rows(*ops, v, {0}, d), .streams = n});
  for (int i = 0; i < d; ++i) EXPECT_EQ(half.row(0)[i], 0.5f * v[size_t(i)]);
}

}  // namespace
}  // namespace isotope::ops
