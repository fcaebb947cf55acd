#include "kv/block_pool.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "kv/event_log.h"

namespace isotope::kv {

namespace {

size_t table_size(int64_t blocks) {
  return std::bit_ceil(size_t(std::max<int64_t>(blocks, 1)) * 2);
}

}  // namespace

BlockPool::BlockPool(int64_t blocks, int block_size, Witnesses witnesses)
    : block_size_(block_size),
      witnesses_(witnesses),
      meta_(size_t(blocks)),
      tokens_(size_t(blocks) * size_t(block_size)),
      index_(blocks),
      children_(table_size(blocks)),
      evicted_(table_size(blocks)) {
  free_.reserve(size_t(blocks));
  for (int32_t b = 0; b < int32_t(blocks); ++b) free_.push_back(b);  // ascending order is a heap
  pin_ends_.reserve(2 * size_t(blocks) + 1);
}

void BlockPool::push_free(int32_t b) noexcept {
  free_.push_back(b);
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
}

int32_t BlockPool::pop_free() noexcept {
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  const int32_t b = free_.back();
  free_.pop_back();
  return b;
}

void BlockPool::push_evictable(int32_t b, bool oldest) noexcept {
  Meta& m = meta_[size_t(b)];
  m.list = m.pinned_until ? kPinned : kPlain;
  List& l = lists_[m.list];
  if (oldest) {
    m.prev = -1;
    m.next = l.oldest;
    (l.oldest >= 0 ? meta_[size_t(l.oldest)].prev : l.newest) = b;
    l.oldest = b;
  } else {
    m.prev = l.newest;
    m.next = -1;
    (l.newest >= 0 ? meta_[size_t(l.newest)].next : l.oldest) = b;
    l.newest = b;
  }
  ++evictable_;
}

void BlockPool::drop_evictable(int32_t b) noexcept {
  Meta& m = meta_[size_t(b)];
  List& l = lists_[m.list];
  (m.prev >= 0 ? meta_[size_t(m.prev)].next : l.oldest) = m.next;
  (m.next >= 0 ? meta_[size_t(m.next)].prev : l.newest) = m.prev;
  --evictable_;
}

void BlockPool::withdraw(int32_t b) noexcept {
  Meta& m = meta_[size_t(b)];
  unpin(b);
  index_.erase(m.link.hash);
  m.published = false;
  evicted_[size_t(m.link.hash) & (evicted_.size() - 1)] = m.link.hash;
  note(Change::Kind::withdrawn, m);
  if (witnesses_.events) witnesses_.events->removed(m.link.hash);
}

int32_t BlockPool::take() noexcept {
  int32_t b = -1;
  if (!free_.empty()) {
    b = pop_free();
  } else if (b = lists_[kPlain].oldest >= 0 ? lists_[kPlain].oldest : lists_[kPinned].oldest; b >= 0) {
    drop_evictable(b);
    withdraw(b);
    ++evictions_;
  } else {
    return -1;
  }
  meta_[size_t(b)].refs = 1;
  return b;
}

void BlockPool::ref(int32_t b) noexcept {
  Meta& m = meta_[size_t(b)];
  ISO_CHECK(m.refs > 0 || m.published);
  if (m.refs++ > 0) return;
  drop_evictable(b);
  note(Change::Kind::used, m);
}

void BlockPool::unref(int32_t b) noexcept {
  Meta& m = meta_[size_t(b)];
  ISO_CHECK(m.refs > 0);
  if (--m.refs > 0) return;
  if (!m.published) return push_free(b);
  push_evictable(b);
  note(Change::Kind::idle, m);
}

bool BlockPool::publish(int32_t b, const Filing& f, std::span<const int32_t> tokens) noexcept {
  Meta& m = meta_[size_t(b)];
  ISO_CHECK(m.refs > 0 && tokens.size() == size_t(block_size_));
  if (m.published || index_.find(f.link.hash) >= 0) return false;
  m.link = f.link;
  m.parent = f.parent;
  m.position = f.position;
  m.published = true;
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + int64_t(b) * block_size_);
  index_.insert(f.link.hash, b);
  children_[size_t(f.parent) & (children_.size() - 1)] = {f.parent, b};
  note(Change::Kind::published, m);
  return true;
}

bool BlockPool::holds(int32_t b, const base::BlockLink& link, std::span<const int32_t> tokens) const noexcept {
  const Meta& m = meta_[size_t(b)];
  if (!m.published || m.link != link) return false;
  const auto mine = tokens_of(b);
  return tokens.size() == mine.size() && std::memcmp(mine.data(), tokens.data(), mine.size_bytes()) == 0;
}

