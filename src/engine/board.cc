#include "engine/board.h"

#include <algorithm>

#include "engine/clock.h"

namespace isotope::engine {

bool Board::open(uint64_t id, const RequestStats& s) {
  const std::lock_guard lock(mutex_);
  if (!alive_.emplace(id, s).second) return false;
  if (alive_.size() == 1) progress();  // an idle engine's last step says nothing about this request
  return true;
}

void Board::update(uint64_t id, const RequestStats& s) {
  const std::lock_guard lock(mutex_);
  if (const auto it = alive_.find(id); it != alive_.end()) it->second = s;
}

void Board::close(uint64_t id, const RequestStats& s) noexcept try {
  const std::lock_guard lock(mutex_);
  alive_.erase(id);
  if (done_.insert_or_assign(id, s).second) order_.push_back(id);
  if (order_.size() <= kRemembered) return;
  done_.erase(order_.front());
  order_.pop_front();
} catch (...) {  // no memory to remember it
}

void Board::drop(uint64_t id) {
  const std::lock_guard lock(mutex_);
  alive_.erase(id);
}

std::optional<RequestStats> Board::find(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  for (const auto* map : {&alive_, &done_})
    if (const auto it = map->find(id); it != map->end()) return it->second;
  return std::nullopt;
}

int64_t Board::alive() const {
  const std::lock_guard lock(mutex_);
  return int64_t(alive_.size());
}

void Board::publish(const EngineStats& s) {
  const std::lock_guard lock(mutex_);
  stats_ = s;
}

EngineStats Board::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats s = stats_;
  const int64_t alive = int64_t(alive_.size());
  s.running = std::min(s.running, alive);
  s.waiting = alive - s.running;
  s.last_step_age_s = alive ? seconds_between(progress_ns_.load(std::memory_order_relaxed), now_ns()) : 0;
  return s;
}

void Board::progress() {
  progress_ns_.store(now_ns(), std::memory_order_relaxed);
}

}  // namespace isotope::engine
