#include "kv/block_pool.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/check.h"

namespace isotope::kv {

BlockPool::BlockPool(int64_t blocks, int block_size)
    : block_size_(block_size), meta_(size_t(blocks)), tokens_(size_t(blocks) * size_t(block_size)), index_(blocks) {
  free_.reserve(size_t(blocks));
  for (int32_t b = 0; b < int32_t(blocks); ++b) free_.push_back(b);  // ascending order is a heap
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

void BlockPool::push_evictable(int32_t b) noexcept {
  Meta& m = meta_[size_t(b)];
  m.prev = newest_;
  m.next = -1;
  (newest_ >= 0 ? meta_[size_t(newest_)].next : oldest_) = b;
  newest_ = b;
  ++evictable_;
}

void BlockPool::drop_evictable(int32_t b) noexcept {
  Meta& m = meta_[size_t(b)];
  (m.prev >= 0 ? meta_[size_t(m.prev)].next : oldest_) = m.next;
  (m.next >= 0 ? meta_[size_t(m.next)].prev : newest_) = m.prev;
  --evictable_;
}

int32_t BlockPool::take() noexcept {
  int32_t b = -1;
  if (!free_.empty()) {
    b = pop_free();
  } else if (oldest_ >= 0) {
    b = oldest_;
    drop_evictable(b);
    index_.erase(meta_[size_t(b)].link.hash);
    meta_[size_t(b)].published = false;
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
  if (m.refs++ == 0) drop_evictable(b);
}

void BlockPool::unref(int32_t b) noexcept {
  Meta& m = meta_[size_t(b)];
  ISO_CHECK(m.refs > 0);
  if (--m.refs > 0) return;
  if (m.published)
    push_evictable(b);
  else
    push_free(b);
}

bool BlockPool::publish(int32_t b, const base::BlockLink& link, std::span<const int32_t> tokens) noexcept {
  Meta& m = meta_[size_t(b)];
  ISO_CHECK(m.refs > 0 && tokens.size() == size_t(block_size_));
  if (m.published || index_.find(link.hash) >= 0) return false;
  m.link = link;
  m.published = true;
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + int64_t(b) * block_size_);
  index_.insert(link.hash, b);
  return true;
}

int32_t BlockPool::find(const base::BlockLink& link, std::span<const int32_t> tokens) const noexcept {
  const int32_t b = index_.find(link.hash);
  if (b < 0 || meta_[size_t(b)].link != link) return -1;
  const auto mine = tokens_of(b);
  return tokens.size() == mine.size() && std::memcmp(mine.data(), tokens.data(), mine.size_bytes()) == 0 ? b : -1;
}

void BlockPool::forget_all() noexcept {
  index_.clear();
  while (oldest_ >= 0) {
    const int32_t b = oldest_;
    drop_evictable(b);
    push_free(b);
  }
  for (Meta& m : meta_) m.published = false;
}

const char* BlockPool::check(std::span<const int32_t> users) const {
  int64_t free = 0, evictable = 0, published = 0;
  for (size_t b = 0; b < meta_.size(); ++b) {
    const Meta& m = meta_[b];
    if (m.refs != users[b]) return "a block's reference count differs from the tables that name it";
    published += m.published;
    if (m.refs == 0) ++(m.published ? evictable : free);
    if (m.published && index_.find(m.link.hash) != int32_t(b)) return "a published block is missing from the index";
  }
  if (free != this->free() || evictable != evictable_) return "the free or evictable count is wrong";
  if (published != index_.size()) return "the index names a block that is not published";
  int64_t listed = 0;
  for (int32_t b = oldest_; b >= 0; b = meta_[size_t(b)].next)
    if (++listed > evictable_ || meta_[size_t(b)].refs != 0) return "the evictable list is broken";
  return listed == evictable_ ? nullptr : "the evictable list is too short";
}

}  // namespace isotope::kv
