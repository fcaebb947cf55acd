// Settings to the publisher of KV events.
#pragma once

#include <memory>

#include "isotope/engine.h"
#include "kv/event_publisher.h"
#include "levers/groups.h"

namespace isotope::engine {

/// Null when events are off, or there is no prefix cache to tell about. Fails when an address is malformed or taken.
Result<std::unique_ptr<kv::EventPublisher>> make_publisher(const levers::KvEvents&, const EngineOptions&, int rank);
KvEventSource describe(const kv::EventPublisher&);

}  // namespace isotope::engine
