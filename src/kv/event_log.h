// What a step has changed in the prefix cache, in order, as routers want to hear it. Filled by the pool and the manager, taken
// once a step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace isotope::kv {

/// What besides the tokens tells prefixes apart, as text for other programs.
struct PrefixLabels {
  std::string salt, lora;
};

/// Consecutive blocks of one chain that were filed.
struct BlockStored {
  std::vector<uint64_t> hashes;    ///< in chain order
  std::optional<uint64_t> parent;  ///< of the first one; none at the start of a sequence
  std::vector<int32_t> tokens;     ///< of exactly these blocks
  PrefixLabels labels;
  int64_t salted = -1;             ///< which of them begins the salted part of its chain, or -1
};
struct BlockRemoved {
  std::vector<uint64_t> hashes;
};
struct AllBlocksCleared {};
using Event = std::variant<BlockStored, BlockRemoved, AllBlocksCleared>;

class EventLog {
 public:
  /// Never throws. When there is no memory the log says that everything was cleared: routers then know too little, never too much.
  void removed(uint64_t hash) noexcept;
  void stored(BlockStored) noexcept;
  void cleared() noexcept;
  bool empty() const noexcept { return events_.empty() && !lost_; }
  /// All events since the last call.
  std::vector<Event> take();

 private:
  template <class F>
  void record(F&& f) noexcept;
  std::vector<Event> events_;
  bool lost_ = false;
};

}  // namespace isotope::kv
