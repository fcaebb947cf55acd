#include "engine/state_replay.h"

#include <fmt/format.h>

#include <algorithm>

namespace isotope::engine {

StateReplay state_replay(const models::ModelConfig& c, std::span<const ops::KvGroupSpec> groups, const ReplayGates& gates) {
  if (!c.compressed) return {.off = fmt::format("{} is no DeepSeek V4", c.arch)};
  int64_t window = 0, longest = 0;
  for (const models::LayerConfig& l : c.layer) {
    if (l.ratio != 0 && l.ratio != 4 && l.ratio != 128) return {.off = fmt::format("a layer compresses {} tokens to an entry; 4 and 128 are known", l.ratio)};
    window = std::max(window, l.window);
  }
  if (!gates.prefix_caching) return {.off = "the prefix cache is off"};
  if (gates.other_drafter) return {.off = "tokens are drafted by something else than the file's own layers"};
  if (!gates.connector.empty()) return {.off = fmt::format("a KV connector is in use ({})", gates.connector)};
  for (const ops::KvGroupSpec& g : groups)
    if (g.kind == ops::KvGroupSpec::Kind::sliding) longest = std::max(longest, g.window);
  if (window <= 0) return {.off = "no layer has a window"};
  return {.tokens = longest + (c.layers + gates.draft_layers - 1) * (window - 1), .off = {}};
}

}  // namespace isotope::engine