int32_t BlockPool::find(const base::BlockLink& link, std::span<const int32_t> tokens) const noexcept {
  const int32_t b = index_.find(link.hash);
  return b >= 0 && holds(b, link, tokens) ? b : -1;
}

bool BlockPool::indexed(const base::BlockLink& link) const noexcept {
  const int32_t b = index_.find(link.hash);
  return b >= 0 && meta_[size_t(b)].link == link;
}

std::span<const int32_t> BlockPool::child_of(uint64_t parent) const noexcept {
  const Child& c = children_[size_t(parent) & (children_.size() - 1)];
  if (c.block < 0 || c.parent != parent) return {};
  const Meta& m = meta_[size_t(c.block)];
  return m.published && m.parent == parent ? tokens_of(c.block) : std::span<const int32_t>{};
}

void BlockPool::forget_all() noexcept {
  index_.clear();
  pin_ends_.clear();
  pins_ = 0;
  for (List& l : lists_)
    while (l.oldest >= 0) {
      const int32_t b = l.oldest;
      drop_evictable(b);
      push_free(b);
    }
  for (Meta& m : meta_) m.published = false, m.pinned_until = 0;
  std::fill(children_.begin(), children_.end(), Child{});
  std::fill(evicted_.begin(), evicted_.end(), 0);
}

// ---- pins ---------------------------------------------------------------------------------------------------------------------

void BlockPool::pin(int32_t b, int64_t until) noexcept {
  Meta& m = meta_[size_t(b)];
  if (!m.published || until <= m.pinned_until) return;
  const bool listed = m.refs == 0;
  if (listed) drop_evictable(b);
  pins_ += m.pinned_until == 0;
  m.pinned_until = until;
  if (pin_ends_.size() == pin_ends_.capacity()) {  // renewed pins have left stale entries
    std::erase_if(pin_ends_, [&](const auto& e) { return meta_[size_t(e.second)].pinned_until != e.first || e.second == b; });
    std::make_heap(pin_ends_.begin(), pin_ends_.end(), std::greater<>());
  }
  pin_ends_.emplace_back(until, b);
  std::push_heap(pin_ends_.begin(), pin_ends_.end(), std::greater<>());
  if (listed) push_evictable(b);
}

void BlockPool::unpin(int32_t b) noexcept {
  Meta& m = meta_[size_t(b)];
  pins_ -= m.pinned_until != 0;
  m.pinned_until = 0;
}

void BlockPool::expire_pins(int64_t now) noexcept {
  while (!pin_ends_.empty() && pin_ends_.front().first <= now) {
    const auto [until, b] = pin_ends_.front();
    std::pop_heap(pin_ends_.begin(), pin_ends_.end(), std::greater<>());
    pin_ends_.pop_back();
    Meta& m = meta_[size_t(b)];
    if (m.pinned_until != until) continue;  // pinned anew, or gone
    const bool listed = m.refs == 0;
    if (listed) drop_evictable(b);
    unpin(b);
    if (listed) push_evictable(b, true);  // nobody has asked for it as long as it was pinned
  }
}

// ---- check --------------------------------------------------------------------------------------------------------------------

const char* BlockPool::check(std::span<const int32_t> users) const {
  int64_t free = 0, evictable = 0, published = 0, pinned = 0;
  for (size_t b = 0; b < meta_.size(); ++b) {
    const Meta& m = meta_[b];
    if (m.refs != users[b]) return "a block's reference count differs from the tables that name it";
    published += m.published;
    pinned += m.pinned_until != 0;
    if (m.pinned_until && !m.published) return "a block is pinned that holds no prefix";
    if (m.refs == 0) ++(m.published ? evictable : free);
    if (m.published && index_.find(m.link.hash) != int32_t(b)) return "a published block is missing from the index";
  }
  if (free != this->free() || evictable != evictable_) return "the free or evictable count is wrong";
  if (published != index_.size()) return "the index names a block that is not published";
  if (pinned != pins_) return "the count of pinned blocks is wrong";
  int64_t listed = 0;
  for (const List& l : lists_)
    for (int32_t b = l.oldest; b >= 0; b = meta_[size_t(b)].next) {
      const Meta& m = meta_[size_t(b)];
      if (++listed > evictable_ || m.refs != 0 || (m.pinned_until != 0) != (m.list == kPinned)) return "an evictable list is broken";
    }
  return listed == evictable_ ? nullptr : "the evictable lists are too short";
}

}  // namespace isotope::kv
