#include "engine/batch_builder.h"

#include <algorithm>

namespace isotope::engine {

BatchBuilder::BatchBuilder(const kv::Manager& kv, int64_t tokens, int64_t seqs, int64_t lookback)
    : block_size_(kv.block_size()), lookback_(lookback), paged_groups_(size_t(kv.paged_groups())), groups_(size_t(kv.groups())), views_(size_t(kv.groups())) {
  for (auto* v : {&tokens_, &positions_}) v->reserve(size_t(tokens));
  for (auto* v : {&query_start_, &context_len_, &logit_index_}) v->reserve(size_t(seqs) + 1);
  before_.reserve(size_t(seqs * lookback));
  rows_.reserve(size_t(seqs));
  for (Group& g : groups_) g.slots.reserve(size_t(tokens));
  for (int g = 0; g < kv.paged_groups(); ++g) windowed_.push_back(kv.window(g) > 0);
}

void BatchBuilder::add_rows(const WorkItem& w, int32_t first_row) {
  Sequence& s = *w.seq;
  const int64_t end = s.computed + w.tokens;
  const auto add = [&](int64_t position, bool sample) {
    logit_index_.push_back(first_row + int32_t(position - s.computed));
    rows_.push_back({&s, position, sample});
  };
  for (int64_t p = std::max(s.computed, s.prompt_rows); p < std::min(end, s.prompt_rows_end()); ++p) add(p, false);
  if (end == s.known() && s.max_output > 0) add(end - 1, true);
}

void BatchBuilder::add_slots(const WorkItem& w, size_t index) {
  const Sequence& s = *w.seq;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto& table = s.kv.tables[g];
    std::copy(table.begin(), table.end(), groups_[g].table.begin() + int64_t(index) * stride_);
    if (g >= paged_groups_) continue;
    const int64_t kept = windowed_[g] ? 0 : s.kv.hit_end;  // below that others read
    for (int64_t p = s.computed; p < s.computed + w.tokens; ++p)
      groups_[g].slots.push_back(p < kept ? -1 : table[size_t(p / block_size_)] * block_size_ + int32_t(p % block_size_));
  }
  for (const kv::StateImage& i : s.kv.images) captures_.push_back({int32_t(index), int32_t(i.position - s.computed), i.slot});
}

const ops::Batch& BatchBuilder::build(std::span<const WorkItem> work) {
  for (auto* v : {&tokens_, &positions_, &query_start_, &context_len_, &logit_index_, &before_}) v->clear();
  rows_.clear();
  captures_.clear();
  stride_ = 1;
  for (const WorkItem& w : work) stride_ = std::max(stride_, w.seq->kv.blocks());
  for (Group& g : groups_) {
    g.slots.clear();
    const size_t entries = work.size() * size_t(stride_);
    if (g.table.capacity() < entries) g.table.reserve(2 * entries);  // assign() alone would grow by a little at every new block
    g.table.assign(entries, -1);
  }
  query_start_.push_back(0);
  for (size_t i = 0; i < work.size(); ++i) {
    const WorkItem& w = work[i];
    const Sequence& s = *w.seq;
    const int32_t first = int32_t(tokens_.size());
    for (int64_t p = s.computed; p < s.computed + w.tokens; ++p) {
      tokens_.push_back(s.tokens[size_t(p)]);
      positions_.push_back(int32_t(p));
    }
    for (int64_t p = s.computed - lookback_; p < s.computed; ++p) before_.push_back(p < 0 ? -1 : s.tokens[size_t(p)]);
    query_start_.push_back(int32_t(tokens_.size()));
    context_len_.push_back(int32_t(s.computed + w.tokens));
    add_rows(w, first);
    add_slots(w, i);
  }
  for (size_t g = 0; g < groups_.size(); ++g)
    views_[g] = {.block_table = groups_[g].table.data(), .table_stride = stride_, .slots = groups_[g].slots};
  batch_ = {.tokens = tokens_,
            .positions = positions_,
            .query_start = query_start_,
            .context_len = context_len_,
            .logit_rows = logit_index_,
            .groups = views_,
            .before = before_,
            .lookback = lookback_,
            .captures = captures_};
  return batch_;
}

}  // namespace isotope::engine
