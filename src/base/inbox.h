// Many threads put, one thread takes: a lock-free stack that is taken whole and turned round. The taker sleeps on a condition
// variable while there is nothing to do; a putter touches the mutex only when the taker says that it is asleep.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace isotope::base {

template <class T>
class Inbox {
 public:
  Inbox() = default;
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox() {
    drain([](T&&) {});
  }

  /// Any thread.
  void put(T value) {
    Node* node = new Node{std::move(value), head_.load(std::memory_order_relaxed)};
    while (!head_.compare_exchange_weak(node->next, node, std::memory_order_seq_cst, std::memory_order_relaxed)) {
    }
    wake();
  }

  /// Any thread: ends the taker's wait without a value.
  void poke() {
    poked_.store(true, std::memory_order_seq_cst);
    wake();
  }

  /// Taker only: calls f for every value put so far, oldest first.
  template <class F>
  void drain(F&& f) {
    Node* node = head_.exchange(nullptr, std::memory_order_acquire);
    Node* first = nullptr;
    while (node) {
      Node* next = node->next;
      node->next = first;
      first = node;
      node = next;
    }
    while (first) {
      Node* next = first->next;
      T value = std::move(first->value);
      delete first;
      first = next;
      f(std::move(value));
    }
  }

  /// Taker only: sleeps until there is a value, a poke, or the time is over.
  template <class Clock, class Duration>
  void wait_until(std::chrono::time_point<Clock, Duration> end) {
    std::unique_lock lock(mutex_);
    asleep_.store(true, std::memory_order_seq_cst);
    awake_.wait_until(lock, end, [&] { return something(); });
    asleep_.store(false, std::memory_order_relaxed);
    poked_.store(false, std::memory_order_relaxed);
  }
  void wait() {
    std::unique_lock lock(mutex_);
    asleep_.store(true, std::memory_order_seq_cst);
    awake_.wait(lock, [&] { return something(); });
    asleep_.store(false, std::memory_order_relaxed);
    poked_.store(false, std::memory_order_relaxed);
  }

 private:
  struct Node {
    T value;
    Node* next;
  };
  bool something() const { return head_.load(std::memory_order_seq_cst) || poked_.load(std::memory_order_seq_cst); }
  void wake() {
    if (!asleep_.load(std::memory_order_seq_cst)) return;
    const std::lock_guard lock(mutex_);
    awake_.notify_one();
  }

  std::atomic<Node*> head_{nullptr};
  std::atomic<bool> asleep_{false}, poked_{false};
  std::mutex mutex_;
  std::condition_variable awake_;
};

}  // namespace isotope::base
