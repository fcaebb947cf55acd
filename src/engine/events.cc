#include "engine/events.h"

#include "base/log.h"

namespace isotope::engine {

Result<std::unique_ptr<kv::EventPublisher>> make_publisher(const levers::KvEvents& l, const EngineOptions& o, int rank) {
  if (!l.enable) return nullptr;
  if (!o.prefix_caching) {
    base::log(base::LogLevel::warning, "no KV events are published: prefix caching is off");
    return nullptr;
  }
  if (l.publisher == "null") return kv::make_null_publisher();
  ISO_TRY(auto p, kv::make_zmq_publisher(
                      {.endpoint = l.endpoint,
                       .replay_endpoint = l.replay_endpoint,
                       .topic = l.topic,
                       .hwm = l.hwm,
                       .queue = l.buffer_steps,
                       .history = l.replay_buffer_steps,
                       .rank = rank,
                       .format = {.encoding = l.encoding == "array" ? kv::EventEncoding::array : kv::EventEncoding::map,
                                  .block_size = o.block_size}}));
  const kv::PublisherOptions& b = p->bound();
  base::log(base::LogLevel::info, "KV events of rank {}: {}{}{}", rank, b.endpoint, b.replay_endpoint.empty() ? "" : ", replay ",
            b.replay_endpoint);
  return p;
}

KvEventSource describe(const kv::EventPublisher& p) {
  const kv::PublisherOptions& b = p.bound();
  return {.rank = b.rank,
          .publisher = b.endpoint.empty() ? "null" : "zmq",
          .endpoint = b.endpoint,
          .replay_endpoint = b.replay_endpoint,
          .topic = b.topic,
          .hwm = b.hwm,
          .queue = b.queue,
          .history = b.history};
}

}  // namespace isotope::engine
