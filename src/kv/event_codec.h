// KV events on the wire, as vLLM defines it: a batch is the MessagePack array [seconds, events, rank]; an event is a map with its
// type and fields by name, or in the older form an array [type, fields …] in declaration order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/event_log.h"

namespace isotope::kv {

enum class EventEncoding { map, array };

struct EventBatch {
  double seconds = 0;  ///< since the epoch
  std::vector<Event> events;
  int rank = 0;        ///< data-parallel rank
};

struct EventFormat {
  EventEncoding encoding = EventEncoding::map;
  int block_size = 16;
};

/// Local KV is announced as vLLM's primary tier, whatever memory it lies in, so that routers count it.
inline constexpr std::string_view kMedium = "GPU";

std::string encode(const EventBatch&, const EventFormat&);

using SequenceBytes = std::array<char, 8>;
SequenceBytes sequence_bytes(uint64_t number);       ///< big-endian
inline constexpr uint64_t kEndOfReplay = UINT64_MAX;  ///< never a sequence number

/// A replay request: the frames a ROUTER received. [identity, empty, sequence] is vLLM's, [identity, sequence] ATOM's.
struct ReplayRequest {
  uint64_t from = 0;
  bool delimited = false;  ///< the answer repeats the empty frame and the topic, and ends in an empty payload
};
/// None when the frames are no such request.
std::optional<ReplayRequest> parse_replay_request(std::span<const std::string_view> frames);
/// ATOM's end of a replay: the MessagePack array [oldest, newest] of what is kept, nil when nothing is.
std::string encode_window(std::optional<std::pair<uint64_t, uint64_t>>);

}  // namespace isotope::kv
