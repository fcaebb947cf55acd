// Hands batches to the sender's thread: numbers them, keeps a bounded number of them, wakes the sender only when it sleeps.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "kv/event_codec.h"

namespace isotope::kv {

struct NumberedBatch {
  uint64_t number = 0;
  EventBatch batch;
};

class EventQueue {
 public:
  explicit EventQueue(int64_t capacity);
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  /// Returns how many older batches were dropped for it (0 or 1). Their numbers stay used.
  int put(EventBatch);
  void close();
  /// Sender: everything put so far; `closed` tells whether more may come.
  std::deque<NumberedBatch> take(bool& closed);
  /// Sender: a descriptor that becomes readable when there is something to take. Call sleep() before waiting for it (false: do not
  /// wait, something has come) and awake() after.
  int descriptor() const { return fd_; }
  bool sleep();
  void awake();

 private:
  void poke();
  const size_t capacity_;
  std::mutex mutex_;  ///< held for a few moves only
  std::deque<NumberedBatch> batches_;
  uint64_t next_ = 0;
  bool closed_ = false, asleep_ = false;
  int fd_ = -1;
};

}  // namespace isotope::kv
