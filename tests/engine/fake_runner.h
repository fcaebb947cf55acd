// A model made of arithmetic: the logits at a position are a hash of the tokens that it finds through the block tables, so that a
// wrong block, slot, position, window or order of steps changes the output. A group of states holds a hash of all tokens so far. It also reports every read of a cell that does not
// hold what it should.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/runner.h"
#include "kv/manager.h"

namespace isotope::engine::test {

inline uint64_t mix(uint64_t h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdull;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ull;
  return h ^ (h >> 33);
}

/// What a group sees of a sequence at position p.
struct Vision {
  int64_t window = 0;
  int64_t from(int64_t p) const { return window ? std::max<int64_t>(0, p - window + 1) : 0; }
};

inline uint64_t see(uint64_t h, int64_t position, int32_t token) {
  return mix(h ^ (uint64_t(position) << 32 | uint32_t(token)));
}

inline void fill_logits(uint64_t h, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = float(int64_t(mix(h + i) >> 40) - (1 << 23)) * (4.0f / (1 << 23));
}

/// The logits after `tokens`, computed without any cache.
inline void reference_logits(std::span<const int32_t> tokens, std::span<const kv::GroupConfig> groups, std::span<float> out) {
  const int64_t p = int64_t(tokens.size()) - 1;
  uint64_t h = 1;
  for (const auto& g : groups) {
    h = mix(h + 17);
    if (g.window == kv::kStateGroup) {
      uint64_t state = 0;
      for (int64_t i = 0; i <= p; ++i) state = see(state, i, tokens[size_t(i)]);
      h = mix(h + state);
      continue;
    }
    for (int64_t i = Vision{g.window}.from(p); i <= p; ++i) h = see(h, i, tokens[size_t(i)]);
  }
  fill_logits(h, out);
}

class FakeRunner final : public Runner {
 public:
  FakeRunner(int64_t vocab, int block_size, std::vector<kv::GroupConfig> groups)
      : vocab_(vocab), block_size_(block_size), groups_(std::move(groups)) {
    for (const auto& g : groups_) cells_.emplace_back(size_t(g.blocks * block_size));
    if (groups_.back().window == kv::kStateGroup) states_.resize(size_t(groups_.back().blocks));
  }

  Result<tensor::Tensor> forward(const ops::Batch& b) override {
    ++steps;
    largest_batch = std::max<int64_t>(largest_batch, b.S());
    largest_step = std::max<int64_t>(largest_step, b.T());
    if (before_step) before_step(b);
    if (b.S() == fail_at_seqs) {
      fail_at_seqs = -1;
      if (throws) throw std::runtime_error("the test asked for an exception");
      return fail(Code::internal, "the test asked for a failure");
    }
    for (size_t g = 0; g < groups_.size(); ++g) groups_[g].window == kv::kStateGroup ? advance(b, g) : write(b, g);
    logits_.resize(size_t(std::max<int64_t>(1, b.R()) * vocab_));
    for (int64_t r = 0; r < b.R(); ++r) read(b, r);
    if (step_time.count()) std::this_thread::sleep_for(step_time);
    return tensor::Tensor{logits_.data(), b.R(), vocab_, vocab_};
  }

  void copy_state(int, int32_t from, int32_t to) override { states_[size_t(to)] = states_[size_t(from)]; }
  void clear_block(int group, int32_t block) override {
    for (int i = 0; i < block_size_; ++i) cells_[size_t(group)][size_t(block * block_size_ + i)] = {};
  }

  std::atomic<int64_t> steps{0}, captured{0}, left_alone{0}, bad_reads{0}, bad_writes{0}, largest_batch{0}, largest_step{0};
  int64_t fail_at_seqs = -1;  ///< fails once, the first time that many sequences share a step
  bool throws = false;        ///< by an exception instead of an error
  std::chrono::microseconds step_time{0};
  std::function<void(const ops::Batch&)> before_step;

 private:
  struct Cell {
    int32_t token = -1, position = -1;
    int64_t step = -1;
  };

  void write(const ops::Batch& b, size_t g) {
    auto& cells = cells_[g];
    for (int64_t t = 0; t < b.T(); ++t) {
      const int32_t slot = b.groups[g].slots[size_t(t)];
      if (slot == -1 && groups_[g].window == 0) {  // what is there is read, or found wrong, with the rest of the context
        ++left_alone;
        continue;
      }
      if (slot < 0 || size_t(slot) >= cells.size() || cells[size_t(slot)].step == steps) {
        ++bad_writes;
        continue;
      }
      cells[size_t(slot)] = {b.tokens[size_t(t)], b.positions[size_t(t)], steps};
    }
  }

  /// The states of the batch's sequences go on by their tokens.
  void advance(const ops::Batch& b, size_t g) {
    row_states_.resize(size_t(b.T()));
    for (int64_t s = 0; s < b.S(); ++s) {
      State& state = states_.at(size_t(b.groups[g].block_table[s * b.groups[g].table_stride]));
      const int32_t first = b.query_start[size_t(s)], end = b.query_start[size_t(s) + 1];
      if (first < end && b.positions[size_t(first)] == 0) state = {};
      for (int32_t t = first; t < end; ++t) {
        if (state.tokens != b.positions[size_t(t)]) ++bad_reads;
        state = {see(state.hash, state.tokens, b.tokens[size_t(t)]), state.tokens + 1};
        row_states_[size_t(t)] = state.hash;
        for (const ops::Batch::Capture& c : b.captures)
          if (c.seq == s && c.tokens == t - first + 1) states_.at(size_t(c.slot)) = state, ++captured;
      }
    }
  }

  void read(const ops::Batch& b, int64_t r) {
    const int32_t row = b.logit_rows[size_t(r)];
    int64_t s = 0;
    while (b.query_start[size_t(s) + 1] <= row) ++s;
    const int64_t p = b.positions[size_t(row)];
    if (b.context_len[size_t(s)] != b.positions[size_t(b.query_start[size_t(s) + 1]) - 1] + 1) ++bad_reads;
    uint64_t h = 1;
    for (size_t g = 0; g < groups_.size(); ++g) {
      h = mix(h + 17);
      if (groups_[g].window == kv::kStateGroup) {
        h = mix(h + row_states_[size_t(row)]);
        continue;
      }
      for (int64_t i = Vision{groups_[g].window}.from(p); i <= p; ++i) {
        const int32_t block = b.groups[g].block_table[s * b.groups[g].table_stride + i / block_size_];
        const Cell c = block < 0 ? Cell{} : cells_[g][size_t(block) * size_t(block_size_) + size_t(i % block_size_)];
        if (c.position != i) ++bad_reads;
        h = see(h, i, c.token);
      }
    }
    fill_logits(h, {logits_.data() + r * vocab_, size_t(vocab_)});
  }

  int64_t vocab_;
  int block_size_;
  std::vector<kv::GroupConfig> groups_;
  std::vector<std::vector<Cell>> cells_;
  struct State {
    uint64_t hash = 0;
    int64_t tokens = 0;
  };
  std::vector<State> states_;
  std::vector<uint64_t> row_states_;  ///< of the step, after each token
  std::vector<float> logits_;
};

}  // namespace isotope::engine::test
