#include "kv/manager.h"

#include <algorithm>

#include "base/check.h"

namespace isotope::kv {

Manager::Manager(int block_size, std::span<const GroupConfig> groups, bool prefix_caching)
    : block_size_(block_size), caching_(prefix_caching) {
  ISO_CHECK(block_size > 0 && !groups.empty() && groups.size() <= size_t(kMaxGroups));
  for (const GroupConfig& g : groups) {
    pools_.emplace_back(g.blocks, block_size);
    windows_.push_back(g.window);
  }
}

Counts Manager::available() const {
  Counts n{};
  for (size_t g = 0; g < pools_.size(); ++g) n[g] = pools_[g].available();
  return n;
}

int32_t Manager::find(int group, const SeqBlocks& s, std::span<const int32_t> tokens, int64_t block) const {
  const size_t size = size_t(block_size_);
  return pools_[size_t(group)].find(s.links[size_t(block)], tokens.subspan(size_t(block) * size, size));
}

/// The longest length <= blocks whose last window is cached in this group.
int64_t Manager::cut_to_window(int group, const SeqBlocks& s, std::span<const int32_t> tokens, int64_t blocks) const {
  const int64_t want = window_blocks(group);
  int64_t end = blocks, run = 0;  // [end - run, end) is cached
  for (int64_t b = blocks - 1; b >= 0 && run < want; --b) {
    if (find(group, s, tokens, b) >= 0) {
      ++run;
    } else {
      end = b;
      run = 0;
    }
  }
  return end;  // a run that reaches block 0 needs nothing before it
}

Hit Manager::match(const SeqBlocks& s, std::span<const int32_t> tokens, int64_t limit) const {
  Hit hit;
  if (!caching_ || !s.cacheable) return hit;
  int64_t n = std::min({std::max<int64_t>(limit, 0), int64_t(tokens.size())}) / block_size_;
  n = std::min(n, int64_t(s.links.size()));
  for (int g = 0; g < groups(); ++g) {
    if (window(g)) continue;
    int64_t run = 0;
    while (run < n && find(g, s, tokens, run) >= 0) ++run;
    n = run;
  }
  for (int64_t before = -1; before != n;) {  // each cut may uncover a hole in another group's window
    before = n;
    for (int g = 0; g < groups(); ++g)
      if (window(g)) n = cut_to_window(g, s, tokens, n);
  }
  hit.blocks = n;
  for (int g = 0; g < groups(); ++g)
    for (int64_t b = window(g) ? std::max<int64_t>(0, n - window_blocks(g)) : 0; b < n; ++b)
      hit.evictable[size_t(g)] += pools_[size_t(g)].refs(find(g, s, tokens, b)) == 0;
  return hit;
}

int64_t Manager::claim(SeqBlocks& s, std::span<const int32_t> tokens, int64_t blocks) {
  ISO_CHECK(s.blocks() == 0);
  s.tables.resize(pools_.size());
  s.live_from = {};
  const int64_t n = blocks ? match(s, tokens, blocks * block_size_).blocks : 0;
  for (int g = 0; g < groups(); ++g) {
    auto& table = s.tables[size_t(g)];
    table.reserve(size_t(std::max(n, s.expected_blocks)));
    table.assign(size_t(n), -1);
    const int64_t from = window(g) ? std::max<int64_t>(0, n - window_blocks(g)) : 0;
    s.live_from[size_t(g)] = from;
    for (int64_t b = from; b < n; ++b) {
      table[size_t(b)] = find(g, s, tokens, b);
      pools_[size_t(g)].ref(table[size_t(b)]);
    }
  }
  s.published = n;
  return n;
}

bool Manager::grow(SeqBlocks& s, int64_t tokens) {
  s.tables.resize(pools_.size());
  const int64_t more = blocks_for(tokens) - s.blocks();
  for (const BlockPool& p : pools_)
    if (p.available() < more) return false;
  for (size_t g = 0; g < pools_.size(); ++g)
    for (int64_t i = 0; i < more; ++i) s.tables[g].push_back(pools_[g].take());
  return true;
}

void Manager::commit(SeqBlocks& s, std::span<const int32_t> tokens, int64_t computed) {
  const int64_t full = computed / block_size_;
  if (caching_ && s.cacheable && full > s.published) {
    base::extend_chain(s.links, tokens.first(size_t(computed)), block_size_, s.seed);
    const size_t size = size_t(block_size_);
    for (size_t g = 0; g < pools_.size(); ++g)
      for (int64_t b = s.published; b < full; ++b)
        if (const int32_t id = s.tables[g][size_t(b)]; id >= 0)
          pools_[g].publish(id, s.links[size_t(b)], tokens.subspan(size_t(b) * size, size));
    s.published = full;
  }
  for (int g = 0; g < groups(); ++g) {
    if (!window(g)) continue;
    int64_t& from = s.live_from[size_t(g)];
    const int64_t first_key = computed - window(g) + 1;  // the next query is at `computed`
    for (; (from + 1) * block_size_ <= first_key && from < s.blocks(); ++from) {
      int32_t& id = s.tables[size_t(g)][size_t(from)];
      if (id >= 0) pools_[size_t(g)].unref(id);
      id = -1;
    }
  }
}

void Manager::release(SeqBlocks& s) {
  for (size_t g = 0; g < s.tables.size(); ++g) {
    auto& table = s.tables[g];
    for (size_t b = table.size(); b-- > 0;)
      if (table[b] >= 0) pools_[g].unref(table[b]);
    table.clear();
  }
  s.published = 0;
  s.live_from = {};
}

Counts Manager::held(const SeqBlocks& s) const {
  Counts n{};
  for (size_t g = 0; g < s.tables.size(); ++g)
    for (const int32_t b : s.tables[g]) n[g] += b >= 0 && pools_[g].refs(b) == 1;
  return n;
}

void Manager::forget_prefixes() {
  for (BlockPool& p : pools_) p.forget_all();
}

const char* Manager::check_integrity(std::span<const SeqBlocks* const> all) const {
  std::vector<int32_t> users;
  for (size_t g = 0; g < pools_.size(); ++g) {
    users.assign(size_t(pools_[g].total()), 0);
    for (const SeqBlocks* s : all) {
      if (s->tables.empty()) continue;
      if (int64_t(s->tables[g].size()) != s->blocks()) return "the tables of a sequence differ in length";
      for (const int32_t b : s->tables[g])
        if (b >= 0) ++users[size_t(b)];
    }
    if (const char* wrong = pools_[g].check(users)) return wrong;
  }
  return nullptr;
}

}  // namespace isotope::kv
