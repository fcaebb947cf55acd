// For tests: sequences fed step by step through an Ops whose cache has given layers. What a token brings is a function of its sequence, its position and a
// name alone, so that runs can be compared.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/ops.h"

namespace isotope::ops {

/// n numbers with a normal distribution.
inline std::vector<float> numbers_of(int sequence, int64_t position, int what, int64_t n) {
  std::mt19937 rng(unsigned(sequence) * 7919u + unsigned(position) * 104729u + unsigned(what) * 1299709u + 17u);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(rng);
  return out;
}

class Feed {
 public:
  struct Options {
    KvType type = KvType::f32;
    int threads = 1;
    std::string isa = {};
    int block_size = 16;
    unsigned scatter = 0;      ///< above 0: the order in which blocks are handed out
    bool alone = true;         ///< small work stays on one thread
    SparseTuning sparse = {};
  };
  struct Row {
    int sequence;
    int64_t position;
  };

  Feed(std::vector<KvLayerSpec> layers, int groups, const Options& o) : groups_(groups), size_(o.block_size) {
    ops_ = *make_cpu_ops({.threads = o.threads, .isa = o.isa, .pin = false, .tuning = o.alone ? CpuTuning{} : CpuTuning{.attention_alone = 0},
                           .sparse = o.sparse});
    const std::vector<int64_t> blocks(size_t(groups), kBlocks);
    kv_ = *ops_->make_kv(layers, blocks, size_, o.type);
    for (int l = 0; l < int(layers.size()); ++l)
      for (int32_t b = 0; b < kBlocks; ++b) std::memset(kv_->block_bytes(l, b).data(), 0xff, kv_->block_bytes(l, b).size());  // NaN in most formats
    free_.resize(kBlocks);
    std::iota(free_.begin(), free_.end(), 0);
    if (o.scatter) std::shuffle(free_.begin(), free_.end(), std::mt19937(o.scatter));
  }

  Ops& ops() { return *ops_; }
  SparseOps& sparse() { return *ops_->sparse(); }

  /// A tensor whose rows are numbers_of() the batch's tokens.
  Tensor tensor(int what, int64_t cols) {
    const Tensor t = ops_->empty(int64_t(rows_.size()), cols);
    for (int64_t r = 0; r < t.rows; ++r) {
      const auto v = numbers_of(rows_[size_t(r)].sequence, rows_[size_t(r)].position, what, cols);
      std::copy(v.begin(), v.end(), t.row(r));
    }
    return t;
  }
  const std::vector<Row>& rows() const { return rows_; }

  /// One step of {sequence, tokens} each.
  void step(const std::vector<std::pair<int, int64_t>>& parts, const std::function<void()>& body) {
    std::vector<int32_t> tokens, positions, start{0}, context, slots, table;
    rows_.clear();
    for (const auto& [id, n] : parts) {
      if (size_t(id) >= live_.size()) live_.resize(size_t(id) + 1);
      Live& l = live_[size_t(id)];
      for (int64_t end = l.done + n; l.done < end; ++l.done) {
        if (l.done / size_ >= int64_t(l.blocks.size())) l.blocks.push_back(free_.back()), free_.pop_back();
        positions.push_back(int32_t(l.done));
        slots.push_back(l.blocks[size_t(l.done / size_)] * size_ + int32_t(l.done % size_));
        tokens.push_back(0);
        rows_.push_back({id, l.done});
      }
      start.push_back(int32_t(tokens.size()));
      context.push_back(int32_t(l.done));
      std::vector<int32_t> row = l.blocks;
      row.resize(kBlocks, -1);
      table.insert(table.end(), row.begin(), row.end());
    }
    const std::vector<Batch::Group> groups(size_t(groups_), {table.data(), kBlocks, slots});
    ops_->begin({.tokens = tokens, .positions = positions, .query_start = start, .context_len = context, .groups = groups}, kv_.get());
    body();
  }

 private:
  static constexpr int32_t kBlocks = 128;
  struct Live {
    int64_t done = 0;
    std::vector<int32_t> blocks;
  };
  int groups_, size_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<KvCache> kv_;
  std::vector<int32_t> free_;
  std::vector<Live> live_;
  std::vector<Row> rows_;
};

/// How the prompt of sequence 0 is cut, and whether another sequence runs beside it.
struct FeedWay {
  const char* name;
  int64_t chunk;
  bool neighbour = false;
  int threads = 1;
  unsigned scatter = 0;
  const char* isa = "";
};
inline constexpr FeedWay kFeedWays[] = {{"whole", 100000},
                                        {"one by one", 1},
                                        {"by seven", 7},
                                        {"by 64", 64},
                                        {"beside another", 31, true},
                                        {"on two threads, scattered", 31, false, 2, 5},
                                        {"on three threads beside another, scattered", 7, true, 3, 9},
                                        {"on three threads, whole", 100000, false, 3},
                                        {"scalar", 100000, false, 1, 0, "scalar"}};

/// Runs `length` tokens of sequence 0 as `way` says; body() returns the rows' results, of which sequence 0's are collected.
inline std::vector<float> fed(const std::vector<KvLayerSpec>& layers, int groups, KvType type, const FeedWay& way, int64_t length,
                              const std::function<Tensor(Feed&)>& body) {
  Feed feed(layers, groups, {.type = type, .threads = way.threads, .isa = way.isa, .scatter = way.scatter, .alone = way.threads == 1});
  std::vector<float> out;
  int64_t other = length + 40;
  for (int64_t at = 0; at < length;) {
    const int64_t n = std::min(way.chunk, length - at), m = std::min<int64_t>(other, at == 0 ? 3 : 2 * n + 1);
    std::vector<std::pair<int, int64_t>> parts{{0, n}};
    if (way.neighbour && m > 0) parts.insert(parts.begin(), {1, m}), other -= m;
    feed.step(parts, [&] {
      const Tensor t = body(feed);
      for (int64_t r = 0; r < t.rows; ++r)
        if (feed.rows()[size_t(r)].sequence == 0) out.insert(out.end(), t.row(r), t.row(r) + t.cols);
    });
    at += n;
  }
  return out;
}

/// Sequence 0's rows have the same bits however its prompt runs, whatever the cache's type.
inline void expect_same_bits(const std::vector<KvLayerSpec>& layers, int64_t length, const std::function<Tensor(Feed&)>& body) {
  for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8, KvType::fp8}) {
    std::vector<float> want;
    for (const FeedWay& way : kFeedWays) {
      const auto got = fed(layers, 1, type, way, length, body);
      if (want.empty()) want = got;
      ASSERT_EQ(got.size(), want.size()) << way.name << ", type " << int(type);
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0) << way.name << ", type " << int(type);
    }
  }
}

}  // namespace isotope::ops
