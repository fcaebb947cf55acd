// Replays in progress on the ROUTER socket. A few batches a turn, so that live events go on between them; a client that stops
// reading or goes away loses its replay and may ask again.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "kv/event_codec.h"

namespace isotope::kv {

/// Encoded batches that were sent, the newest `capacity` of them, numbers ascending (with gaps where some were dropped).
class ReplayHistory {
 public:
  struct Entry {
    uint64_t number;
    std::shared_ptr<const std::string> payload;
  };
  explicit ReplayHistory(int64_t capacity) : capacity_(size_t(capacity)) {}
  void add(uint64_t number, std::string payload);
  /// The first entry with a number >= from, or null.
  const Entry* from(uint64_t number) const;
  std::optional<std::pair<uint64_t, uint64_t>> window() const;

 private:
  size_t capacity_;
  std::deque<Entry> entries_;
};

struct ReplayStats {
  int64_t replayed = 0, aborted = 0, bad_requests = 0;
};

class Replays {
 public:
  static constexpr size_t kAtOnce = 64;        ///< clients; more are told nothing and may ask again
  static constexpr int kBatchesPerTurn = 64;
  static constexpr std::chrono::seconds kPatience{2};  ///< without progress

  Replays(zmq::socket_ref router, const ReplayHistory& history, std::string topic)
      : router_(router), history_(history), topic_(std::move(topic)) {}
  /// Reads at most a few requests that have arrived.
  void accept();
  /// Sends some batches. Never waits.
  void advance();
  bool busy() const { return !jobs_.empty(); }
  const ReplayStats& stats() const { return stats_; }

 private:
  struct Job {
    std::string identity;
    ReplayRequest request;
    uint64_t next;
    std::chrono::steady_clock::time_point moved;
  };
  enum class Sent { yes, full, gone };
  void start(std::string identity, const ReplayRequest&);
  Sent send(const Job&, const SequenceBytes& number, std::string_view payload, bool end);
  /// False when the job is over.
  bool advance(Job&, int& budget);

  zmq::socket_ref router_;
  const ReplayHistory& history_;
  std::string topic_;
  std::deque<Job> jobs_;
  ReplayStats stats_;
};

}  // namespace isotope::kv
