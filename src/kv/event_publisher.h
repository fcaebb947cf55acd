// Tells routers what the prefix cache holds. Advisory: nothing waits for it, and what is lost shows as a gap in the numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "isotope/result.h"
#include "kv/event_codec.h"
#include "kv/event_log.h"

namespace isotope::kv {

struct PublisherOptions {
  std::string endpoint = "tcp://127.0.0.1:5557";  ///< PUB, of rank 0
  std::string replay_endpoint;                    ///< ROUTER, of rank 0; empty = no replay
  std::string topic;
  int hwm = 0;                                    ///< messages that wait for a slow subscriber; 0 = no limit
  int64_t queue = 10000;                          ///< batches that wait for the sender; the oldest is dropped beyond
  int64_t history = 10000;                        ///< batches that can be replayed
  int rank = 0;
  EventFormat format;
};

/// Since the start.
struct PublisherStats {
  int64_t sent = 0;            ///< batches
  int64_t dropped = 0;         ///< before sending, because the sender lagged
  int64_t encode_errors = 0;   ///< batches that could not be written; their numbers stay used
  int64_t replayed = 0;        ///< batches sent again
  int64_t replay_aborted = 0;  ///< replays whose client vanished, stalled or asked again
  int64_t bad_requests = 0;    ///< messages to the replay socket that are no request
};

class EventPublisher {
 public:
  virtual ~EventPublisher() = default;
  /// One batch. One thread calls it; it never waits for a socket.
  virtual void publish(std::vector<Event>) = 0;
  /// Where it is bound, for discovery; empty when nowhere.
  virtual const PublisherOptions& bound() const = 0;
  virtual PublisherStats stats() const = 0;  ///< any thread
};

/// Accepts and discards.
std::unique_ptr<EventPublisher> make_null_publisher();
/// Binds the addresses of the rank and starts the sender's thread. Fails when an address is malformed or taken.
Result<std::unique_ptr<EventPublisher>> make_zmq_publisher(PublisherOptions);

}  // namespace isotope::kv
