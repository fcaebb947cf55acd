// What other threads may see: which requests are alive, how each one is doing, the engine's numbers. Held locks are short and
// never span a step.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "isotope/engine.h"

namespace isotope::engine {

class Board {
 public:
  static constexpr size_t kRemembered = 4096;  ///< finished requests whose statistics are kept

  /// Any thread. False if a request of that id is alive.
  bool open(uint64_t id, const RequestStats&);
  void update(uint64_t id, const RequestStats&);
  void close(uint64_t id, const RequestStats&) noexcept;  ///< no longer alive; kept among the finished ones
  void drop(uint64_t id);                                 ///< as if never opened
  std::optional<RequestStats> find(uint64_t id) const;
  int64_t alive() const;  ///< accepted and not finished

  void publish(const EngineStats&);
  /// The last published numbers; waiting and last_step_age_s are of this moment.
  EngineStats stats() const;
  /// The engine has done something: the age of the last step starts anew.
  void progress();

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, RequestStats> alive_, done_;
  std::deque<uint64_t> order_;  ///< of done_, oldest first
  EngineStats stats_;
  std::atomic<int64_t> progress_ns_{0};
};

}  // namespace isotope::engine
