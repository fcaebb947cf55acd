#include "kv/manager.h"

#include <algorithm>

#include "base/check.h"

namespace isotope::kv {

Manager::Manager(int block_size, std::span<const GroupConfig> groups, bool prefix_caching, ManagerOptions options)
    : block_size_(block_size),
      caching_(prefix_caching),
      options_(options),
      changes_(std::make_unique<ChangeLog>()),
      events_(options.events && prefix_caching ? std::make_unique<EventLog>() : nullptr) {
  ISO_CHECK(block_size > 0 && !groups.empty() && groups.size() <= size_t(kMaxGroups));
  for (const GroupConfig& g : groups.first(groups.size() - 1)) ISO_CHECK(g.window >= 0);
  ISO_CHECK(groups.back().window != kStateGroup || groups.size() > 1);
  const auto full = std::find_if(groups.begin(), groups.end(), [](const GroupConfig& g) { return g.window == 0; });
  if (full != groups.end()) event_group_ = int(full - groups.begin());
  for (const GroupConfig& g : groups) {
    const int id = int(pools_.size());
    pools_.emplace_back(g.blocks, block_size,
                        Witnesses{changes_.get(), id == event_group_ ? events_.get() : nullptr, uint8_t(id)});
    windows_.push_back(g.window);
  }
}

Counts Manager::available() const {
  Counts n{};
  for (size_t g = 0; g < pools_.size(); ++g) n[g] = pools_[g].available();
  return n;
}

base::ChainFault Manager::hash_prompt(SeqBlocks& s, std::span<const int32_t> tokens, base::HashChain* chain) {
  if (!caching_ || !s.cacheable) return base::ChainFault::none;
  base::ChainFault fault = base::ChainFault::none;
  if (chain) {
    fault = base::check_chain(*chain, tokens, block_size_, s.key);
    ++(fault == base::ChainFault::none ? counters_.chains_adopted : counters_.chains_rejected[size_t(fault)]);
    if (fault == base::ChainFault::none) s.links = std::move(chain->links);
  }
  s.links.reserve(size_t(s.expected_blocks));
  const size_t before = s.links.size();
  base::extend_chain(s.links, tokens, block_size_, s.key);
  counters_.blocks_hashed += int64_t(s.links.size() - before);
  return fault;
}

bool Manager::grow(SeqBlocks& s, int64_t tokens) {
  if (s.blocks() == 0) s.epoch = epoch_;
  s.tables.resize(pools_.size());
  const int64_t more = blocks_for(tokens) - s.blocks(), lack = windows_lack(s, tokens);
  for (int g = 0; g < paged_groups(); ++g)
    if (pools_[size_t(g)].available() < std::max<int64_t>(more, 0) + (window(g) ? lack : 0)) return false;
  if (has_states() && s.tables.back().empty()) {
    if (pools_.back().available() < 1) return false;
    s.tables.back().push_back(pools_.back().take());
  }
  if (lack) fill_windows(s, tokens);
  for (size_t g = 0; g < size_t(paged_groups()); ++g)
    for (int64_t i = 0; i < more; ++i) s.tables[g].push_back(pools_[g].take());
  return true;
}

void Manager::commit(SeqBlocks& s, std::span<const int32_t> tokens, int64_t computed) {
  const int64_t full = computed / block_size_;
  if (s.hit_end && computed >= s.hit_end) s.hit_end = 0;
  const bool feeds = this->feeds(s);
  if (feeds && full > s.published) {
    base::extend_chain(s.links, tokens.first(size_t(computed)), block_size_, s.key);
    for (int g = 0; g < paged_groups(); ++g) publish(g, s, tokens, full);
    s.published = full;
  }
  if (feeds && s.pin_blocks > 0 && full >= s.pin_blocks) pin(s);
  for (int g = 0; g < paged_groups(); ++g)
    if (window(g)) leave_window(g, s, computed);
}

/// Files the blocks [s.published, full). A sequence may hold copies of blocks that another one has filed and that were evicted
/// since; it files its own then, so that what follows can be reached.
void Manager::publish(int group, SeqBlocks& s, std::span<const int32_t> tokens, int64_t full) {
  BlockPool& pool = pools_[size_t(group)];
  const auto& table = s.tables[size_t(group)];
  const size_t size = size_t(block_size_);
  int64_t b = s.published;
  while (b > (window(group) ? s.exact_from : 0) && table[size_t(b) - 1] >= 0 && !pool.indexed(s.links[size_t(b) - 1])) --b;
  const bool tell = events_ && group == event_group_;
  BlockStored run;
  const auto flush = [&] {
    if (!run.hashes.empty()) events_->stored(std::exchange(run, {}));
  };
  for (; b < full; ++b) {
    const int32_t id = table[size_t(b)];
    const auto own = tokens.subspan(size_t(b) * size, size);
    const bool filed = id >= 0 && pool.publish(id,
                                               {.link = s.links[size_t(b)],
                                                .parent = base::parent_of(s.links, b, block_size_, s.key),
                                                .position = int32_t(b)},
                                               own);
    if (!tell) continue;
    if (!filed) {
      flush();
      continue;
    }
    if (run.hashes.empty()) {
      run.labels = s.labels;
      if (b) run.parent = s.links[size_t(b) - 1].hash;
    }
    if (b == s.salted_block(block_size_)) run.salted = int64_t(run.hashes.size());
    run.hashes.push_back(s.links[size_t(b)].hash);
    run.tokens.insert(run.tokens.end(), own.begin(), own.end());
  }
  if (tell) flush();
}

void Manager::leave_window(int group, SeqBlocks& s, int64_t computed) {
  int64_t& from = s.live_from[size_t(group)];
  const int64_t first_key = computed - window(group) + 1;  // the next query is at `computed`
  for (; (from + 1) * block_size_ <= first_key && from < s.blocks(); ++from) {
    int32_t& id = s.tables[size_t(group)][size_t(from)];
    if (id >= 0) pools_[size_t(group)].unref(id);
    id = -1;
  }
}

void Manager::pin(SeqBlocks& s) {
  const int64_t n = std::min(std::exchange(s.pin_blocks, 0), int64_t(s.links.size()));
  for (int g = 0; g < groups(); ++g)
    for (int64_t b = hit_from(g, n); b < n; ++b) {
      int32_t id = -1;
      if (pools_[size_t(g)].find_run({&s.links[size_t(b)], 1}, {&id, 1})) pools_[size_t(g)].pin(id, now_ns_ + s.pin_ns);
    }
}

void Manager::release(SeqBlocks& s) {
  cancel_images(s);
  for (size_t g = 0; g < s.tables.size(); ++g) {
    auto& table = s.tables[g];
    for (size_t b = table.size(); b-- > 0;)
      if (table[b] >= 0) pools_[g].unref(table[b]);
    table.clear();
  }
  s.published = s.hit_end = s.exact_from = 0;
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
  ++epoch_;
  if (events_) events_->cleared();
}

void Manager::set_time(int64_t now_ns) {
  now_ns_ = now_ns;
  for (BlockPool& p : pools_) p.expire_pins(now_ns);
}

std::vector<Event> Manager::take_events() {
  return events_ && !events_->empty() ? events_->take() : std::vector<Event>{};
}

const char* Manager::check_integrity(std::span<const SeqBlocks* const> all) const {
  std::vector<int32_t> users;
  for (size_t g = 0; g < pools_.size(); ++g) {
    users.assign(size_t(pools_[g].total()), 0);
    for (const SeqBlocks* s : all) {
      if (s->tables.empty()) continue;
      if (!is_state(int(g)) && int64_t(s->tables[g].size()) != s->blocks()) return "the tables of a sequence differ in length";
      for (const int32_t b : s->tables[g])
        if (b >= 0) ++users[size_t(b)];
      if (is_state(int(g)))
        for (const StateImage& i : s->images) ++users[size_t(i.slot)];
    }
    if (const char* wrong = pools_[g].check(users)) return wrong;
  }
  return nullptr;
}

}  // namespace isotope::kv
