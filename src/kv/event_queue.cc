#include "kv/event_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace isotope::kv {

EventQueue::EventQueue(int64_t capacity) : capacity_(size_t(capacity)), fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

EventQueue::~EventQueue() {
  if (fd_ >= 0) ::close(fd_);
}

void EventQueue::poke() {
  const uint64_t one = 1;
  if (write(fd_, &one, sizeof one) < 0) return;  // full: it is readable anyway
}

int EventQueue::put(EventBatch b) {
  NumberedBatch dropped;  // destroyed outside of the lock
  bool full = false, wake = false;
  {
    const std::lock_guard lock(mutex_);
    full = batches_.size() >= capacity_;
    if (full) {
      dropped = std::move(batches_.front());
      batches_.pop_front();
    }
    batches_.push_back({next_++, std::move(b)});
    wake = std::exchange(asleep_, false);
  }
  if (wake) poke();
  return full;
}

void EventQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    asleep_ = false;
  }
  poke();
}

std::deque<NumberedBatch> EventQueue::take(bool& closed) {
  const std::lock_guard lock(mutex_);
  closed = closed_;
  return std::exchange(batches_, {});
}

bool EventQueue::sleep() {
  const std::lock_guard lock(mutex_);
  return asleep_ = batches_.empty() && !closed_;
}

void EventQueue::awake() {
  {
    const std::lock_guard lock(mutex_);
    asleep_ = false;
  }
  uint64_t count = 0;
  while (read(fd_, &count, sizeof count) > 0) {
  }
}

}  // namespace isotope::kv
