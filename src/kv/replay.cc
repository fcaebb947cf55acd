#include "kv/replay.h"

#include <algorithm>
#include <array>

namespace isotope::kv {

// ---- history ------------------------------------------------------------------------------------------------------------------

void ReplayHistory::add(uint64_t number, std::string payload) {
  if (entries_.size() == capacity_) entries_.pop_front();
  entries_.push_back({number, std::make_shared<const std::string>(std::move(payload))});
}

const ReplayHistory::Entry* ReplayHistory::from(uint64_t number) const {
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), number, [](const Entry& e, uint64_t n) { return e.number < n; });
  return it == entries_.end() ? nullptr : &*it;
}

std::optional<std::pair<uint64_t, uint64_t>> ReplayHistory::window() const {
  if (entries_.empty()) return std::nullopt;
  return std::pair(entries_.front().number, entries_.back().number);
}

// ---- requests -----------------------------------------------------------------------------------------------------------------

void Replays::accept() {
  for (int i = 0; i < 16; ++i) {  // no more, so that a flood of requests cannot hold up live events
    constexpr size_t kFrames = 4;  // one more than a request has
    std::array<std::string, kFrames> kept;
    size_t frames = 0;
    for (bool more = true; more; ++frames) {
      zmq::message_t m;
      if (!router_.recv(m, zmq::recv_flags::dontwait)) return;
      more = m.more();
      if (frames < kFrames) kept[frames] = m.to_string();
    }
    std::array<std::string_view, kFrames> views;
    std::copy(kept.begin(), kept.end(), views.begin());
    const auto request = parse_replay_request(std::span(views).first(std::min(frames, kFrames)));
    if (request && (jobs_.size() < kAtOnce))
      start(std::move(kept[0]), *request);
    else
      ++stats_.bad_requests;
  }
}

void Replays::start(std::string identity, const ReplayRequest& request) {
  const auto same = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.identity == identity; });
  if (same != jobs_.end()) {
    jobs_.erase(same);
    ++stats_.aborted;
  }
  jobs_.push_back({std::move(identity), request, request.from, std::chrono::steady_clock::now()});
}

// ---- answers ------------------------------------------------------------------------------------------------------------------

Replays::Sent Replays::send(const Job& j, const SequenceBytes& number, std::string_view payload, bool end) {
  const auto flags = zmq::send_flags::dontwait | zmq::send_flags::sndmore;
  try {
    if (!router_.send(zmq::buffer(j.identity), flags)) return Sent::full;
    if (j.request.delimited) {
      router_.send(zmq::message_t(), flags);
      router_.send(zmq::buffer(end ? std::string_view() : std::string_view(topic_)), flags);
    }
    router_.send(zmq::buffer(number), flags);
    router_.send(zmq::buffer(payload), zmq::send_flags::dontwait);
    return Sent::yes;
  } catch (const zmq::error_t& e) {
    if (e.num() == EAGAIN) return Sent::full;
    return Sent::gone;
  }
}

bool Replays::advance(Job& j, int& budget) {
  const auto now = std::chrono::steady_clock::now();
  for (; budget > 0; --budget) {
    const ReplayHistory::Entry* e = history_.from(j.next);
    const std::string end = e || j.request.delimited ? std::string() : encode_window(history_.window());
    const Sent sent = e ? send(j, sequence_bytes(e->number), *e->payload, false) : send(j, sequence_bytes(kEndOfReplay), end, true);
    if (sent == Sent::gone || (sent == Sent::full && now - j.moved > kPatience)) {
      ++stats_.aborted;
      return false;
    }
    if (sent == Sent::full) return true;
    if (!e) return false;
    ++stats_.replayed;
    j.next = e->number + 1;
    j.moved = now;
  }
  return true;
}

void Replays::advance() {
  int budget = kBatchesPerTurn;
  for (size_t n = jobs_.size(); n > 0 && budget > 0; --n) {  // each in its turn
    Job j = std::move(jobs_.front());
    jobs_.pop_front();
    if (advance(j, budget)) jobs_.push_back(std::move(j));
  }
}

}  // namespace isotope::kv
