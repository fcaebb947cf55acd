// The manager's side of prefix lookups: walking, remembering walks, claiming, explaining misses.
#include <algorithm>

#include "base/check.h"
#include "kv/manager.h"

namespace isotope::kv {

int64_t Manager::lookup_blocks(const SeqBlocks& s, std::span<const int32_t> tokens, int64_t limit) const {
  if (!caching_ || !s.cacheable) return 0;
  return std::min(std::min(std::max<int64_t>(limit, 0), int64_t(tokens.size())) / block_size_, int64_t(s.links.size()));
}

void Manager::walk(const SeqBlocks& s, std::span<const int32_t> tokens, int64_t blocks, bool fast, Walk& w) const {
  ++counters_.walks;
  const Chain chain{.links = s.links, .tokens = tokens, .block_size = block_size_};
  w.valid = true;
  w.limit = blocks;
  w.read = -1;
  w.key = s.key;
  w.epoch = epoch_;
  w.cursor = changes_->end();
  w.hit = {};
  w.ids.resize(pools_.size());
  int64_t n = blocks;
  for (int g = 0; g < groups(); ++g) {
    auto& ids = w.ids[size_t(g)];
    if (int64_t(ids.size()) < blocks) ids.resize(size_t(blocks));
    if (window(g)) continue;
    const int64_t run = walk_run(pools_[size_t(g)], chain, n, fast, ids, counters_);
    w.read = std::max(w.read, std::min(run, n - 1));
    n = run;
  }
  w.full = n;
  w.read = std::max(w.read, n - 1);
  for (int64_t before = -1; before != n;) {  // each cut may uncover a hole in another group's window
    before = n;
    for (int g = 0; g < groups(); ++g)
      if (window(g)) n = walk_window(pools_[size_t(g)], chain, n, window_blocks(g), w.ids[size_t(g)], counters_);
  }
  w.hit.blocks = n;
  for (int g = 0; g < groups(); ++g)
    for (int64_t b = hit_from(g, n); b < n; ++b) w.hit.evictable[size_t(g)] += pools_[size_t(g)].refs(w.ids[size_t(g)][size_t(b)]) == 0;
}

Hit Manager::match(const SeqBlocks& s, std::span<const int32_t> tokens, int64_t limit) const {
  const int64_t blocks = lookup_blocks(s, tokens, limit);
  if (blocks == 0) return {};
  Walk w;
  walk(s, tokens, blocks, options_.fast_walk, w);
  return replayed(int64_t(tokens.size()), w);
}

// ---- remembered walks ---------------------------------------------------------------------------------------------------------

/// Brings the walk's counts up to date. False when the change alters what a walk would find.
bool Manager::apply(const Change& c, const SeqBlocks& s, Walk& w) {
  if (c.position > w.read || s.links[size_t(c.position)].hash != c.hash) return true;
  if (c.kind == Change::Kind::published || c.kind == Change::Kind::withdrawn) {
    ++counters_.memo_invalid[c.kind == Change::Kind::published ? CacheCounters::kPublished : CacheCounters::kChanged];
    return false;
  }
  if (c.position >= hit_from(c.group, w.hit.blocks) && c.position < w.hit.blocks)
    w.hit.evictable[c.group] += c.kind == Change::Kind::idle ? 1 : -1;
  return true;
}

bool Manager::still_holds(const SeqBlocks& s, int64_t blocks, Walk& w) {
  if (!w.valid) return false;
  const auto drop = [&](CacheCounters::Invalid why) {
    ++counters_.memo_invalid[why];
    return false;
  };
  if (w.limit != blocks || w.key != s.key) return drop(CacheCounters::kRequest);
  if (w.epoch != epoch_) return drop(CacheCounters::kCleared);
  if (!changes_->covers(w.cursor)) return drop(CacheCounters::kOverflow);
  for (; w.cursor < changes_->end(); ++w.cursor)
    if (!apply(changes_->at(w.cursor), s, w)) return false;
  ++counters_.memo_hits;
  return true;
}

Hit Manager::probe(SeqBlocks& s, std::span<const int32_t> tokens, int64_t limit) {
  const int64_t blocks = lookup_blocks(s, tokens, limit);
  if (blocks == 0) return {};
  if (!options_.walk_memo || !still_holds(s, blocks, s.walk)) walk(s, tokens, blocks, options_.fast_walk, s.walk);
  return replayed(int64_t(tokens.size()), s.walk);
}

// ---- claiming -----------------------------------------------------------------------------------------------------------------

/// Whether the walk is what an exact one would find now, tokens included. Does not look at the change log: admission trusts
/// nothing that is remembered.
bool Manager::confirm(const SeqBlocks& s, std::span<const int32_t> tokens, const Walk& w) const {
  const Chain chain{.links = s.links, .tokens = tokens, .block_size = block_size_};
  const int64_t n = w.hit.blocks;
  if (n < w.full) return false;  // a window was missing; it may be there by now
  bool longer = w.full < w.limit;
  for (int g = 0; g < groups() && longer; ++g)
    if (!window(g)) longer = pools_[size_t(g)].indexed(s.links[size_t(w.full)]);
  if (longer) return false;
  for (int g = 0; g < groups(); ++g)
    for (int64_t b = hit_from(g, n); b < n; ++b) {
      ++counters_.token_compares;
      if (!pools_[size_t(g)].holds(w.ids[size_t(g)][size_t(b)], s.links[size_t(b)], chain.block(b))) return false;
    }
  return true;
}

/// Leaves in s.walk an exact walk of at most that many blocks, tokens compared.
void Manager::ready_to_claim(SeqBlocks& s, std::span<const int32_t> tokens, int64_t blocks) {
  Walk& w = s.walk;
  if (!options_.fast_walk) return walk(s, tokens, blocks, false, w);
  const bool remembered = w.valid && w.limit == blocks && w.key == s.key;
  if (!remembered) walk(s, tokens, blocks, true, w);
  if (confirm(s, tokens, w)) return;
  ++counters_.fallbacks;
  walk(s, tokens, blocks, false, w);
}

/// A slot for the sequence, with the state at the end of the hit in it.
void Manager::claim_state(SeqBlocks& s, int64_t blocks) {
  BlockPool& pool = pools_.back();
  const int32_t image = blocks > 0 ? s.walk.ids.back()[size_t(blocks) - 1] : -1;
  if (image >= 0) pool.ref(image);  // so that it is not taken
  const int32_t slot = pool.take();
  ISO_CHECK(slot >= 0);  // no more sequences run than there are slots
  s.tables.back().assign(1, slot);
  if (image < 0) return;
  options_.copy_state(groups() - 1, image, slot);
  pool.unref(image);
}

int64_t Manager::claim(SeqBlocks& s, std::span<const int32_t> tokens, int64_t blocks) {
  ISO_CHECK(s.blocks() == 0);
  s.tables.resize(pools_.size());
  s.live_from = {};
  s.epoch = epoch_;
  const int64_t limit = lookup_blocks(s, tokens, blocks * block_size_);
  Hit hit;
  if (limit > 0) {
    ready_to_claim(s, tokens, limit);
    hit = replayed(int64_t(tokens.size()), s.walk);
  }
  const int64_t n = hit.blocks;
  s.start = n * block_size_;
  s.hit_end = s.exact_from = 0;
  if (has_states()) claim_state(s, n);
  for (int g = 0; g < paged_groups(); ++g) {
    auto& table = s.tables[size_t(g)];
    table.reserve(size_t(std::max(n, s.expected_blocks)));
    table.assign(size_t(n), -1);
    if (hit.again && window(g)) continue;
    const int64_t from = hit_from(g, n);
    s.live_from[size_t(g)] = from;
    for (int64_t b = from; b < n; ++b) {
      table[size_t(b)] = s.walk.ids[size_t(g)][size_t(b)];
      pools_[size_t(g)].ref(table[size_t(b)]);
    }
  }
  if (hit.again) begin_windows(s, hit);
  s.published = n;
  s.reachable = limit > 0 ? s.walk.full : 0;
  s.miss = explain(s, tokens, limit);
  s.walk = {};
  return n;
}

// ---- explaining ---------------------------------------------------------------------------------------------------------------

/// Nothing is filed under the parent of this block. Whose fault is that? Whether others hold the same text under another salt is
/// deliberately not told: a salt is there to keep that secret.
Miss Manager::nothing_under(const SeqBlocks& s, int64_t block) const {
  const int64_t position = block * block_size_;
  const bool empty = pools_[size_t(event_group_)].indexed_blocks() == 0;
  if (block == s.salted_block(block_size_) && !empty) return {Miss::Cause::salt, position};
  if (block > 0) return {Miss::Cause::block_edge, position};
  if (!s.labels.lora.empty() && !empty) return {Miss::Cause::lora, position};
  return {Miss::Cause::cold, position};
}

Miss Manager::explain(const SeqBlocks& s, std::span<const int32_t> tokens, int64_t limit) const {
  if (!caching_ || !s.cacheable) return {};
  const int64_t n = s.published, position = n * block_size_;
  if (limit == 0) {
    const bool short_prompt = int64_t(tokens.size()) <= block_size_;
    return short_prompt ? Miss{Miss::Cause::block_edge, 0} : Miss{};  // longer ones were not to be looked up
  }
  const BlockPool& pool = pools_[size_t(event_group_)];
  if (n < s.walk.full) return {has_states() ? Miss::Cause::no_checkpoint : Miss::Cause::window, position};
  if (n < limit && pool.evicted_lately(s.links[size_t(n)].hash)) return {Miss::Cause::evicted, position};
  const auto rest = tokens.subspan(size_t(position));
  const auto child = pool.child_of(base::parent_of(s.links, n, block_size_, s.key));
  if (child.empty()) return n < limit ? nothing_under(s, n) : Miss{};
  const auto differs = std::mismatch(child.begin(), child.end(), rest.begin(), rest.end());
  const int64_t shared = differs.first - child.begin();
  if (shared == 0 && n == 0) return nothing_under(s, n);
  if (shared == 0 && n == limit) return {};
  const bool all = differs.second == rest.end() || differs.first == child.end();
  return {all ? Miss::Cause::block_edge : Miss::Cause::token, position + shared};
}

}  // namespace isotope::kv
