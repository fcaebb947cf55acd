#include <utility>

#include "serve/responses.h"

namespace isotope::serve {

void ResponseStore::put(const std::string& id, Entry entry) {
  const size_t bytes = dump(entry.response).size() + dump(entry.messages).size();
  const std::lock_guard lock(mutex_);
  if (bytes > most_ / 4 || by_id_.contains(id)) return;
  kept_.push_front({id, std::move(entry), bytes});
  by_id_[id] = kept_.begin();
  bytes_ += bytes;
  while (bytes_ > most_) {
    bytes_ -= kept_.back().bytes;
    by_id_.erase(kept_.back().id);
    kept_.pop_back();
  }
}

std::optional<ResponseStore::Entry> ResponseStore::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? std::nullopt : std::optional(it->second->entry);
}

bool ResponseStore::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return false;
  bytes_ -= it->second->bytes;
  kept_.erase(it->second);
  by_id_.erase(it);
  return true;
}

}  // namespace isotope::serve
