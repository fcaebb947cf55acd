// Finishes modules that are quantized while they load on threads of their own, behind the walk through the files. Internal to load_all.cc.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "weights/load_all.h"
#include "weights/online.h"

namespace isotope::weights {

/// At most twice as many modules as there are workers are in flight, so that memory holds no more sources than those.
class StreamQuant {
 public:
  /// `staging`: take() copies the sources, so that many threads may walk the files; without, a worker reads them when it is a module's turn.
  /// `workers` 0: take() does all the work itself.
  StreamQuant(const OnlineCheckpoint& c, bool staging, int workers);
  ~StreamQuant();

  /// Hands a module over; waits while too many are in flight. A worker's error comes out here or from drain(). The job must live until drain().
  Result<void> take(const LoadJob&);
  /// Waits for the rest.
  Result<void> drain();

  int done() const { return done_; }
  int most_in_flight() const { return most_; }
  int workers() const { return int(threads_.size()); }

 private:
  struct Item {
    const LoadJob* job;
    std::vector<Checkpoint::Data> staged;  ///< empty without staging
  };
  Result<void> finish(Item&) const;
  void work();

  const OnlineCheckpoint& c_;
  const bool staging_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  int in_flight_ = 0, limit_ = 1;
  std::atomic<int> most_ = 0, done_ = 0;
  bool end_ = false;
  std::optional<Error> error_;
  std::vector<std::jthread> threads_;
};

}  // namespace isotope::weights
