#include "kv/event_log.h"

namespace isotope::kv {

template <class F>
void EventLog::record(F&& f) noexcept {
  try {
    f();
  } catch (...) {
    events_.clear();
    lost_ = true;
  }
}

void EventLog::removed(uint64_t hash) noexcept {
  record([&] {
    auto* last = events_.empty() ? nullptr : std::get_if<BlockRemoved>(&events_.back());
    if (!last) last = &std::get<BlockRemoved>(events_.emplace_back(BlockRemoved{}));
    last->hashes.push_back(hash);
  });
}

void EventLog::stored(BlockStored e) noexcept {
  record([&] { events_.emplace_back(std::move(e)); });
}

void EventLog::cleared() noexcept {
  record([&] { events_.emplace_back(AllBlocksCleared{}); });
}

std::vector<Event> EventLog::take() {
  std::vector<Event> out;
  if (lost_) out.emplace_back(AllBlocksCleared{});
  lost_ = false;
  if (out.empty()) return std::exchange(events_, {});
  out.insert(out.end(), std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  return out;
}

}  // namespace isotope::kv
