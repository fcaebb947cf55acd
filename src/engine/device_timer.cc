#include "engine/device_timer.h"

#include "base/log.h"

namespace isotope::engine {

void DeviceTimer::begin(int64_t now_ns, std::vector<Chunk> chunks) {
  measuring_ = passes_.size() < kPending;
  if (measuring_) {
    passes_.push_back({.begin_ns = now_ns, .chunks = std::move(chunks)});
    return;
  }
  for (const Chunk& c : chunks) discard(c.request);
}

void DeviceTimer::end(int64_t now_ns) {
  if (!measuring_) return;
  passes_.back().end_ns = now_ns;
  passes_.back().ended = true;
  measuring_ = false;
}

void DeviceTimer::fail() {
  if (!measuring_) return;
  for (const Chunk& c : passes_.back().chunks) discard(c.request);
  passes_.pop_back();
  measuring_ = false;
}

void DeviceTimer::discard(uint64_t request) {
  sums_.erase(request);
  for (Pass& p : passes_) std::erase_if(p.chunks, [&](const Chunk& c) { return c.request == request; });
}

void DeviceTimer::poll(const Sinks& sinks) {
  while (!passes_.empty() && passes_.front().ended) {
    const Pass p = std::move(passes_.front());
    passes_.pop_front();
    const double seconds = double(p.end_ns - p.begin_ns) * 1e-9;
    if (seconds < 0) {
      if (invalid_++ == 0) base::log(base::LogLevel::warning, "a forward pass of {} s was measured; such times are left out", seconds);
      for (const Chunk& c : p.chunks) discard(c.request);
      continue;
    }
    sinks.forward(seconds);
    for (const Chunk& c : p.chunks) add(c, seconds, sinks);
  }
}

void DeviceTimer::add(const Chunk& c, double seconds, const Sinks& sinks) {
  if (c.number == 1) {  // also when the id is used again: what an earlier request left does not count
    sums_[c.request] = {};
    order_.push_back(c.request);
  }
  const auto it = sums_.find(c.request);
  if (it == sums_.end()) return;
  if (it->second.next != c.number) {
    sums_.erase(it);
    return;
  }
  ++it->second.next;
  it->second.seconds += seconds;
  if (c.last) {
    sinks.prefill(it->second.seconds);
    sums_.erase(it);
  }
  while (sums_.size() > kTracked || order_.size() > 2 * kTracked) {
    sums_.erase(order_.front());
    order_.pop_front();
  }
}

}  // namespace isotope::engine
