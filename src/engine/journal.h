// What is remembered of how requests went: a bounded list of decisions for each, and a ring of finished ones.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/heap_keeper.h"
#include "isotope/engine.h"

namespace isotope::engine {

/// The decisions of one request. The engine's thread writes, any thread reads.
class Journal {
 public:
  static constexpr size_t kFirst = 24, kLatest = 40;  ///< kept of a long story: its beginning and its end

  Journal(uint64_t id, std::string label, int rank, int64_t submitted_ns);

  /// A decision made at `now_ns`. Never fails: without memory it is counted as dropped.
  void note(Decision, int64_t now_ns) noexcept;
  void close(FinishReason, const RequestStats&) noexcept;
  RequestRecord record() const;

  uint64_t id() const { return id_; }
  const std::string& label() const { return label_; }
  int64_t submitted_ns() const { return submitted_ns_; }

 private:
  bool trim();

  uint64_t id_;
  std::string label_;
  int rank_;
  int64_t submitted_ns_;
  mutable std::mutex mutex_;
  std::vector<Decision> decisions_;  ///< beyond kFirst a ring of the latest
  size_t oldest_ = 0;                ///< of the ring, which wraps to kFirst; 0 while nothing has been dropped
  int64_t dropped_ = 0;
  FinishReason finish_ = FinishReason::none;
  RequestStats stats_;
  base::Tracked tracked_{"request record", "engine"};
};

/// The journals of an engine. Any thread.
class Journals {
 public:
  static constexpr size_t kRemembered = 4096;

  std::shared_ptr<Journal> open(uint64_t id, std::string label, int rank, int64_t submitted_ns);
  void close(uint64_t id) noexcept;  ///< from now on among the finished
  void drop(uint64_t id);            ///< as if never opened
  /// See Engine::records.
  std::vector<RequestRecord> find(std::string_view name, size_t most) const;
  std::shared_ptr<Journal> of(uint64_t id) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Journal>> alive_;
  std::deque<std::shared_ptr<Journal>> done_;  ///< the oldest first
};

}  // namespace isotope::engine
