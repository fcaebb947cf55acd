// The publisher's sender thread: PUB for live batches, ROUTER for replays. Sockets are made by the caller, so that a bad address
// stops the start, and then belong to the thread.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <zmq.hpp>

#include "base/log.h"
#include "kv/event_endpoint.h"
#include "kv/event_publisher.h"
#include "kv/event_queue.h"
#include "kv/replay.h"

namespace isotope::kv {

namespace {

constexpr int kLingerMs = 1000;
constexpr int64_t kLargestRequestFrame = 256;  ///< identity, delimiter and number are far smaller

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class NullPublisher final : public EventPublisher {
 public:
  void publish(std::vector<Event>) override {}
  const PublisherOptions& bound() const override { return bound_; }
  PublisherStats stats() const override { return {}; }

 private:
  PublisherOptions bound_{.endpoint = ""};
};

Result<std::string> bind(zmq::socket_t& socket, const std::string& endpoint, const char* setting) {
  try {
    socket.bind(endpoint);
    return socket.get(zmq::sockopt::last_endpoint);
  } catch (const zmq::error_t& e) {
    return fail(Code::invalid_argument, fmt::format("cannot bind '{}': {}", endpoint, e.what()), setting,
                "choose a free address; every data-parallel rank adds its number to the ports, so those of events and replay must lie "
                "at least data_parallel_size apart");
  }
}

class ZmqPublisher final : public EventPublisher {
 public:
  explicit ZmqPublisher(PublisherOptions o)
      : options_(std::move(o)), queue_(options_.queue), context_(1), pub_(context_, zmq::socket_type::pub), history_(options_.history) {}

  Result<void> open() {
    ISO_TRY(const std::string endpoint, endpoint_of_rank(options_.endpoint, options_.rank, "ATOM_KV_EVENTS_ENDPOINT"));
    pub_.set(zmq::sockopt::sndhwm, options_.hwm);
    pub_.set(zmq::sockopt::linger, kLingerMs);
    ISO_TRY(options_.endpoint, bind(pub_, endpoint, "ATOM_KV_EVENTS_ENDPOINT"));
    if (!options_.replay_endpoint.empty()) {
      const char* setting = "ATOM_KV_EVENTS_REPLAY_ENDPOINT";
      ISO_TRY(const std::string replay, endpoint_of_rank(options_.replay_endpoint, options_.rank, setting));
      router_.emplace(context_, zmq::socket_type::router);
      router_->set(zmq::sockopt::router_mandatory, true);
      router_->set(zmq::sockopt::maxmsgsize, kLargestRequestFrame);
      router_->set(zmq::sockopt::linger, 0);
      ISO_TRY(options_.replay_endpoint, bind(*router_, replay, setting));
      replays_.emplace(*router_, history_, options_.topic);
    }
    thread_ = std::thread([this] { loop(); });
    return {};
  }

  ~ZmqPublisher() override {
    queue_.close();
    if (thread_.joinable()) thread_.join();  // PUB and ROUTER never wait, so it ends as soon as the queue is empty
  }

  void publish(std::vector<Event> events) override {
    dropped_ += queue_.put({.seconds = unix_seconds(), .events = std::move(events), .rank = options_.rank});
  }
  const PublisherOptions& bound() const override { return options_; }
  PublisherStats stats() const override {
    return {.sent = sent_, .dropped = dropped_, .encode_errors = encode_errors_, .replayed = replayed_,
            .replay_aborted = aborted_, .bad_requests = bad_requests_};
  }

 private:
  void loop() noexcept {
    bool closed = false;
    while (!closed) {
      try {
        for (NumberedBatch& b : queue_.take(closed)) send(b);
        if (replays_) serve_replays();
        if (!closed) wait();
      } catch (const std::exception& e) {
        base::log(base::LogLevel::error, "KV events: {}", e.what());
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    router_.reset();
    pub_.close();
  }

  void send(const NumberedBatch& b) {
    std::string payload;
    try {
      payload = encode(b.batch, options_.format);
    } catch (const std::exception& e) {
      if (encode_errors_++ == 0) base::log(base::LogLevel::error, "KV event batch {} cannot be written: {}", b.number, e.what());
      return;
    }
    const auto more = zmq::send_flags::sndmore;
    pub_.send(zmq::buffer(options_.topic), more);
    pub_.send(zmq::buffer(sequence_bytes(b.number)), more);
    pub_.send(zmq::buffer(payload), zmq::send_flags::none);
    ++sent_;
    if (replays_) history_.add(b.number, std::move(payload));
  }

  void serve_replays() {
    replays_->accept();
    replays_->advance();
    const ReplayStats& s = replays_->stats();
    replayed_ = s.replayed;
    aborted_ = s.aborted;
    bad_requests_ = s.bad_requests;
  }

  /// Until there is a batch or a request. A replay whose client is slow is tried again soon.
  void wait() {
    if (!queue_.sleep()) return;
    std::array<zmq::pollitem_t, 2> items{{{nullptr, queue_.descriptor(), ZMQ_POLLIN, 0}, {nullptr, 0, ZMQ_POLLIN, 0}}};
    if (router_) items[1].socket = router_->handle();
    try {
      zmq::poll(items.data(), router_ ? 2 : 1, std::chrono::milliseconds(replays_ && replays_->busy() ? 1 : -1));
    } catch (const zmq::error_t& e) {
      if (e.num() != EINTR) throw;
    }
    queue_.awake();
  }

  PublisherOptions options_;
  EventQueue queue_;
  std::atomic<int64_t> sent_{0}, dropped_{0}, encode_errors_{0}, replayed_{0}, aborted_{0}, bad_requests_{0};
  zmq::context_t context_;
  zmq::socket_t pub_;
  std::optional<zmq::socket_t> router_;
  ReplayHistory history_;
  std::optional<Replays> replays_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<EventPublisher> make_null_publisher() {
  return std::make_unique<NullPublisher>();
}

Result<std::unique_ptr<EventPublisher>> make_zmq_publisher(PublisherOptions o) {
  try {
    auto p = std::make_unique<ZmqPublisher>(std::move(o));
    ISO_CHECK_OK(p->open());
    return p;
  } catch (const std::exception& e) {
    return fail(Code::unavailable, fmt::format("the publisher of KV events cannot start: {}", e.what()), "ATOM_KV_EVENTS_ENABLE",
                "check the limits on sockets and threads");
  }
}

}  // namespace isotope::kv
